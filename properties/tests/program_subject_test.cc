// Programs as subjects: the honest one in the examples, and ones that lie.
#include <gtest/gtest.h>

#include <chrono>
#include <ostream>
#include <string>

#include "direct.h"
#include "norma/check.h"

namespace norma::properties {
namespace {

using Kind = Reply::Kind;

// A reply frame around a header, as a shell's printf takes it; no tensors.
std::string frame(const std::string& header) {
  std::string text = "printf '";
  const std::size_t length = 8 + header.size();
  const auto number = [&](std::size_t n) {
    for (int i = 0; i < 8; ++i) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned>(n >> (8 * i) & 0xff));
      text += octal;
    }
  };
  number(length);
  number(header.size());
  return text + header + "'";
}
std::string hello() { return frame(R"({"__metadata__":{"name":"liar"}})"); }

struct Lie {
  const char* name;
  std::string command;
  Kind kind;  // of the second reply; ok where it does not even start
  const char* says;
};
void PrintTo(const Lie& of, std::ostream* to) { *to << of.name; }
const std::vector<Lie>& lies() {
  static const std::vector<Lie> all{
      {"no_such_program", "/nowhere/kernel", Kind::ok, "exited with status 127"},
      {"dies_at_start", "echo 'ImportError: no module named torch' >&2; exit 1", Kind::ok,
       "exited with status 1; it said: ImportError: no module named torch"},
      {"ends_at_once", "true", Kind::ok, "exited with status 0"},
      {"talks_on_standard_output", "echo Loading the model, please wait; sleep 5", Kind::ok,
       "nothing but answers may go to standard output"},
      {"dies_at_the_call", hello() + "; exit 4", Kind::crashed, "exited with status 4"},
      {"half_a_reply", hello() + "; printf '\\100\\0\\0\\0\\0\\0\\0\\0half'; exit 0", Kind::crashed, "after 12 bytes of an answer of 72"},
      {"no_safetensors", hello() + "; printf '\\020\\0\\0\\0\\0\\0\\0\\0qqqqqqqqqqqqqqqq'; sleep 5", Kind::misbehaved, "its answer: "},
      {"no_y", hello() + "; " + frame("{}") + "; sleep 5", Kind::misbehaved, "the reply has no y"},
      {"wrong_shape", hello() + "; " + frame(R"({"y":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})") + "; sleep 5", Kind::misbehaved,
       "y is f32[0], expected f32[1, 2]"},
      {"wrong_format", hello() + "; " + frame(R"({"y":{"dtype":"F16","shape":[1,0],"data_offsets":[0,0]}})") + "; sleep 5",
       Kind::misbehaved, "y is f16[1, 0], expected f32[1, 2]"},
      {"says_unsupported", hello() + "; " + frame(R"({"__metadata__":{"status":"unsupported","message":"no gain"}})") + "; sleep 5",
       Kind::unsupported, "no gain"},
      {"says_error", hello() + "; " + frame(R"({"__metadata__":{"status":"error","message":"CUDA"}})") + "; sleep 5", Kind::refused,
       "CUDA"},
      {"hangs", hello() + "; sleep 30", Kind::hung, "no answer within 400 ms"},
  };
  return all;
}

class Programs : public ::testing::TestWithParam<Lie> {};
INSTANTIATE_TEST_SUITE_P(Lies, Programs, ::testing::ValuesIn(lies()), [](const auto& i) { return std::string(i.param.name); });

TEST_P(Programs, AreDiagnosedInOneLine) {
  const Lie& lie = GetParam();
  Limits limits;
  limits.time = std::chrono::milliseconds(400);
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<Subject>> subject = start_program(lie.command, limits);
  std::string what;
  if (lie.kind == Kind::ok) {
    ASSERT_FALSE(subject.ok());
    what = subject.status().message;
  } else {
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    EXPECT_EQ((*subject)->name(), "liar");
    const Reply reply = (*subject)->run(*parse_case("layer_norm f32 x=f32[1,2]:3f800000,40000000"));
    EXPECT_EQ(reply.kind, lie.kind) << reply.what;
    what = reply.what;
  }
  EXPECT_NE(what.find(lie.says), std::string::npos) << what;
  EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Program, TheExampleInPythonIsHonest) {
  const std::string command = NORMA_PYTHON " " NORMA_EXAMPLES "/subject.py";
  const Result<std::unique_ptr<Subject>> subject = start_program(command, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message << " (needs python3 and python3-numpy)";
  Settings settings;
  settings.cases = 20;
  settings.ops = {Op::layer_norm};
  settings.formats = {Format::f32};
  settings.laws = {"agrees_with_reference", "mean_zero", "no_leak", "affine_linear", "flat_row_is_beta"};
  const Report report = check(**subject, settings);
  EXPECT_EQ(report.must_violations(), 0) << (report.laws[0].first ? report.laws[0].first->what : "");
  for (const LawReport& r : report.laws) EXPECT_GT(r.held, 0) << r.law->slug << " " << (r.reasons.empty() ? "" : r.reasons.begin()->first);
}

TEST(Library, TheExamplesAreHonest) {
  for (const char* path : {NORMA_EXAMPLE_C, NORMA_EXAMPLE_CC}) {
    const Result<std::unique_ptr<Subject>> subject = start_library(path, {});
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    Settings settings;
    settings.cases = 60;
    const Report report = check(**subject, settings);
    for (const LawReport& r : report.laws) {
      EXPECT_TRUE(r.severity == Severity::should || r.broken == 0) << path << " " << r.law->slug << ": " << r.first->what << "\n"
                                                                   << to_line(r.first->smallest);
    }
    EXPECT_GT(report.accuracy.elements, 5'000) << path;
  }
}

}  // namespace
}  // namespace norma::properties
