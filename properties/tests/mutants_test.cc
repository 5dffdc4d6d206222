// Every mutant is found by the law that means it, and no law complains of an honest kernel: the laws are as sharp as they say.
#include "norma/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "norma/check.h"
#include "scale.h"

namespace norma::properties {

void PrintTo(const Mutant& mutant, std::ostream* to) { *to << mutant.name; }
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

class Mutants : public ::testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(All, Mutants, ::testing::ValuesIn(mutants().begin(), mutants().end()), [](const auto& i) {
  std::string name(i.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Mutants, AreFoundByTheLawThatMeansThem) {
  const std::unique_ptr<Subject> subject = started(built_in(GetParam()));
  Settings settings;
  settings.laws = {std::string(GetParam().law)};
  settings.cases = 400;
  settings.stop_at_first = true;
  const Report report = check(*subject, settings);
  ASSERT_EQ(report.laws.size(), 1U);
  const LawReport& r = report.laws[0];
  EXPECT_TRUE(r.first || r.first_ranged) << r.law->slug << " held " << r.held << " times";
  if (r.first) std::cout << r.first->what << "\n" << to_line(r.first->smallest).substr(0, 300) << "\n";
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

TEST(MutantTable, NamesAreUniqueAndLawsExist) {
  std::set<std::string_view> names, slugs;
  for (const Law& law : laws()) slugs.insert(law.slug);
  for (const Mutant& m : mutants()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_TRUE(slugs.contains(m.law)) << m.name << " means " << m.law;
  }
}

// Of every class of faults that people have reported of a forward pass there is one.
TEST(MutantTable, CoversTheReports) {
  // Where the class of a report has another name here, or is about gradients though its op does not say so.
  const std::map<std::string, std::string> by_another_name{{"bessel-running-var", "bessel-running-variance"},
                                                           {"eps-floor", "epsilon-floored"},
                                                           {"eps-ignored", "epsilon-ignored"},
                                                           {"eps-lost-in-half", "epsilon-lost-in-half"},
                                                           {"eps-outside-sqrt", "epsilon-outside-root"},
                                                           {"smem-race", "stale-mean"},
                                                           {"tail-element-loss", "tail-dropped"},
                                                           {"unbiased-in-output", "unbiased-variance"},
                                                           {"unit-offset", "unit-offset-rounded"},
                                                           {"square-overflow-f32", "plain kernels, by the law `range`"},
                                                           {"dx-wrong-term", "a gradient"}};
  std::ifstream file(NORMA_SHARED "/bugs/bugs.jsonl");
  ASSERT_TRUE(file) << "expected " NORMA_SHARED "/bugs/bugs.jsonl: this test needs the bug reports beside the checkout";
  std::set<std::string> names;
  for (const Mutant& m : mutants()) names.insert(std::string(m.name));
  int reports = 0;
  for (std::string line; std::getline(file, line);) {
    const auto report = nlohmann::json::parse(line);
    if (report.at("op").get<std::string>().find("backward") != std::string::npos) continue;
    ++reports;
    const std::string kind = report.at("class");
    EXPECT_TRUE(names.contains(kind) || by_another_name.contains(kind)) << kind << ", " << report.at("source");
  }
  EXPECT_GT(reports, 40);
}

}  // namespace
}  // namespace norma::properties
