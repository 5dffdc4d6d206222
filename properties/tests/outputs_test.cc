// Outputs that somebody's program wrote, against the golden files; and golden files that are made on demand.
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <span>

#include "program.h"

namespace norma {
namespace {

using nlohmann::ordered_json;

class Outputs : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    for (const char* folder : {"golden", "out"}) fs::create_directory(at(folder));
    const std::string all = contents(NORMA_SOURCE "/golden/vectors_v1/layer_norm_bf16.json");
    golden = ordered_json::parse(all);
    put("golden/layer_norm_bf16.json", all);
  }

  void put(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(at(name), std::as_bytes(std::span(text))).ok());
  }
  void give(const ordered_json& outputs) const { put("out/mine.json", outputs.dump()); }

  // What the program says of the outputs, which are not all there and right.
  void expect_fault(std::initializer_list<std::string> words, const std::string& options = "") const {
    const Outcome o = norma("golden verify --outputs out --dir golden " + options);
    EXPECT_EQ(o.status, 1) << o.out << o.err;
    EXPECT_EQ(o.out.find("\nholds"), std::string::npos) << o.out;
    for (const std::string& word : words) EXPECT_NE(o.out.find(word), std::string::npos) << "lacks \"" << word << "\":\n" << o.out;
  }

  ordered_json golden;
};

std::string id_of(const ordered_json& c) { return c["id"]; }

TEST_F(Outputs, OfTheFilesThemselvesAreRight) {
  give(golden);
  const Outcome o = norma("golden verify --outputs out --dir golden");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("\nholds: " + std::to_string(golden["cases"].size()) + " cases compared, 0 outside"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("100 %"), std::string::npos) << o.out;
  // So is anything within the interval; statistics may be left out, and anything else be there.
  for (ordered_json& c : golden["cases"]) {
    for (const char* statistic : {"mean", "rstd"}) c["outputs"].erase(statistic);
    c["outputs"]["y"]["data"] = c["outputs"]["y"]["hi"];
    c.erase("inputs");
  }
  golden["mine"] = {1, 2, 3};
  give(golden);
  const Outcome ends = norma("golden verify --outputs out --dir golden");
  // But for a case that is `should`, whose interval may end with an infinity.
  EXPECT_EQ(ends.status, 0) << ends.out << ends.err;
  EXPECT_EQ(ends.out.find("100 %"), std::string::npos) << ends.out;
}

TEST_F(Outputs, MayComeInParts) {
  ordered_json rest = golden, first = golden;
  first["cases"] = {golden["cases"][0]};
  rest["cases"].erase(0);
  give(rest);
  expect_fault({"INCOMPLETE: ", "1 missing", "\n" + id_of(golden["cases"][0]) + ".out.y is missing\n"});
  put("out/more.json", first.dump());
  EXPECT_EQ(norma("golden verify --outputs out --dir golden").status, 0);
  put("out/again.json", first.dump());
  expect_fault({id_of(golden["cases"][0]) + ".out.y is there twice"});
}

TEST_F(Outputs, AreChosen) {
  ordered_json some = golden;
  std::erase_if(some["cases"].get_ref<ordered_json::array_t&>(),
                [](const ordered_json& c) { return std::find(c["flags"].begin(), c["flags"].end(), "Profile") != c["flags"].end(); });
  ASSERT_LT(some["cases"].size(), golden["cases"].size());
  give(some);
  expect_fault({"INCOMPLETE: "});
  EXPECT_EQ(norma("golden verify --outputs out --dir golden --without Profile").status, 0);
  // What is there of the others is not looked at.
  give(golden);
  EXPECT_EQ(norma("golden verify --outputs out --dir golden --without Profile").status, 0);
  for (const char* const what : {"--outputs out", "plain"}) {
    for (const char* const word : {"--op rms_norm", "--dtype f32"}) {
      const Outcome none = norma(std::string("golden verify ") + what + " --dir golden --op layer_norm --dtype bf16 " + word);
      EXPECT_EQ(none.status, 2);
      EXPECT_EQ(none.err, std::string("norma: ") + word + ": golden has no such cases that are chosen\n");
    }
  }
  expect_refusal("golden verify --outputs out --dir golden --without Profle", {"--without", "\"Profle\"", "Profile"});
  expect_refusal("golden verify --outputs out --dir golden --op layer_nrom", {"layer_norm"});
  const Outcome subject = norma("golden verify plain --dir golden --without Profile");
  EXPECT_EQ(subject.status, 0);
  EXPECT_NE(subject.out.find("holds: " + std::to_string(some["cases"].size()) + " cases compared"), std::string::npos) << subject.out;
  std::erase_if(golden["cases"].get_ref<ordered_json::array_t&>(),
                [](const ordered_json& c) { return std::find(c["flags"].begin(), c["flags"].end(), "Profile") == c["flags"].end(); });
  put("golden/layer_norm_bf16.json", golden.dump());
  expect_fault({"UNTESTED: 0 cases compared"}, "--without Profile");
}

