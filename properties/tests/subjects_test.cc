// The subjects that come with the program, where their libraries are: a few laws that they keep, and one finding each.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>

#include "program.h"

namespace norma {
namespace {

// Of them, what is missing here: how to get it, or "" where it is there.
class ShippedSubjects : public Program {
 protected:
  [[nodiscard]] std::string missing(const std::string& name) const {
    for (const auto& row : nlohmann::json::parse(norma("list subjects --json").out)) {
      if (row["subject"] == name) return row["available"] == "yes" ? "" : row["get"].get<std::string>();
    }
    return "no such subject";
  }
};

struct Known {
  std::string subject;
  std::string holds;    // arguments of a check that holds
  std::string law;      // that it breaks
  std::string because;  // on this case
  std::string says;
};
void PrintTo(const Known& of, std::ostream* to) { *to << of.subject; }

class Subjects : public ShippedSubjects, public ::testing::WithParamInterface<Known> {};
INSTANTIATE_TEST_SUITE_P(Shipped, Subjects,
                         ::testing::Values(
                             // A stride between rows is taken and not looked at.
                             Known{"onednn", "--op layer_norm,batch_norm --law mean_zero,variance_one,odd_symmetry", "strides_honoured",
                                   "layer_norm f32 x=f32[2,3]:3f800000,40000000,40800000,3f800000,40000000,40800000 epsilon=0x1p+0", "y["},
                             // x·rstd − mean·rstd, each rounded before they cancel.
                             Known{"pytorch", "--op layer_norm --law permutation_equivariance,axis_and_rank", "flat_row_is_beta",
                                   "layer_norm f32 x=f32[1,1000]:4b7fffff*1000 epsilon=0x1.4f8b58p-17", "exactly 0 (0x00000000)"},
                             // The bias goes into the constant that cancels.
                             Known{"onnxruntime", "--op layer_norm --law mean_zero,variance_one,odd_symmetry", "flat_row_is_beta",
                                   "batch_norm_training f32 x=f32[1,1,1]:52800000 beta=f32[1]:40000000 epsilon=0x1p+0",
                                   "y[0] = 0 (0x00000000), exactly 2"},
                             // 1e-12 is 0 in float16.
                             Known{"numpy", "--law mean_zero,permutation_equivariance,repetition,running_update", "flat_row_finite",
                                   "layer_norm f16 x=f16[1,1]:0000 epsilon=0x1.19799812dea11p-40", "y[0] = nan"}),
                         [](const auto& i) { return i.param.subject; });

TEST_P(Subjects, KeepsLawsAndBreaksOne) {
  const Known& known = GetParam();
  if (const std::string get = missing(known.subject); !get.empty()) {
    ASSERT_NE(known.subject, "numpy") << "the tests need numpy: " << get;
    const Outcome o = norma("check " + known.subject);
    EXPECT_EQ(o.status, 3);
    EXPECT_EQ(o.err, "norma: " + known.subject + " is not available here: " + get + "\n");
    GTEST_SKIP() << known.subject << " is not available here: " << get;
  }
  const Outcome kept = norma("check " + known.subject + " --cases 20 --time 30 " + known.holds);
  EXPECT_EQ(kept.status, 0) << kept.out << kept.err;
  EXPECT_EQ(kept.out.find("must         0"), std::string::npos) << "a law that tested nothing\n" << kept.out;
  const std::string replay = " --time 30 --law " + known.law + " --case '" + known.because + "'";
  const Outcome found = norma("check " + known.subject + replay);
  EXPECT_EQ(found.status, 1) << found.out << found.err;
  EXPECT_NE(found.out.find(known.says), std::string::npos) << found.out;
  EXPECT_EQ(norma("check reference" + replay).status, 0);
}

// Interpreters are found on the path, and their absence is one line.
TEST_F(ShippedSubjects, SayHowToGetWhatIsMissing) {
  const std::string path = std::getenv("PATH");
  ASSERT_EQ(setenv("PATH", "/nowhere", 1), 0);
  const Outcome o = norma("check onnxruntime");
  ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
  EXPECT_EQ(o.status, 3);
  EXPECT_TRUE(o.err.starts_with("norma: onnxruntime is not available here: npm ci --ignore-scripts in /")) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  expect_refusal("check pytroch", {"did you mean pytorch?"});
}

// The findings of docs/field_report.md: every command in it prints what is under it.
class FieldReport : public ShippedSubjects, public ::testing::WithParamInterface<std::string> {};
const std::vector<std::string> reported{"onednn", "pytorch", "onnxruntime", "numpy"};
INSTANTIATE_TEST_SUITE_P(Of, FieldReport, ::testing::ValuesIn(reported), [](const auto& i) { return i.param; });

TEST_P(FieldReport, IsWhatIsPrinted) {
  if (const std::string get = missing(GetParam()); !get.empty()) GTEST_SKIP() << GetParam() << " is not available here: " << get;
  std::ifstream page(NORMA_SOURCE "/docs/field_report.md");
  const std::string prefix = "norma check " + GetParam() + " --law ";
  int commands = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(prefix)) continue;
    std::string expected;
    ASSERT_TRUE(std::getline(page, expected)) << line;
    const Outcome o = norma(line.substr(std::string("norma ").size()) + " --time 30");
    EXPECT_EQ(o.status, 1) << line << o.err;
    EXPECT_EQ(o.out.substr(0, o.out.find('\n')), expected) << line;
    ++commands;
  }
  EXPECT_GT(commands, 0);
}

