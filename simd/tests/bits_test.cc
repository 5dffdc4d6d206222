// The bits of the reference: random calls of every op, format and format of parameters, on every instruction set of this machine.
#include "kinds.h"
#include "values.h"

namespace norma::simd {
namespace {

class SimdBits : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SimdBits, ::testing::ValuesIn(kinds_with_params()), KindName());

TEST_P(SimdBits, AreThoseOfTheReference) {
  const Kind& kind = GetParam();
  Random random(20260201 + 64 * static_cast<std::uint64_t>(kind.op) + 8 * static_cast<std::uint64_t>(kind.format) +
                static_cast<std::uint64_t>(kind.params));
  const std::int64_t wanted = testing::scaled(100'000);
  for (std::int64_t done = 0, trial = 0; done < wanted; ++trial) {
    Trial t = random_trial(random, kind.op, kind.format, kind.params);
    ASSERT_TRUE(equals_reference(t)) << "trial " << trial;
    done += static_cast<std::int64_t>(elements(t.call));
  }
}

TEST_P(SimdBits, OfEveryOutput) {
  const Kind& kind = GetParam();
  Random random(20260202 + 64 * static_cast<std::uint64_t>(kind.op) + 8 * static_cast<std::uint64_t>(kind.format) +
                static_cast<std::uint64_t>(kind.params));
  const std::int64_t wanted = testing::scaled(30'000);
  for (std::int64_t done = 0, trial = 0; done < wanted; ++trial) {
    Trial t = random_trial(random, kind.op, kind.format, kind.params);
    random_extras(random, t);
    ASSERT_TRUE(equals_reference(t)) << "trial " << trial;
    done += static_cast<std::int64_t>(elements(t.call));
  }
}

TEST(SimdTargets, AllOfThisMachineAreExercised) {
  std::string names;
  for (const std::int64_t target : usable_targets()) names += std::string(names.empty() ? "" : ", ") + hwy::TargetName(target);
  std::cout << "instruction sets: " << names << "\n";
#if HWY_ARCH_X86
  EXPECT_GT(usable_targets().size(), 1U) << "only " << names;
#endif
  // The switch does switch.
  for (const std::int64_t target : usable_targets()) {
    const OnTarget scope(target);
    EXPECT_EQ(hwy::SupportedTargets(), target);
  }
}

}  // namespace
}  // namespace norma::simd