TEST_F(Outputs, ThatAreWrongAreNamed) {
  std::size_t at = 0;  // a case of `must` with more than one element
  while (golden["cases"][at]["severity"] != "must" || golden["cases"][at]["outputs"]["y"]["data"].get<std::string>().size() < 8) ++at;
  const std::string id = id_of(golden["cases"][at]);
  const auto with = [&](const char* key, const ordered_json& value) {
    ordered_json bad = golden;
    bad["cases"][at]["outputs"]["y"][key] = value;
    give(bad);
  };
  const ordered_json y = golden["cases"][at]["outputs"]["y"];
  std::string nan = y["data"], far = nan;
  nan.replace(4, 4, "c07f");
  far.replace(4, 4, "7f7f");
  with("data", nan);
  expect_fault({"VIOLATED: ", "1 outside", "\n" + id + ": y[1] is nan"});
  with("data", far);
  expect_fault({"VIOLATED: ", "1 outside", "\n" + id + ": y[1] is 3.39e+38 (0x7f7f), expected "});
  with("shape", {1, 1, 1, y["data"].get<std::string>().size() / 4});
  expect_fault({"INCOMPLETE: ", "1 missing", id + ".out.y has shape [1, 1, 1, ", "]: expected ["});
  with("dtype", "f16");
  expect_fault({"INCOMPLETE: ", "1 missing", id + ".out.y has dtype f16: expected bf16"});
  with("dtype", "int8");
  expect_fault({id + ".out.y has dtype int8: expected bf16"});
  with("data", y["data"].get<std::string>().substr(4));
  expect_refusal("golden verify --outputs out --dir golden", {"out/mine.json: ", id + ".out.y", "digits: expected"});
  with("data", "xy" + y["data"].get<std::string>().substr(2));
  expect_refusal("golden verify --outputs out --dir golden", {"out/mine.json: ", id + ".out.y", "hexadecimal"});
  ordered_json more = golden;
  more["cases"][at]["id"] = "layer_norm_bf16_000000000000";
  give(more);
  expect_fault({"no case has an output \"layer_norm_bf16_000000000000.out.y\"", id + ".out.y is missing"});
  // Of one that nothing else is wrong with, too.
  more = golden;
  more["cases"][at]["outputs"]["dx"] = y;
  give(more);
  expect_fault({"INCOMPLETE: ", "no case has an output \"" + id + ".out.dx\""});
}

TEST_F(Outputs, ComeAsTensors) {
  TensorFile file;
  for (const ordered_json& c : golden["cases"]) {
    const ordered_json& y = c["outputs"]["y"];
    Tensor t{id_of(c) + ".out.y", Format::bf16, y["shape"].get<Shape>(), {}};
    const std::string digits = y["data"];
    for (std::size_t i = 0; i < digits.size(); i += 2)
      t.data.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    file.tensors.push_back(std::move(t));
    if (!c["outputs"].contains("sum")) continue;
    Tensor sum = file.tensors.back();
    sum.name = id_of(c) + ".out.sum";
    const std::string data = c["outputs"]["sum"]["data"];
    for (std::size_t i = 0; i < data.size(); i += 2) sum.data[i / 2] = static_cast<std::byte>(std::stoi(data.substr(i, 2), nullptr, 16));
    file.tensors.push_back(std::move(sum));
  }
  ASSERT_TRUE(write_tensor_file(at("out/a.safetensors"), file).ok());
  const Outcome whole = norma("golden verify --outputs out --dir golden");
  EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
  // Numpy has no bf16: as bits.
  const std::string script =
      "import json, struct, numpy as np\n"
      "b = open('out/a.safetensors', 'rb').read(); n = struct.unpack('<Q', b[:8])[0]; h = json.loads(b[8:8+n]); d = b[8+n:]\n"
      "np.savez('out/a.npz', **{k: np.frombuffer(d[slice(*v['data_offsets'])], '<u2').reshape(v['shape']) for k, v in h.items()})\n";
  put("bits.py", script);
  ASSERT_EQ(std::system(("cd " + at("").string() + " && " NORMA_PYTHON " bits.py && rm out/a.safetensors").c_str()), 0);
  const Outcome bits = norma("golden verify --outputs out --dir golden");
  EXPECT_EQ(bits.status, 0) << bits.out << bits.err;
}

