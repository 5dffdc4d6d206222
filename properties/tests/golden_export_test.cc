// norma golden export, as its users meet it.
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <sstream>
#include <tuple>

#include "program.h"

namespace norma {
namespace {

// The golden files of a format that numpy has not, and of tensors that are inputs and outputs.
class GoldenExport : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    fs::create_directory(at("files"));
    for (const char* name : names) fs::copy(NORMA_SOURCE "/golden/vectors_v1/" + std::string(name) + ".json", at("files"));
  }

  void put(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(at(name), std::as_bytes(std::span(text))).ok());
  }
  // Exports, which succeeds, and gives what is printed.
  [[nodiscard]] std::string exported(const std::string& format, const std::string& to) const {
    const Outcome o = norma("golden export --dir files --format " + format + " --out " + to);
    EXPECT_EQ(o.status, 0) << o.err;
    return o.out;
  }
  // Every file under a folder, by its path there.
  [[nodiscard]] std::map<std::string, std::string> tree(const std::string& folder) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(at(folder))) {
      if (entry.is_regular_file()) files[fs::relative(entry.path(), at(folder)).string()] = contents(entry.path());
    }
    return files;
  }

  static constexpr const char* names[] = {"rms_norm_bf16", "batch_norm_training_f32"};
};

// The readers of golden/README.md find the bits of the files, and all that is said beside them.
TEST_F(GoldenExport, TensorsAreThoseOfTheFiles) {
  const std::string compare =
      "WHERE = {'in': ('inputs', 'data'), 'out': ('outputs', 'data'), 'lo': ('outputs', 'lo'), 'hi': ('outputs', 'hi')}\n"
      "DTYPES = {'bf16': '<u2', 'f32': '<f4', 'f64': '<f8', 'f16': '<f2'}\n"
      "compared = 0\n"
      "for case in json.load(open(sys.argv[2]))['cases']:\n"
      "    assert cases.pop(case['id']) == {key: case[key] for key in case if key not in ('inputs', 'outputs')}, case['id']\n"
      "    for kind, (group, bits) in WHERE.items():\n"
      "        for role, t in case[group].items():\n"
      "            found = tensor(f\"{case['id']}.{kind}.{role}\")\n"
      "            assert found.tobytes().hex() == t[bits] and list(found.shape) == t['shape'], (case['id'], kind, role)\n"
      "            assert found.dtype == DTYPES[t['dtype']], (found.dtype, t['dtype'])\n"
      "            compared += 1\n"
      "assert not cases\n"
      "print(compared)\n";
  const std::string page = contents(NORMA_SOURCE "/golden/README.md");
  for (const std::string format : {"safetensors", "npz"}) {
    const std::string before = "in `." + format + "`:\n\n```python\n";
    const std::size_t start = page.find(before) + before.size(), end = page.find("```", start);
    ASSERT_NE(end, std::string::npos) << format;
    put("reader.py", page.substr(start, end - start) + compare);
    EXPECT_TRUE(exported(format, format).starts_with("2 files, "));
    (void)exported(format, "again");
    for (const std::string name : names) {
      const std::string file = name + "." + format;
      EXPECT_EQ(contents(at(format) / file), contents(at("again") / file));
      const std::string run =
          "cd " + at("").string() + " && " NORMA_PYTHON " reader.py " + format + "/" + file + " files/" + name + ".json >.out 2>&1";
      ASSERT_EQ(std::system(run.c_str()), 0) << contents(at(".out"));
      EXPECT_GT(std::stoi(contents(at(".out"))), 1000) << name;
    }
  }
}