// Whether this processor is like the one that the report is of.
bool like_the_report() { return contents("/proc/cpuinfo").find("avx512_bf16") != std::string::npos; }

// So does its table of the golden files, whose columns are in the order of these subjects, and what it says of all of them.
TEST_P(FieldReport, CountsTheGoldenFiles) {
  if (const std::string get = missing(GetParam()); !get.empty()) GTEST_SKIP() << GetParam() << " is not available here: " << get;
  if (!like_the_report()) GTEST_SKIP() << "these libraries compute otherwise on a processor without avx512_bf16, such as this one";
  const Outcome o = norma("golden verify " + GetParam() + " --time 30 --dir " NORMA_SOURCE "/golden/vectors_v1");
  std::map<std::string, std::pair<int, int>> counts;  // outside and compared, by op
  const std::regex file(R"((\w+)_(?:bf16|f16|f32|f64) +(\d+) +\d+ .* (\d+) +\d+ *)");
  std::istringstream printed(o.out);
  std::string last;
  for (std::string line; std::getline(printed, line); last = line) {
    std::smatch cells;
    if (!std::regex_match(line, cells, file)) continue;
    counts[cells[1]].first += std::stoi(cells[3]);
    counts[cells[1]].second += std::stoi(cells[2]);
  }
  const auto column = static_cast<std::size_t>(std::find(reported.begin(), reported.end(), GetParam()) - reported.begin());
  const std::regex row(R"(\| (\w+) \| (.+) \| (.+) \| (.+) \| (.+) \|)");
  std::ifstream page(NORMA_SOURCE "/docs/field_report.md");
  int rows = 0, commands = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch cells;
    if (std::regex_match(line, cells, row) && counts.contains(cells[1])) {
      const auto [outside, compared] = counts[cells[1]];
      EXPECT_EQ(cells[2 + column], compared == 0 ? "none" : std::to_string(outside) + " of " + std::to_string(compared)) << line;
      ++rows;
    }
    if (line != "norma golden verify " + GetParam()) continue;
    ASSERT_TRUE(std::getline(page, line));
    EXPECT_EQ(line, last);
    ++commands;
  }
  EXPECT_EQ(rows, 6);
  EXPECT_EQ(commands, 1);
}

// ONNX Runtime on its own kind of tests, made of the golden files: what is outside of its interval is in the report, and nothing else is.
TEST_F(ShippedSubjects, RunOnnxFoldersAsTheFieldReportSays) {
  if (const std::string get = missing("onnxruntime"); !get.empty()) GTEST_SKIP() << "onnxruntime is not available here: " << get;
  if (!like_the_report()) GTEST_SKIP() << "these libraries compute otherwise on a processor without avx512_bf16, such as this one";
  const Outcome made = norma("golden export --format onnx --out tests --dir " NORMA_SOURCE "/golden/vectors_v1");
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string run = "node " NORMA_SOURCE "/properties/tests/onnx_folders.js " + at("tests").string() + " >" + at("report").string();
  ASSERT_EQ(std::system(run.c_str()), 0);
  const nlohmann::json report = nlohmann::json::parse(contents(at("report")));

  const std::string page = contents(NORMA_SOURCE "/docs/field_report.md");
  const std::size_t start = page.find("\n## ONNX Runtime on ONNX's own kind of tests\n");
  ASSERT_NE(start, std::string::npos);
  const std::string section = page.substr(start, page.find("\n## ", start + 1) - start);
  std::set<std::string> explained, outside;
  const std::regex id(R"(`(\w+_[0-9a-f]{12})`)");
  for (std::sregex_iterator i(section.begin(), section.end(), id), end; i != end; ++i) explained.insert((*i)[1]);
  for (const auto& folder : report["outside"]) outside.insert(folder["id"]);
  EXPECT_EQ(outside, explained) << report["outside"].dump(1);

  const std::map<std::string, int> least{{"LayerNormalization", 150},
                                         {"RMSNormalization", 100},
                                         {"BatchNormalization", 500},
                                         {"InstanceNormalization", 150},
                                         {"GroupNormalization", 200}};
  int folders = 0;
  for (const auto& [op, counts] : report["ops"].items()) folders += counts["run"].get<int>();
  for (const auto& [op, count] : least) EXPECT_GE(report["ops"][op]["inside"], count) << op;
  EXPECT_NE(section.find(std::to_string(folders) + " folders"), std::string::npos) << report["ops"];
  for (const auto& [reason, count] : report["unsupported"].items()) {
    EXPECT_TRUE(reason.ends_with("in JavaScript") || reason.ends_with("no kernel for such tensors")) << reason;
  }
}

// Its table counts every law there is: who adds one has to measure again (norma check NAME).
TEST_F(ShippedSubjects, AreCountedLawByLawInTheFieldReport) {
  const auto laws = static_cast<int>(nlohmann::json::parse(norma("list laws --json").out).size());
  std::ifstream page(NORMA_SOURCE "/docs/field_report.md");
  const std::regex row(R"(\| .* \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|)");
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch counts;
    if (!std::regex_match(line, counts, row)) continue;
    EXPECT_EQ(std::stoi(counts[1]) + std::stoi(counts[2]) + std::stoi(counts[3]) + std::stoi(counts[4]), laws) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 4);
}

}  // namespace
}  // namespace norma
