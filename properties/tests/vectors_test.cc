// The golden files: what the reference makes of their calls, on this machine as on any, and no other text.
#include "norma/vectors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "behind_wall.h"
#include "norma/mutants.h"
#include "norma/tensor_file.h"

namespace norma::properties {
namespace {

using nlohmann::ordered_json;

const std::vector<Vector>& all() {
  static const std::vector<Vector> made = vectors();
  return made;
}

TEST(Golden, FilesAreWhatIsComputed) {
  const Result<std::vector<GoldenText>> files = golden_files(all());
  ASSERT_TRUE(files.ok()) << files.status().message;
  EXPECT_EQ(files->size(), 24U);
  std::size_t bytes = 0;
  for (const GoldenText& made : *files) {
    const Result<std::string> file = read_file(NORMA_SOURCE "/golden/vectors_v1/" + made.name + ".json");
    ASSERT_TRUE(file.ok()) << file.status().message;
    EXPECT_EQ(*file == made.text, true) << made.name << ": run norma golden write, and look at what has changed";
    bytes += file->size();
  }
  EXPECT_LT(bytes, 12'000'000U);
}

TEST(Golden, CasesHaveNamesOfTheirOwnAndFlags) {
  std::set<std::string> ids;
  std::map<std::string, int> raised;
  for (const Vector& v : all()) {
    EXPECT_TRUE(ids.insert(id_of(v.c)).second) << id_of(v.c);
    const Result<std::string> text = to_golden(v.c, v.comment);
    const ordered_json c = ordered_json::parse(*text);
    for (const ordered_json& flag : c["flags"]) ++raised[flag];
  }
  EXPECT_GE(ids.size(), 3000U);
  for (const Flag& flag : flags()) EXPECT_GE(raised[std::string(flag.name)], 4) << flag.name;
  EXPECT_EQ(raised.size(), flags().size());
}

// The files as they are committed.
const std::map<std::string, ordered_json>& committed() {
  static const std::map<std::string, ordered_json> read = [] {
    std::map<std::string, ordered_json> files;
    for (const auto& entry : std::filesystem::directory_iterator(NORMA_SOURCE "/golden/vectors_v1")) {
      if (entry.path().extension() != ".json") continue;
      std::ifstream file(entry.path());
      files[entry.path().filename()] = ordered_json::parse(file);
    }
    return files;
  }();
  return read;
}

bool all_inside(const GoldenCase& g, const ByRole<Tensor>& got) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (got[role] && g.right[role] && compare(*got[role], *g.right[role], *g.low[role], *g.high[role]).outside) return false;
  }
  return true;
}

// The first answer of a kernel that a test on the files takes for wrong, or none.
std::string first_failed(Subject& subject) {
  static const std::vector<GoldenCase> cases = [] {
    std::vector<GoldenCase> musts;
    for (const auto& [name, file] : committed()) {
      for (const ordered_json& j : file.at("cases")) {
        if (j.at("severity") == "must") musts.push_back(*parse_golden(j.dump()));
      }
    }
    return musts;
  }();
  for (const GoldenCase& g : cases) {
    const Reply reply = subject.run(g.c);
    if (reply.kind != Reply::Kind::ok || !all_inside(g, reply.outputs)) return g.id;
  }
  return "";
}

// A case tells every mutant from an honest kernel, but for those of which golden/README.md says why none can.
TEST(Golden, CasesTellMutantsOrTheReadmeSaysWhyNot) {
  std::set<std::string> survivors, listed;
  for (const Mutant& mutant : mutants()) {
    if (first_failed(*started(built_in(mutant))).empty()) survivors.emplace(mutant.name);
  }
  std::ifstream page(NORMA_SOURCE "/golden/README.md");
  const std::regex row(R"(\| `mutant:(\S+)` \| (.+) \|)");
  for (std::string line; std::getline(page, line);) {
    if (std::smatch cells; std::regex_match(line, cells, row)) listed.insert(cells[1]);
  }
  EXPECT_EQ(survivors, listed);
  EXPECT_LT(survivors.size(), mutants().size() / 8);
  EXPECT_EQ(first_failed(*started(honest_kernels().front())), "");
}

// What two calls that are alike but for their numbers have in common, and all of these numbers, each as its digits.
std::pair<std::string, std::vector<std::string>> split(const ordered_json& g) {
  ordered_json call = g;
  std::vector<std::string> numbers;
  for (const char* key : {"id", "comment", "flags", "severity", "outputs"}) call.erase(key);
  for (auto& [role, t] : call["inputs"].items()) {
    const std::string digits = t["data"], format = t["dtype"];
    const std::size_t each = format == "f64" ? 16 : format == "f32" ? 8 : 4;
    for (std::size_t i = 0; i < digits.size(); i += each) numbers.push_back(digits.substr(i, each));
    t.erase("data");
  }
  return {call.dump(), std::move(numbers)};
}

