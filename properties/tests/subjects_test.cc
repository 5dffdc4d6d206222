// The subjects that come with the program, where their libraries are: a few laws that they keep, and one finding each.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <string>

namespace norma {
namespace {

struct Outcome {
  int status;
  std::string out;
};

Outcome norma(const std::string& arguments, const std::string& before = "") {
  FILE* pipe = popen((before + " " NORMA_PROGRAM " " + arguments + " 2>&1 </dev/null").c_str(), "r");
  Outcome o{-1, ""};
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) o.out.append(buffer.data(), got);
  const int status = pclose(pipe);
  o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return o;
}

// How to get it, or "" where it is there.
std::string missing(const std::string& name) {
  for (const auto& row : nlohmann::json::parse(norma("list subjects --json").out)) {
    if (row["subject"] == name) return row["available"] == "yes" ? "" : row["get"].get<std::string>();
  }
  return "no such subject";
}

struct Known {
  std::string subject;
  std::string holds;    // arguments of a check that holds
  std::string law;      // that it breaks
  std::string because;  // on this case
  std::string says;
};
void PrintTo(const Known& of, std::ostream* to) { *to << of.subject; }

class Subjects : public ::testing::TestWithParam<Known> {};
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
    EXPECT_EQ(o.out, "norma: " + known.subject + " is not available here: " + get + "\n");
    GTEST_SKIP() << known.subject << " is not available here: " << get;
  }
  const Outcome kept = norma("check " + known.subject + " --cases 20 --time 30 " + known.holds);
  EXPECT_EQ(kept.status, 0) << kept.out;
  EXPECT_EQ(kept.out.find("must         0"), std::string::npos) << "a law that tested nothing\n" << kept.out;
  const std::string replay = " --time 30 --law " + known.law + " --case '" + known.because + "'";
  const Outcome found = norma("check " + known.subject + replay);
  EXPECT_EQ(found.status, 1) << found.out;
  EXPECT_NE(found.out.find(known.says), std::string::npos) << found.out;
  EXPECT_EQ(norma("check reference" + replay).status, 0);
}

// Interpreters are found on the path, and their absence is one line.
TEST(ShippedSubjects, SayHowToGetWhatIsMissing) {
  const Outcome o = norma("check onnxruntime", "PATH=/nowhere");
  EXPECT_EQ(o.status, 3);
  EXPECT_TRUE(o.out.starts_with("norma: onnxruntime is not available here: npm ci --ignore-scripts in /")) << o.out;
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1) << o.out;
  EXPECT_NE(norma("check pytroch").out.find("did you mean pytorch?"), std::string::npos);
}

// The findings of docs/field_report.md: every command in it prints what is under it.
class FieldReport : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Of, FieldReport, ::testing::Values("onednn", "pytorch", "onnxruntime", "numpy"),
                         [](const auto& i) { return i.param; });

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
    EXPECT_EQ(o.status, 1) << line;
    EXPECT_EQ(o.out.substr(0, o.out.find('\n')), expected) << line;
    ++commands;
  }
  EXPECT_GT(commands, 0);
}

// Its table counts every law there is: who adds one has to measure again (norma check NAME).
TEST(FieldReportTable, CountsEveryLaw) {
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
