// NaN, infinities and signs of zero: the reference against the same formula in plain doubles, in the order IEEE 754 is told to evaluate
// it. Finite values are small integers, for which doubles are right about what is zero, infinite or NaN, in every rounding mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <iostream>

#include "problem.h"
#include "scale.h"

namespace norma {
namespace {

using testing::Problem;
using testing::Random;
using testing::Tensor;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Keeps an operation where it is written: between two changes of the rounding mode.
double run(double value) {
  const volatile double kept = value;
  return kept;
}

using Values = ByRole<std::vector<double>>;

Values in_doubles(const Problem& problem, int rounding) {
  const Spec& spec = problem.spec;
  const Profile& profile = spec.profile;
  const auto have = [&](Role role) { return problem.inputs[role].has_value(); };
  const auto input = [&](Role role, std::size_t i) { return run((*problem.inputs[role])[i]); };
  Values values;
  for (std::size_t r = 0; r < role_count; ++r) {
    if (problem.outputs[static_cast<Role>(r)]) values[static_cast<Role>(r)].emplace(problem.outputs[static_cast<Role>(r)]->size());
  }
  const auto give = [&](Role role, std::size_t i, double value) {
    if (values[role]) (*values[role])[i] = value;
  };
  struct Member {
    std::size_t index, parameter;
    double x;
  };
  std::vector<std::vector<Member>> groups;
  std::size_t flat = 0;
  for (std::int64_t i = 0; i < problem.extent(0); ++i) {
    for (std::int64_t j = 0; j < problem.extent(1); ++j) {
      for (std::int64_t k = 0; k < problem.extent(2); ++k, ++flat) {
        const auto g = static_cast<std::size_t>(problem.group({i, j, k}));
        if (groups.size() <= g) groups.resize(g + 1);
        double x = input(Role::x, flat);
        if (have(Role::residual)) {
          if (profile.residual_sum == ResidualSum::rounded) std::fesetround(FE_TONEAREST);
          x = run(x + input(Role::residual, flat));
          std::fesetround(rounding);
        }
        groups[g].push_back({flat, problem.parameter({i, j, k}), x});
      }
    }
  }
  const double epsilon = spec.effective_epsilon();
  const bool centred = info(spec.op).centred;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double n = static_cast<double>(groups[g].size());
    double mean = 0;
    double variance = 0;
    double estimate = 0;
    if (spec.op == Op::batch_norm_inference) {
      mean = input(Role::mean, g);
      variance = input(Role::variance, g);
    } else {
      if (centred) {
        mean = groups[g][0].x;
        for (std::size_t i = 1; i < groups[g].size(); ++i) mean = run(mean + groups[g][i].x);
        mean = run(mean / n);
      }
      double squares = 0;
      for (const Member& m : groups[g]) {
        const double deviation = centred ? run(m.x - mean) : m.x;
        squares = run(squares + deviation * deviation);
      }
      variance = spec.op == Op::weight_norm ? squares : run(squares / (profile.variance == Estimator::unbiased ? n - 1 : n));
      estimate = run(squares / (profile.running_variance == Estimator::unbiased ? n - 1 : n));
    }
    const double rstd = profile.epsilon_placement == EpsilonPlacement::inside ? run(1 / std::sqrt(run(variance + epsilon)))
                                                                              : run(1 / run(std::sqrt(variance) + epsilon));
    give(Role::mean, g, mean);
    give(Role::variance, g, variance);
    give(Role::rstd, g, rstd);
    const double complement = run(1 - run(spec.momentum));
    const bool of_new = profile.momentum == Momentum::weight_of_new;
    const auto blend = [&](Role role, double news) {
      if (!values[role]) return;
      const double kept = run((of_new ? complement : spec.momentum) * input(role, g));
      give(role, g, run(kept + run((of_new ? spec.momentum : complement) * news)));
    };
    blend(Role::running_mean, mean);
    blend(Role::running_variance, estimate);
    for (const Member& m : groups[g]) {
      const double deviation = centred ? run(m.x - mean) : m.x;
      double y = run(deviation * rstd);
      give(Role::sum, m.index, m.x);
      give(Role::deviation, m.index, deviation);
      give(Role::xhat, m.index, y);
      if (have(Role::gamma))
        y = run(y * run(profile.gain_offset ? run(1 + input(Role::gamma, m.parameter)) : input(Role::gamma, m.parameter)));
      if (have(Role::beta)) y = run(y + input(Role::beta, m.parameter));
      give(Role::y, m.index, y);
    }
  }
  return values;
}

Problem random_problem(Random& random, Op op, Format format) {
  Problem problem;
  Spec& spec = problem.spec;
  spec = testing::spec_of(op, random.of(std::vector<double>{0, 0, 0.25}));
  spec.momentum = random.of(std::vector<double>{0, 1, 0.37});  // no weights with which small integers cancel
  problem.mode = random.one_in(2) ? Mode::nearest_even : testing::all_modes[random.between(0, 3)];
  spec.profile.epsilon_placement = random.one_in(2) ? EpsilonPlacement::inside : EpsilonPlacement::outside;
  spec.profile.momentum = random.one_in(2) ? Momentum::weight_of_new : Momentum::weight_of_old;
  spec.profile.gain_offset = random.one_in(4);
  const std::int64_t n = random.between(2, 5);
  spec.profile.variance = info(op).estimates_variance() && random.one_in(3) ? Estimator::unbiased : Estimator::biased;
  Shape shape;
  switch (info(op).grouping) {
    case Grouping::trailing:
      shape = {1, 2, n};
      break;
    case Grouping::channel:
      shape = {n, 2, 1};
      break;
    case Grouping::leading_index:
      shape = {2, 1, n};
      break;
    case Grouping::channel_groups:
      shape = {1, 4, n};
      if (op == Op::group_norm) spec.groups = 2;
      break;
  }
  const std::vector<double> tame{0.0, -0.0, 1, -1, 2, -3};
  const std::vector<double> wild{inf, -inf, nan};
  const auto tensor = [&](const Shape& of, std::int64_t wildness, const std::vector<double>& finite) {
    Tensor t(format, of);
    const double flat = random.of(finite);
    const bool is_flat = random.one_in(3);
    for (std::size_t i = 0; i < t.size(); ++i) {
      double x = is_flat ? flat : random.of(finite);
      if (random.one_in(wildness)) x = random.of(wild);
      if (std::isinf(x) && !testing::layout(format).infinity) x = nan;
      t.set(i, testing::nearest(format, x));
    }
    return t;
  };
  const std::int64_t quiet = 1'000'000;
  problem.inputs[Role::x] = tensor(shape, random.one_in(2) ? quiet : 4, tame);
  if (info(op).inputs.contain(Role::residual) && random.one_in(3)) {
    problem.inputs[Role::residual] = tensor(shape, random.one_in(2) ? quiet : 4, tame);
    spec.profile.residual_sum = random.one_in(2) ? ResidualSum::rounded : ResidualSum::exact;
  }
  const std::int64_t parameters =
      info(op).grouping == Grouping::trailing ? n : shape[static_cast<std::size_t>((spec.effective_axis() + 3) % 3)];
  for (const Role role : {Role::gamma, Role::beta, Role::mean, Role::variance, Role::running_mean, Role::running_variance}) {
    const OpInfo& o = info(op);
    if (!o.inputs.contain(role) || (!o.required.contain(role) && random.one_in(3))) continue;
    // β is no sum of products of the others, so that nothing cancels by accident. A variance of −0 is left out.
    const std::vector<double> finite = role == Role::beta       ? std::vector<double>{0.0, -0.0, 0.34375, -0.40625}
                                       : role == Role::variance ? std::vector<double>{0, 1, 2, -1}
                                                                : tame;
    problem.inputs[role] = tensor({parameters}, random.one_in(2) ? quiet : 3, finite);
  }
  for (const Role role : {Role::y, Role::mean, Role::variance, Role::rstd, Role::sum, Role::deviation, Role::xhat, Role::running_mean,
                          Role::running_variance}) {
    if (!info(op).outputs.contain(role)) continue;
    if ((role == Role::running_mean || role == Role::running_variance) && !problem.inputs[role]) continue;
    problem.outputs[role] = Tensor(format, *tensor_shape(spec, shape, role));
  }
  return problem;
}

// What can be compared: NaN is NaN, infinities and zeros have a sign, and all else is finite and of a sign.
double kind_of(double x) { return std::isnan(x) || std::isinf(x) || x == 0 ? x : std::copysign(1, x); }

class Special : public ::testing::TestWithParam<Op> {};
INSTANTIATE_TEST_SUITE_P(Ops, Special, ::testing::ValuesIn(testing::all_ops), testing::ByName());

TEST_P(Special, LikePlainDoubles) {
  constexpr std::uint64_t seed = 20260103;
  Random random(seed + static_cast<std::uint64_t>(GetParam()));
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
  std::int64_t zeros[2] = {0, 0};
  const std::int64_t cases = testing::scaled(20'000);
  const int rounding[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
  for (std::int64_t i = 0; i < cases; ++i) {
    const Format format = testing::all_formats[random.between(0, 5)];
    Problem problem = random_problem(random, GetParam(), format);
    ASSERT_TRUE((testing::Call{problem.spec, problem.inputs, problem.mode}.run(problem.outputs).ok()));
    const int mode = rounding[static_cast<int>(problem.mode)];
    std::fesetround(mode);
    const Values expected = in_doubles(problem, mode);
    std::fesetround(FE_TONEAREST);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!expected[role]) continue;
      for (std::size_t e = 0; e < expected[role]->size(); ++e) {
        double want = kind_of((*expected[role])[e]);
        if (std::isinf(want) && !testing::layout(format).infinity) want = nan;
        const Bits bits = problem.outputs[role]->bits(e);
        const double got = kind_of(testing::value(format, bits));
        nans += std::isnan(want);
        infinities += std::isinf(want);
        zeros[std::signbit(want)] += want == 0;
        // γx̂ + β = 0 need not be 0 in doubles: all they say of such a value is that it is small.
        if ((*expected[role])[e] != 0 && std::fabs((*expected[role])[e]) < 1e-12) {
          ASSERT_EQ(got, 0);
          continue;
        }
        const bool tiny = (*expected[role])[e] != 0 && std::fabs((*expected[role])[e]) < testing::value(format, 1);
        const bool same = tiny               ? std::signbit(got) == std::signbit(want) && std::fabs(got) <= 1
                          : std::isnan(want) ? std::isnan(got)
                                             : got == want && std::signbit(got) == std::signbit(want);
        ASSERT_TRUE(same) << "case " << i << ", " << info(format).name << ", " << name(role) << "[" << e << "] is of the kind " << got
                          << ", should be of " << want << "\n"
                          << testing::text(problem);
        // Infinity has no sign left where it turns into E4M3's NaN; every other NaN is the one canonical pattern.
        ASSERT_TRUE(!std::isnan(want) || !testing::layout(format).infinity || bits == testing::layout(format).nan()) << testing::hex(bits);
      }
    }
  }
  std::cout << nans << " NaN, " << infinities << " infinite, " << zeros[0] << " +0, " << zeros[1] << " -0\n";
  EXPECT_GT(nans, cases);
  EXPECT_GT(infinities, cases / 100);
  EXPECT_GT(zeros[0], cases / 100);
  EXPECT_GT(zeros[1], cases / 100);
}

}  // namespace
}  // namespace norma