// A case that differs from another in a sixteenth of its numbers, or less, costs more than it says.
TEST(Golden, NoTwoCasesAreAlike) {
  std::int64_t pairs = 0;
  for (const auto& [name, file] : committed()) {
    std::map<std::string, std::vector<std::pair<std::string, std::vector<std::string>>>> calls;
    for (const ordered_json& g : file.at("cases")) {
      auto [call, numbers] = split(g);
      std::size_t elements = 1;
      for (const std::size_t extent : g["shape"]) elements *= extent;
      for (const auto& [id, others] : calls[call]) {
        std::size_t differ = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i) differ += numbers[i] != others[i];
        EXPECT_GT(differ, elements / 16) << g["id"] << " is nearly " << id;
        ++pairs;
      }
      calls[call].emplace_back(g["id"], std::move(numbers));
    }
  }
  EXPECT_GT(pairs, 100);
}

// Every public report of a forward pass is a case, or shows in no value: how tensors lie, what else runs, how often it is called.
TEST(Golden, EveryReportIsACase) {
  const std::set<std::string> in_no_value{"NB078", "NB109"};
  std::ifstream file(NORMA_SHARED "/bugs/bugs.jsonl");
  ASSERT_TRUE(file) << "this test reads the collection of public reports: " NORMA_SHARED "/bugs/bugs.jsonl is not there";
  std::string comments;
  for (const Vector& v : all()) comments += v.comment + "\n";
  int reports = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json report = nlohmann::json::parse(line);
    const std::string id = report["id"], source = report["source"], op = report["op"], kind = report["class"];
    if (op.find("backward") != std::string::npos && comments.find(id) == std::string::npos) continue;
    if (op.find("fwd+bwd") != std::string::npos || in_no_value.contains(id)) continue;
    EXPECT_NE(comments.find(id + " " + source), std::string::npos) << id << ": " << kind;
    ++reports;
  }
  EXPECT_GT(reports, 35);
}

// So is every counterexample of the field report.
TEST(Golden, EveryFindingIsACase) {
  std::ifstream page(NORMA_SOURCE "/docs/field_report.md");
  std::set<std::string> ids;
  for (const Vector& v : all()) ids.insert(id_of(v.c));
  int findings = 0;
  for (std::string line; std::getline(page, line);) {
    const std::size_t start = line.find(" --case '");
    if (start == std::string::npos) continue;
    const Result<Case> c = parse_case(line.substr(start + 9, line.rfind('\'') - start - 9));
    ASSERT_TRUE(c.ok()) << line;
    EXPECT_TRUE(ids.contains(id_of(*c))) << line;
    ++findings;
  }
  EXPECT_GT(findings, 15);
}

TEST(Golden, ReadsBackAsWritten) {
  for (std::size_t i = 0; i < all().size(); i += 17) {
    const Vector& v = all()[i];
    const std::string text = *to_golden(v.c, v.comment);
    const Result<GoldenCase> read = parse_golden(text);
    ASSERT_TRUE(read.ok()) << read.status().message;
    EXPECT_EQ(read->id, id_of(v.c));
    EXPECT_EQ(*to_golden(read->c, read->comment), text);
    TensorFile tensors;
    add_to(tensors, *read);
    const Result<std::vector<GoldenCase>> again = golden_cases(tensors);
    ASSERT_TRUE(again.ok()) << again.status().message;
    ASSERT_EQ(again->size(), 1U);
    EXPECT_EQ(to_json(again->front()), text);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      ASSERT_EQ(read->c.inputs[role].has_value(), v.c.inputs[role].has_value());
      if (!v.c.inputs[role]) continue;
      EXPECT_EQ(read->c.inputs[role]->data, v.c.inputs[role]->data);
    }
  }
}