TEST_F(Outputs, ThatAreNoneAreRefused) {
  expect_refusal("golden verify --outputs out --dir golden", {"out: there are no files: expected some of *.json, *.npz, *.safetensors"});
  expect_refusal("golden verify --outputs nowhere --dir golden", {"nowhere: "});
  expect_refusal("golden verify --outputs golden/../golden --dir golden", {"--outputs golden/../golden: has the golden files themselves"});
  expect_refusal("golden verify --outputs '' --dir golden", {"--outputs"});
  expect_refusal("golden verify --dir golden", {"SUBJECT or --outputs"});
  expect_refusal("golden verify simd --outputs out --dir golden", {"SUBJECT or --outputs"});
  expect_refusal("golden verify --outputs out --dir golden --time 3", {"--time", "expected with a subject only"});
  for (const auto& [name, text, says] : {std::tuple{"a.json", golden.dump().substr(0, 5000), "out/a.json: byte 5000: "},
                                         {"a.npz", std::string("PK\3\4 and no more"), "out/a.npz: "},
                                         {"a.safetensors", std::string("short"), "out/a.safetensors: has 5 bytes"}}) {
    put(std::string("out/") + name, text);
    expect_refusal("golden verify --outputs out --dir golden", {says});
    fs::remove(at(std::string("out/") + name));
  }
  give(golden);
  put("golden/other.json", golden.dump());
  expect_refusal("golden verify --outputs out --dir golden", {"golden/other.json: case ", "is in another file already"});
}

// A gigabyte of what nobody asked for is passed over.
TEST_F(Outputs, TakeLittleMemory) {
  if (std::getenv("NORMA_PROGRAM") != nullptr) GTEST_SKIP() << "what instruments the program takes memory of its own";
  const std::string header = R"({"mine":{"dtype":"F32","shape":[268435456],"data_offsets":[0,1073741824]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  put("out/a.safetensors", length + header);
  fs::resize_file(at("out/a.safetensors"), length.size() + header.size() + (std::uintmax_t{1} << 30));
  {
    // Bit by bit: a child process counts what its parent had.
    std::ofstream json(at("out/b.json"));
    json << "{\"mine\":\"";
    for (int i = 0; i < 1 << 8; ++i) json << std::string(1 << 20, 'a');
    json << "\"," << golden.dump().substr(1);
  }
  expect_fault({"no case has an output \"mine\"", "0 missing, 1 fault\n"});
  rusage used{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &used), 0);
  EXPECT_LT(used.ru_maxrss, 256 * 1024);  // KiB
}

class Large : public Program {
 protected:
  [[nodiscard]] std::map<std::string, std::string> files(const std::string& folder) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(at(folder))) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".safetensors")) all[name] = contents(entry.path());
    }
    return all;
  }
};

TEST_F(Large, TierIsTheSameInAnyShares) {
  const std::string write = "golden write --tier large --cases 5 --seed 3 ";
  ASSERT_EQ(norma(write + "--out whole").status, 0);
  const auto whole = files("whole");
  EXPECT_EQ(whole.size(), 5U);
  for (const char* share : {"2/3", "3/3", "1/3"}) ASSERT_EQ(norma(write + "--out parts --shard " + share).status, 0);
  EXPECT_EQ(files("parts"), whole);
  // Whoever made them: none is made again.
  const Outcome again = norma(write + "--out parts");
  EXPECT_NE(again.out.find(" 5 of them were there"), std::string::npos) << again.out;
  fs::remove(at("parts/SHA256SUMS.seed-3"));
  // Its checksums are those of sha256sum.
  EXPECT_EQ(std::system(("cd " + at("parts").string() +
                         " && sha256sum --quiet --strict -c SHA256SUMS.*-of-3 && (head -n 1 ../whole/SHA256SUMS.seed-3 && grep -vh ^# "
                         "SHA256SUMS.*-of-3 | sort -k 2) | cmp - ../whole/SHA256SUMS.seed-3")
                            .c_str()),
            0);
  const Outcome lint = norma("golden lint --dir parts");
  EXPECT_EQ(lint.status, 0) << lint.out;
  EXPECT_NE(lint.out.find("holds: 5 cases in 5 files"), std::string::npos) << lint.out;
  const Outcome plain = norma("golden verify plain --dir whole");
  EXPECT_EQ(plain.status, 0) << plain.out;
  EXPECT_NE(norma("golden show nobody --dir whole").err.find("there is no case \"nobody\""), std::string::npos);
  // Others are others.
  ASSERT_EQ(norma("golden write --tier large --cases 1 --seed 4 --out other").status, 0);
  EXPECT_NE(files("other").begin()->second, whole.begin()->second);
  // And do not mind one another.
  ASSERT_EQ(norma("golden write --tier large --cases 1 --seed 4 --out whole").status, 0);
  EXPECT_EQ(files("whole").size(), 6U);
  EXPECT_EQ(norma("golden lint --dir whole").status, 0);
}