TEST_F(GoldenExport, OnnxFoldersAreWholeAndTheSameAgain) {
  const std::string said = exported("onnx", "tests");
  int folders = 0, left_out = 0, cases = 0, reasons = 0;
  std::istringstream lines(said);
  std::string line;
  std::getline(lines, line);
  ASSERT_EQ(std::sscanf(line.c_str(), "%d folders, ", &folders), 1) << said;
  std::getline(lines, line);
  ASSERT_EQ(std::sscanf(line.c_str(), "%d cases that ONNX cannot say:", &left_out), 1) << said;
  while (std::getline(lines, line)) reasons += std::stoi(line);
  EXPECT_EQ(reasons, left_out) << said;
  for (const std::string name : names) {
    cases += nlohmann::json::parse(contents(at("files") / (name + ".json")))["number_of_cases"].get<int>();
  }
  EXPECT_EQ(folders + left_out, cases) << said;
  const std::map<std::string, std::string> files = tree("tests");
  EXPECT_EQ(std::count_if(files.begin(), files.end(), [](const auto& f) { return f.first.ends_with("/model.onnx"); }), folders);
  EXPECT_EQ(std::count_if(files.begin(), files.end(), [](const auto& f) { return f.first.ends_with("/test_data_set_0/high_0.pb"); }),
            folders);
  // Over itself, and anew.
  EXPECT_EQ(exported("onnx", "tests"), said);
  EXPECT_EQ(tree("tests"), files);
  (void)exported("onnx", "new/folder");
  EXPECT_EQ(tree("new/folder"), files);
}

TEST_F(GoldenExport, WhatCannotBeExportedIsOneLine) {
  const std::string from = "golden export --dir files ";
  expect_refusal(from + "--format npy --out x", {"--format \"npy\": expected safetensors, npz, onnx, did you mean npz?"});
  expect_refusal(from + "--format npz", {"--out"});
  expect_refusal(from + "--format npz --out files/../files", {"--out: files/../files is the folder of the golden files"});
  expect_refusal(from + "--format npz --out /dev/null/x", {"--out: /dev/null/x is no folder, and cannot be made one"});
  expect_refusal("golden export --dir nowhere --format npz --out x", {"nowhere: "});
  EXPECT_FALSE(fs::exists(at("x")));

  // What is in the way stays.
  fs::create_directories(at("taken/rms_norm_bf16.npz"));
  expect_refusal(from + "--format npz --out taken", {"taken/rms_norm_bf16.npz: is a directory"});
  (void)exported("onnx", "tests");
  const std::string some = tree("tests").begin()->first, folder = some.substr(0, some.find('/'));
  put("taken/" + folder, "mine");
  expect_refusal(from + "--format onnx --out taken", {"taken/" + folder + "/test_data_set_0 is no folder, and cannot be made one"});
  EXPECT_EQ(contents(at("taken") / folder), "mine");

  // A file that cannot be read is found before anything is written.
  const std::string text = contents(at("files/rms_norm_bf16.json"));
  put("files/rms_norm_bf16.json", text.substr(0, text.size() / 2));
  expect_refusal(from + "--format npz --out x", {"files/rms_norm_bf16.json: is no JSON"});
  EXPECT_FALSE(fs::exists(at("x")));

  // What an id may name.
  for (const char* id : {"../../x", "a.in.x", ""}) {
    nlohmann::ordered_json bad = nlohmann::ordered_json::parse(text);
    bad["cases"][3]["id"] = id;
    put("files/rms_norm_bf16.json", bad.dump());
    expect_refusal(from + "--format onnx --out x",
                   {"files/rms_norm_bf16.json: case \"" + std::string(id) + "\": expected an id of its own"});
  }
  nlohmann::ordered_json twice = nlohmann::ordered_json::parse(text);
  twice["cases"].push_back(twice["cases"][3]);
  put("files/rms_norm_bf16.json", twice.dump());
  expect_refusal(from + "--format onnx --out x", {"expected an id of its own"});
  // Calls that are none.
  for (const auto& [place, value, says] : {std::tuple{"/axis", 9, "axis"}, std::tuple{"/inputs/x/shape", -1, "shape"}}) {
    nlohmann::ordered_json bad = nlohmann::ordered_json::parse(text);
    bad["cases"][3][nlohmann::ordered_json::json_pointer(place)] = value;
    put("files/rms_norm_bf16.json", bad.dump());
    expect_refusal(from + "--format onnx --out y", {says});
  }

  nlohmann::ordered_json only = nlohmann::ordered_json::parse(text);
  auto residual = nlohmann::ordered_json::array();
  for (const auto& c : only["cases"]) {
    if (c["inputs"].contains("residual")) residual.push_back(c);
  }
  ASSERT_GT(residual.size(), 1U);
  only["cases"] = residual;
  fs::create_directory(at("residual"));
  put("residual/rms_norm_bf16.json", only.dump());
  expect_refusal("golden export --dir residual --format onnx --out x",
                 {"nothing to export: ONNX can say none of the", "most of them for a residual"});
}

}  // namespace
}  // namespace norma
