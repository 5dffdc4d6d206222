#include "norma/targets.h"

#include <gtest/gtest.h>

#include <set>

namespace norma::simd {
namespace {

TEST(Targets, EveryMachineHasAtLeastOneAndNoneTwice) {
  const std::vector<std::string> names = targets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_EQ(name.find("Unknown"), std::string::npos) << name;
}

}  // namespace
}  // namespace norma::simd
