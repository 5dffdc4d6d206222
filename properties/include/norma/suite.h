// A GoogleTest for every law, on a function of your own:
//
//     #include "norma/suite.h"
//     void kernel(const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows, std::int64_t cols, float epsilon);
//     NORMA_SUITE(MyLayerNorm, norma::properties::row_kernel("mine", norma::Op::layer_norm, kernel));
//
// makes the tests Laws/MyLayerNorm.Holds/agrees_with_reference, .../variance_one and so on. A law of which nothing could be asked, because
// the function does not do that, is skipped and says so; a broken one fails with the smallest case that was found. The second argument may
// be any BuiltIn (harness.h), so that all ops, formats and layouts can be tested. It runs in a child process: a crash fails one test.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "norma/check.h"

namespace norma::properties {

inline void PrintTo(const Law& law, std::ostream* to) { *to << law.statement; }

class Suite : public ::testing::TestWithParam<Law> {
 protected:
  static void holds_of(const BuiltIn& function, std::int64_t cases = 200) {
    const Law& law = GetParam();
    const Result<std::unique_ptr<Subject>> subject = start(function, {});
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    Settings settings;
    settings.cases = cases;
    settings.laws = {std::string(law.slug)};
    const Report report = check(**subject, settings);
    const LawReport& r = report.laws.front();
    if (r.severity == Severity::must && r.broken != 0) {
      FAIL() << law.statement << "\nbroken by " << r.broken << " of " << r.tested() << " cases; the smallest found:\n"
             << r.first->what << "\n"
             << to_line(r.first->smallest) << "\n"
             << to_cpp(r.first->smallest);
    }
    ASSERT_EQ(report.ended, "");
    if (r.tested() == 0 && r.unsupported != 0) GTEST_SKIP() << "not supported: " << r.reasons.begin()->first;
    EXPECT_FALSE(r.starved()) << r.vacuous << " cases of " << cases << " say nothing of this law";
    // What is only a `should`, or breaks at the ends of the range, is told.
    if (const auto& f = r.first ? r.first : r.first_ranged) RecordProperty("should", f->what + "; " + to_line(f->smallest));
  }
};

struct LawName {
  std::string operator()(const ::testing::TestParamInfo<Law>& law) const { return std::string(law.param.slug); }
};

}  // namespace norma::properties

#define NORMA_SUITE(Name, function)                                                                                                 \
  class Name : public ::norma::properties::Suite {};                                                                                \
  TEST_P(Name, Holds) { holds_of(function); }                                                                                       \
  INSTANTIATE_TEST_SUITE_P(Laws, Name, ::testing::ValuesIn(::norma::properties::laws().begin(), ::norma::properties::laws().end()), \
                           ::norma::properties::LawName())