// What stays in its files is compared as what is in memory, whatever form the outputs come in.
TEST_F(Large, TierIsComparedTensorByTensor) {
  ASSERT_EQ(norma("golden write --tier large --cases 4 --out whole").status, 0);
  fs::create_directory(at("out"));
  TensorFile outputs;
  ordered_json cases = ordered_json::array();
  std::size_t some = 4;
  for (const auto& [name, text] : files("whole")) {
    const Result<TensorFile> file = read_tensor_file(at("whole") / name);
    ASSERT_TRUE(file.ok()) << file.status().message;
    const std::string id = file->metadata.begin()->first;
    for (const Tensor& t : file->tensors) {
      if (t.name != id + ".out.y") continue;
      const int exponent = (std::to_integer<int>(t.data[3]) & 0x7f) * 2 + (std::to_integer<int>(t.data[2]) >> 7);
      const bool must = file->metadata.begin()->second.find("\"severity\":\"must\"") != std::string::npos;
      if (must && exponent > 100 && exponent < 150) some = outputs.tensors.size();
      outputs.tensors.push_back(t);
      std::string digits;
      for (const std::byte b : t.data)
        digits += {"0123456789abcdef"[std::to_integer<int>(b) / 16], "0123456789abcdef"[std::to_integer<int>(b) % 16]};
      cases.push_back({{"id", id}, {"outputs", {{"y", {{"data", digits}, {"dtype", "f32"}, {"shape", t.shape}}}}}});
    }
  }
  ASSERT_EQ(outputs.tensors.size(), 4U);
  const auto verified = [&] { return norma("golden verify --outputs out --dir whole"); };
  for (const char* const name : {"out/a.safetensors", "out/a.npz"}) {
    ASSERT_TRUE(write_tensor_file(at(name), outputs).ok());
    const Outcome o = verified();
    EXPECT_EQ(o.status, 0) << name << o.out << o.err;
    fs::remove(at(name));
  }
  std::ofstream(at("out/a.json")) << ordered_json{{"cases", cases}};
  EXPECT_EQ(verified().status, 0);
  // A bit of one element that is a number: inside of the interval it costs a rounding, and outside it is wrong.
  ASSERT_LT(some, outputs.tensors.size());
  fs::remove(at("out/a.json"));
  for (const auto& [byte, status] : {std::pair(0, 0), std::pair(3, 1)}) {
    TensorFile off = outputs;
    Tensor& wrong = off.tensors[some];
    wrong.data[static_cast<std::size_t>(byte)] ^= std::byte{1};
    ASSERT_TRUE(write_tensor_file(at("out/a.safetensors"), off).ok());
    const Outcome o = verified();
    EXPECT_EQ(o.status, status) << o.out;
    const bool named = o.out.find(wrong.name.substr(0, wrong.name.find('.')) + ": y[0] is ") != std::string::npos;
    EXPECT_EQ(named, status != 0) << o.out;
    EXPECT_NE(o.out.find(status == 0 ? "holds: 4 cases" : "VIOLATED: 4 cases"), std::string::npos) << o.out;
  }
}