TEST(Golden, WhatIsNoneAsTensorsIsRefused) {
  TensorFile good;
  add_to(good, *golden_case(*parse_case("layer_norm f32 x=f32[1,2]:3f800000,40000000"), "two"));
  ASSERT_TRUE(golden_cases(good).ok());
  const auto refused = [&](const std::function<void(TensorFile&)>& change, const char* says) {
    TensorFile bad = good;
    change(bad);
    const Result<std::vector<GoldenCase>> cases = golden_cases(bad);
    ASSERT_FALSE(cases.ok()) << says;
    EXPECT_NE(cases.status().message.find(says), std::string::npos) << cases.status().message;
  };
  const auto without = [](const char* suffix) {
    return [suffix](TensorFile& f) { std::erase_if(f.tensors, [&](const Tensor& t) { return t.name.ends_with(suffix); }); };
  };
  refused(without(".in.x"), "there is no x");
  refused(
      [&](TensorFile& f) {
        for (const char* s : {".out.y", ".lo.y", ".hi.y"}) without(s)(f);
      },
      "there is no y");
  refused(without(".hi.y"), "y: lo and hi are not like out");
  refused([](TensorFile& f) { f.tensors.push_back(f.tensors.front()), f.tensors.back().name = "stray"; },
          "tensor \"stray\" belongs to no case");
  refused([](TensorFile& f) { f.metadata.begin()->second = "{}"; }, "a case: expected id");
  refused([](TensorFile& f) { f.metadata = {{"other", f.metadata.begin()->second}}; }, "case \"other\": it is called");
}

// Cases of the large tier are those of their numbers, of every op and format, and right.
TEST(Golden, LargeCasesAreOfTheirNumbers) {
  std::set<std::string> ids, kinds;
  for (std::int64_t number = 0; number < 24; ++number) {
    const Vector v = large_vector(1, number);
    kinds.insert(file_of(v.c));
    ids.insert(id_of(v.c));
    EXPECT_EQ(to_line(v.c), to_line(large_vector(1, number).c));
    EXPECT_NE(id_of(v.c), id_of(large_vector(2, number).c));
    EXPECT_GE(v.c.elements(), 10000);
  }
  EXPECT_EQ(kinds.size(), 24U);
  EXPECT_EQ(ids.size(), 24U);
  EXPECT_EQ(large_vector(1, 24).c.x().shape, (Shape{64, 16384}));
}

TEST(Golden, WhatIsNoneIsRefused) {
  const ordered_json good = ordered_json::parse(*to_golden(*parse_case("layer_norm f32 x=f32[1,2]:3f800000,40000000"), "two"));
  ASSERT_TRUE(parse_golden(good.dump()).ok());
  const auto refused = [&](const char* pointer, const ordered_json& value, const char* says) {
    ordered_json bad = good;
    bad[ordered_json::json_pointer(pointer)] = value;
    const Result<GoldenCase> c = parse_golden(bad.dump());
    ASSERT_FALSE(c.ok()) << pointer;
    EXPECT_NE(c.status().message.find(says), std::string::npos) << c.status().message;
    EXPECT_EQ(c.status().message.find('\n'), std::string::npos);
  };
  refused("/surprise", 1, "a case has no \"surprise\"");
  refused("/severity", "may", "severity: \"may\": expected must or should");
  refused("/op", "layer_nrom", "there is no op \"layer_nrom\"");
  refused("/dtype", "f33", "there is no dtype \"f33\"");
  refused("/epsilon", "small", "epsilon: ");
  refused("/shape", {2, 2}, "its shape is not that of x");
  refused("/inputs/x/shape", {-1}, "x: shape: no extent -1");
  refused("/inputs/x/shape", {1, 3}, "x: data has 16 digits: expected 24");
  refused("/inputs/x/shape", {1LL << 40, 1LL << 40}, "x: shape: no extent");
  refused("/inputs/x/data", "0000803f0000004g", "x: data: expected hexadecimal digits");
  refused("/inputs/x/data", 7, "data: expected a string");
  refused("/outputs/y/lo", "00", "y: lo has 2 digits: expected 16");
  refused("/axis", 2, "axis");
  refused("/axis", 4294967295, "axis: expected a whole number from -8 to 7");
  refused("/op", "weight_norm", "there is no op \"weight_norm\"");
  refused("/inputs/gamma", {{"dtype", "f32"}, {"shape", {3}}, {"data", std::string(24, '0')}}, "gamma has shape [3]: expected [2]");
  refused("/profile/gain_offset", 2, "gain_offset: expected a whole number from 0 to 1");
  refused("/profile/cast_before_gain", 0, "cast_before_gain: expected true or false");
  refused("/inputs/x/shape", {1 << 28}, "x: data has 16 digits: expected 2147483648");
  refused("/outputs/z", 1, "there is no tensor \"z\"");
  for (const char* key : {"id", "comment", "flags", "profile", "inputs", "outputs"}) {
    ordered_json bad = good;
    bad.erase(key);
    EXPECT_EQ(parse_golden(bad.dump()).status().message, "a case: expected " + std::string(key));
  }
  for (const char* text : {"", "[]", "7", "{", "null"}) EXPECT_FALSE(parse_golden(text).ok()) << text;
}

}  // namespace
}  // namespace norma::properties
