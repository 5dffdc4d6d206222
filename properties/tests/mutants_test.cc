// Every mutant is found by the law that means it, and no law complains of an honest kernel: the laws are as sharp as they say.
#include "norma/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "direct.h"
#include "norma/check.h"
#include "scale.h"

namespace norma::properties {

void PrintTo(const BuiltIn& subject, std::ostream* to) { *to << subject.name; }

namespace {

std::unique_ptr<Subject> started(const BuiltIn& subject) {
  Limits limits;
#if defined(__SANITIZE_ADDRESS__)
  limits.memory = 0;
#endif
  Result<std::unique_ptr<Subject>> s = start(subject, limits);
  EXPECT_TRUE(s.ok()) << s.status().message;
  return std::move(*s);
}

// At twenty seeds in the long tier.
TEST(Mutants, AreFoundByTheLawThatMeansThem) {
  const std::int64_t seeds = std::min<std::int64_t>(testing::scaled(1), 20);
  const std::unique_ptr<Subject> honest = started(honest_kernels().front());
  std::vector<double> seconds;
  for (const Mutant& mutant : mutants()) {
    const std::unique_ptr<Subject> subject = started(built_in(mutant));
    for (std::int64_t s = 1; s <= seeds; ++s) {
      Settings settings;
      settings.seed = static_cast<std::uint64_t>(s);
      const Hunt h = hunt(*subject, *honest, law_named(mutant.law), settings);
      EXPECT_TRUE(h.found) << mutant.name << " survives " << h.cases << " cases of " << mutant.law << " at seed " << s;
      EXPECT_LT(h.seconds, 20) << mutant.name << ", " << mutant.law << ", seed " << s;
      seconds.push_back(h.seconds);
    }
  }
  std::sort(seconds.begin(), seconds.end());
  std::cout << mutants().size() << " mutants at " << seeds << " seeds: found in " << seconds[seconds.size() / 2] << " s (median), "
            << seconds.back() << " s (worst)\n";
  EXPECT_LT(seconds[seconds.size() / 2], 1);
}

class Honest : public ::testing::TestWithParam<BuiltIn> {};
INSTANTIATE_TEST_SUITE_P(All, Honest, ::testing::ValuesIn(honest_kernels()), [](const auto& i) { return i.param.name; });

TEST_P(Honest, BreakNoLaw) {
  const std::unique_ptr<Subject> subject = started(GetParam());
  Settings settings;
  settings.cases = testing::scaled(150);
  const Report report = check(*subject, settings);
  for (const LawReport& r : report.laws) {
    EXPECT_TRUE(r.broken == 0 || r.severity == Severity::should) << r.law->slug << ": " << r.first->what << "\n"
                                                                 << to_line(r.first->smallest).substr(0, 600);
    EXPECT_GT(r.tested(), 0) << r.law->slug;
  }
}

// Cases in which a rounding takes x̂ across 0, or γx̂ is lost in β.
TEST(HonestKernels, MayLoseTheSignOfAZero) {
  for (const char* line :
       {"layer_norm f64 x=f64[1,5]:be0ac6f9627c5ce5,be0ac6f9627c5ce4*2,be0ac6f9627c5ce5*2 gamma=f64[5]:3ff0000000000000*4,"
        "0000000000000000 epsilon=0x1p+0",
        "group_norm f32 x=f32[1,2,3]:acd4586a*6 gamma=f32[2]:3f800000,06000000 epsilon=0x1p+0 groups=1",
        "group_norm f64 x=f64[1,1,2]:0000000000000000,0004000000000000 gamma=f64[1]:1fe0000000000000 "
        "beta=f64[1]:0000000000000000 epsilon=0x1p+0 groups=1",
        "rms_norm f64 x=f64[1,2]:80f0000000000000,79b0000000000000 beta=f64[2]:0000000000000000*2 epsilon=0x1p+0"}) {
    Direct plain(honest_kernels().front());
    EXPECT_EQ(replay(plain, law_named("signed_zero"), *parse_case(line)).what, "") << line;
  }
}

TEST(MutantTable, NamesAreUniqueAndLawsExist) {
  std::set<std::string_view> names, slugs;
  for (const Law& law : laws()) slugs.insert(law.slug);
  for (const Mutant& m : mutants()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_TRUE(slugs.contains(m.law)) << m.name << " means " << m.law;
    EXPECT_EQ(m.kind.empty(), m.report.empty()) << m.name;
  }
}

// A law is there for a mutant, or says why it is there.
TEST(MutantTable, HasOneForEveryLaw) {
  std::set<std::string_view> meant;
  for (const Mutant& m : mutants()) meant.insert(m.law);
  for (const Law& law : laws()) EXPECT_NE(meant.contains(law.slug), !law.stays.empty()) << law.slug;
}

// Of every class of faults that people have reported of a forward pass there is one, and what the table says of reports is so.
TEST(MutantTable, CoversTheReports) {
  // About gradients, though the op of a report does not say so.
  const std::set<std::string> of_gradients{"dx-wrong-term"};
  std::ifstream file(NORMA_SHARED "/bugs/bugs.jsonl");
  ASSERT_TRUE(file) << "expected " NORMA_SHARED "/bugs/bugs.jsonl: this test needs the bug reports beside the checkout";
  std::map<std::string, std::string> kinds;  // of each report
  std::set<std::string> forward;
  for (std::string line; std::getline(file, line);) {
    const auto report = nlohmann::json::parse(line);
    const std::string kind = report.at("class");
    kinds[report.at("source")] = kind;
    if (report.at("op").get<std::string>().find("backward") == std::string::npos && !of_gradients.contains(kind)) forward.insert(kind);
  }
  EXPECT_GT(forward.size(), 30U);
  std::map<std::string, std::vector<std::string_view>> by_kind;
  for (const Mutant& m : mutants()) {
    if (m.kind.empty()) continue;
    by_kind[std::string(m.kind)].push_back(m.name);
    const auto report = kinds.find(std::string(m.report));
    ASSERT_NE(report, kinds.end()) << m.name << ": " << m.report << " is no report in the collection";
    EXPECT_EQ(report->second, m.kind) << m.name << ": " << m.report;
  }
  for (const std::string& kind : forward) {
    std::cout << kind << ":";
    for (const std::string_view name : by_kind[kind]) std::cout << ' ' << name;
    std::cout << '\n';
    EXPECT_FALSE(by_kind[kind].empty()) << kind << " has no mutant";
  }
}

}  // namespace
}  // namespace norma::properties