TEST_F(Large, TierGoesOnWhereItEnded) {
  const std::string write = "golden write --tier large --cases 3 --out files";
  ASSERT_EQ(norma(write).status, 0);
  const auto whole = files("files");
  const fs::path manifest = at("files/SHA256SUMS.seed-1");
  const std::string sums = contents(manifest);
  const auto again = [&](const char* kept) {
    const Outcome o = norma(write);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.out.find(std::string(" ") + kept + " of them were there"), std::string::npos) << o.out;
    EXPECT_EQ(files("files"), whole);
    EXPECT_EQ(contents(manifest), sums);
  };
  again("3");
  // One that is gone, one that is damaged, and one that was written but not listed yet.
  const fs::path first = at("files") / whole.begin()->first, last = at("files") / whole.rbegin()->first;
  fs::remove(first);
  again("2");
  std::fstream(last, std::ios::in | std::ios::out | std::ios::binary).seekp(5000) << "?";
  EXPECT_NE(norma("golden lint --dir files").out.find("has another SHA-256 than is listed"), std::string::npos);
  again("2");
  // As if it had ended after the first file, or before it.
  for (const auto& [lines, kept] : {std::pair(2, "1"), std::pair(1, "0")}) {
    std::size_t end = 0;
    for (int i = 0; i < lines; ++i) end = sums.find('\n', end) + 1;
    ASSERT_TRUE(write_file(manifest, std::as_bytes(std::span(sums).first(end))).ok());
    const std::string said = "SHA256SUMS.seed-1: lists " + std::string(kept) +
                             " of 3 files: expected the end of norma golden write --tier large --seed 1 --cases 3\n";
    const Outcome lint = norma("golden lint --dir files");
    EXPECT_EQ(lint.status, 1);
    EXPECT_NE(lint.out.find("is in no SHA256SUMS"), std::string::npos) << lint.out;
    EXPECT_NE(lint.out.find(said), std::string::npos) << lint.out;
    expect_refusal("golden verify plain --dir files", {said});
    again(kept);
  }
  fs::remove(first);
  EXPECT_NE(norma("golden lint --dir files").out.find("is listed, but not there"), std::string::npos);
  expect_refusal("golden verify plain --dir files", {first.filename().string() + ": is listed, but not there"});
  again("2");
}

TEST_F(Large, TierRefuses) {
  expect_refusal("golden write --tier huge", {"--tier", "huge"});
  expect_refusal("golden write --tier large", {"--out", "expected a folder for the large tier"});
  expect_refusal("golden write --out files --shard 1/2", {"--shard", "expected with --tier large only"});
  expect_refusal("golden write --out files --seed 2", {"--seed", "expected with --tier large only"});
  expect_refusal("golden write --tier large --out files --shard 3/2", {"--shard: expected I/N"});
  expect_refusal("golden write --tier large --out files --cases 2 --shard 1/3", {"--shard 1/3: there are only 2 cases"});
  expect_refusal("golden write --tier large --out files --cases 0", {"--cases"});
  expect_refusal("golden write --tier large --out /dev/null/x", {"/dev/null/x"});
  fs::create_directory(at("files"));
  const std::string start = "# 1 files: norma golden write --tier large --seed 1 --cases ", sum(64, 'a');
  for (const auto& [text, says] :
       {std::pair(std::string(), "is empty"),
        {"nothing of the kind\n", "line 1: expected \"# NUMBER files: COMMAND\""},
        {"# 0 files: x\n", "line 1: expected"},
        {"# -1 files: x\n", "line 1: expected"},
        {"# 1x files: x\n", "line 1: expected"},
        {"# 99999999999999999999 files: x\n", "line 1: expected"},
        {"# 1 files: \x1b[2J\n", "line 1: expected"},
        {start + "1\nnothing\n", "line 2: expected a SHA-256"},
        {start + "1\n" + sum + "  x.safetensors\r\n", "line 2: expected a SHA-256"},
        {start + "1\n" + sum + "  ../x.safetensors\n", "line 2: expected a SHA-256"},
        {start + "2\n", "is of norma golden write --tier large --seed 1 --cases 2: expected the same command"}}) {
    std::ofstream(at("files/SHA256SUMS.seed-1")) << text;
    expect_refusal("golden write --tier large --cases 1 --out files", {"files/SHA256SUMS.seed-1", says});
  }
  for (const char* const name : {"SHA256SUMS.seed-1", "SHA256SUMS"}) {
    std::ofstream(at(std::string("files/") + name)) << start << "1\n"
                                                    << std::string(64, name[10] == '.' ? 'a' : 'b') << "  x.safetensors\n";
  }
  expect_refusal("golden write --tier large --cases 1 --out files", {"\"x.safetensors\" has another SHA-256 in another SHA256SUMS*"});
}

}  // namespace
}  // namespace norma
