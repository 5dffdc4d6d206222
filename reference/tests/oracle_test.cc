// Random calls of every op, in every format and profile, against intervals (oracle.h). Where both ends of an interval round alike, that
// is the answer; where they do not, even at 4600 bits, the value is a tie or exact, and ours has to lie between the two.
#include "oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "scale.h"

namespace norma {
namespace {

using testing::Layout;
using testing::layout;
using testing::Problem;
using testing::Random;
using testing::Tensor;

Bits random_finite(Random& random, Format format) {
  const Layout f = layout(format);
  return random.next() % (f.largest() + 1) | (random.one_in(2) ? f.sign() : 0);
}

// A value of about 2^exponent.
Bits random_near(Random& random, Format format, int exponent) {
  const double size = std::ldexp(1 + static_cast<double>(random.next() >> 11) * 0x1p-53, exponent);
  const Bits bits = testing::nearest(format, random.one_in(2) ? size : -size);
  return std::isfinite(testing::value(format, bits)) ? bits : random_finite(random, format);
}

// The values of one group are drawn in one style, and they differ from group to group.
class Style {
 public:
  Style(Random& random, Format format) : random_(random), format_(format), f_(layout(format)), kind_(random.between(0, 11)) {
    exponent_ = static_cast<int>(random.between(1 - f_.bias, f_.greatest_exponent() - 1));
    if (random.one_in(2)) exponent_ = static_cast<int>(random.between(-4, 4));
    base_ = random_near(random, format, exponent_);
    base_magnitude_ = base_ & (f_.sign() - 1);
  }
  Bits draw() {
    switch (kind_) {
      case 0:
      case 1:
        return random_near(random_, format_, exponent_ - static_cast<int>(random_.between(0, 3)));  // ordinary
      case 2:
        return step(random_.between(-1000, 1000));  // a large mean, a small spread
      case 3:
        return step(random_.between(0, 3));
      case 4:
        return base_;  // flat
      case 5:
        return step(random_.one_in(8) ? 1 : 0);  // nearly flat
      case 6:
        return random_finite(random_, format_);  // all exponents
      case 7:
        return random_.next() % (Bits{1} << f_.fraction_bits) | (random_.one_in(2) ? f_.sign() : 0);  // subnormal
      case 8:
        return (f_.largest() - random_.next() % 8) | (random_.one_in(2) ? f_.sign() : 0);  // squares overflow, sums too
      case 9:
        return testing::nearest(format_, static_cast<double>(random_.between(-8, 8)));  // exact values, ties
      case 10:
        return base_magnitude_ | (random_.one_in(2) ? f_.sign() : 0);  // ±a: of spread |a|, exactly
      default:
        return random_.one_in(12) ? random_near(random_, format_, f_.greatest_exponent() - 1)  // an outlier
                                  : random_near(random_, format_, exponent_);
    }
  }

 private:
  Bits step(std::int64_t ulps) {
    const auto magnitude = static_cast<std::int64_t>(base_magnitude_) + ulps;
    return static_cast<Bits>(std::clamp<std::int64_t>(magnitude, 0, static_cast<std::int64_t>(f_.largest()))) | (base_ & f_.sign());
  }

  Random& random_;
  Format format_;
  Layout f_;
  std::int64_t kind_;
  int exponent_;
  Bits base_, base_magnitude_;
};

Problem random_problem(Random& random, Op op, Format format) {
  Problem problem;
  Spec& spec = problem.spec;
  const OpInfo& op_info = info(op);
  const auto some_format = [&] { return random.one_in(2) ? format : testing::all_formats[random.between(0, 5)]; };
  spec = testing::spec_of(op, random.of(std::vector<std::optional<double>>{std::nullopt, 0.0, 1e-12, 1e-5, 1e-3, 0x1p-149, 0x1p-1074, 3.0,
                                                                           std::ldexp(1.0, static_cast<int>(random.between(-60, 60)))}));
  problem.mode = random.one_in(2) ? Mode::nearest_even : testing::all_modes[random.between(0, 3)];

  // Extents such that a group has n elements, n mostly below 40, and there are few groups.
  const std::int64_t n = random.one_in(8) ? 1 : random.one_in(50) ? random.between(40, 130) : random.between(2, 40);
  const std::int64_t part = random.one_in(2) ? 1 : random.between(1, n);
  const std::int64_t rest = std::max<std::int64_t>(n / part, 1);
  const std::int64_t few = random.between(1, 3);
  Shape shape;
  switch (op_info.grouping) {
    case Grouping::trailing:
      spec.axis = random.of(std::vector<int>{1, 2, -1, -2});
      shape = *spec.axis == 1 || *spec.axis == -2 ? Shape{few, part, rest} : Shape{1, few, n};
      break;
    case Grouping::channel:
    case Grouping::leading_index: {
      spec.axis = static_cast<int>(random.between(-3, 2));
      shape = {part, rest, 1};
      std::swap(shape[1], shape[static_cast<std::size_t>(random.between(1, 2))]);
      shape.erase(shape.begin() + random.between(0, 2));
      shape.insert(shape.begin() + (*spec.axis + 3) % 3, few);
      break;
    }
    case Grouping::channel_groups: {
      spec.axis = random.of(std::vector<int>{1, 2, -1, -2});
      const std::int64_t groups = random.between(1, 3);
      if (op == Op::group_norm) spec.groups = groups;
      const std::int64_t channels = op == Op::group_norm ? groups * part : few;
      shape = *spec.axis == 1 || *spec.axis == -2 ? Shape{2, channels, rest} : Shape{2, rest, channels};
      break;
    }
  }
  const Tensor x(format, shape);
  problem.inputs[Role::x] = x;

  Profile& profile = spec.profile;
  profile.epsilon_placement = random.one_in(3) ? EpsilonPlacement::outside : EpsilonPlacement::inside;
  profile.momentum = random.one_in(2) ? Momentum::weight_of_old : Momentum::weight_of_new;
  profile.gain_offset = random.one_in(3);
  profile.cast_before_gain = random.one_in(4);
  profile.residual_sum = random.one_in(2) ? ResidualSum::exact : ResidualSum::rounded;
  spec.momentum = random.of(std::vector<double>{0.1, 0, 1, 0.5, 0.9, 0.99});

  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      for (std::int64_t k = 0; k < shape[2]; ++k) {
        const auto g = static_cast<std::size_t>(problem.group({i, j, k}));
        if (sizes.size() <= g) sizes.resize(g + 1);
        ++sizes[g];
      }
    }
  }
  const bool single = *std::min_element(sizes.begin(), sizes.end()) < 2;
  profile.variance = !single && info(spec.op).estimates_variance() && random.one_in(3) ? Estimator::unbiased : Estimator::biased;
  profile.running_variance = single || random.one_in(2) ? Estimator::biased : Estimator::unbiased;

  const auto elements = [&](Format of) {
    Tensor t(of, shape);
    std::vector<Style> styles;
    while (styles.size() < sizes.size()) styles.emplace_back(random, of);
    std::size_t flat = 0;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = 0; j < shape[1]; ++j) {
        for (std::int64_t k = 0; k < shape[2]; ++k) t.set(flat++, styles[static_cast<std::size_t>(problem.group({i, j, k}))].draw());
      }
    }
    return t;
  };
  const auto vector_of = [&](const Shape& of, bool nonnegative) {
    Tensor t(some_format(), of);
    Style style(random, t.format());
    for (std::size_t i = 0; i < t.size(); ++i) t.set(i, nonnegative ? style.draw() & (layout(t.format()).sign() - 1) : style.draw());
    return t;
  };
  problem.inputs[Role::x] = elements(format);
  const auto at = shape.begin() + (*spec.axis + 3) % 3;
  const Shape parameter = op_info.grouping == Grouping::trailing ? Shape(at, shape.end()) : Shape{*at};
  for (const Role role :
       {Role::gamma, Role::beta, Role::residual, Role::mean, Role::variance, Role::running_mean, Role::running_variance}) {
    if (!op_info.inputs.contain(role) || (!op_info.required.contain(role) && random.one_in(2))) continue;
    problem.inputs[role] =
        role == Role::residual ? elements(some_format()) : vector_of(parameter, role == Role::variance || role == Role::running_variance);
  }
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!op_info.outputs.contain(role) || (role != Role::y && random.one_in(2))) continue;
    if ((role == Role::running_mean || role == Role::running_variance) && !problem.inputs[role]) continue;
    problem.outputs[role] = Tensor(some_format(), *tensor_shape(spec, shape, role));
  }
  return problem;
}

struct Tally {
  std::int64_t values = 0;
  std::int64_t undecided = 0;
  std::int64_t unknown = 0;
};

// False where more precision might settle what this one leaves open.
template <class I>
bool check(const Problem& problem, bool last, Tally& tally) {
  const testing::Answers<I> answers = testing::solve<I>(problem);
  Tally here;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!answers[role]) continue;
    const Tensor& got = *problem.outputs[role];
    const Format format = got.format();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::optional<I>& answer = (*answers[role])[i];
      ++here.values;
      if (!answer) {
        ++here.unknown;
        continue;
      }
      const auto* ends = answer->backend().data();
      const Bits low = testing::rounded(&ends->left, format, problem.mode);
      const Bits high = testing::rounded(&ends->right, format, problem.mode);
      const Bits ours = got.bits(i);
      const bool zero_inside = mpfr_sgn(&ends->left) <= 0 && mpfr_sgn(&ends->right) >= 0;  // the sign of a zero is not in the interval
      if (testing::order(format, low) == testing::order(format, high)) {
        EXPECT_EQ(zero_inside ? ours & (layout(format).sign() - 1) : ours, zero_inside ? low & (layout(format).sign() - 1) : low)
            << name(role) << "[" << i << "] in " << info(format).name << ": " << testing::hex(ours) << ", should be " << testing::hex(low)
            << "\n"
            << testing::text(problem);
        continue;
      }
      ++here.undecided;
      if (!last) continue;
      // 1400 digits agree with the point at which the rounding changes: that is what the value is. (It is algebraic, of degree 2 over
      // numbers of some 10^3 bits; one so near such a point without being it would need longer ones.)
      const auto inside = [&](Bits bits) {
        const double point = testing::value(format, bits);  // NaN beyond the largest value of a format without infinity
        return !std::isnan(point) && mpfr_cmp_d(&ends->left, point) <= 0 && mpfr_cmp_d(&ends->right, point) >= 0;
      };
      const bool take_low = problem.mode == Mode::nearest_even ? (low & 1) == 0 : inside(low);
      EXPECT_TRUE(problem.mode == Mode::nearest_even || inside(low) || inside(high));
      EXPECT_EQ(testing::order(format, ours), testing::order(format, take_low ? low : high)) << name(role) << "[" << i << "]\n"
                                                                                             << testing::text(problem);
    }
  }
  if (!last && here.undecided + here.unknown > 0) return false;
  tally.values += here.values;
  tally.undecided += here.undecided;
  tally.unknown += here.unknown;
  return true;
}

class Oracle : public ::testing::TestWithParam<std::tuple<Op, Format>> {};
INSTANTIATE_TEST_SUITE_P(All, Oracle, ::testing::Combine(::testing::ValuesIn(testing::all_ops), ::testing::ValuesIn(testing::all_formats)),
                         [](const auto& each) {
                           return std::string(norma::info(std::get<0>(each.param)).name) + "_" +
                                  std::string(norma::info(std::get<1>(each.param)).name);
                         });

TEST_P(Oracle, AgreesWithIntervals) {
  const auto [op, format] = GetParam();
  constexpr std::uint64_t seed = 20260102;
  Random random(seed + 100 * static_cast<std::uint64_t>(op) + static_cast<std::uint64_t>(format));
  const std::int64_t rows = testing::scaled(5000);
  std::int64_t done = 0;
  Tally tally;
  for (std::int64_t i = 0; done < rows; ++i) {
    Problem problem = random_problem(random, op, format);
    const testing::Call call{problem.spec, problem.inputs, problem.mode};
    const Status status = call.run(problem.outputs);
    ASSERT_TRUE(status.ok()) << "case " << i << ": " << status.message << "\n" << testing::text(problem);
    if (!check<testing::Interval<155>>(problem, false, tally)) check<testing::Interval<1400>>(problem, true, tally);
    ASSERT_FALSE(HasFailure()) << "case " << i << ", seed " << seed;
    done += testing::size_of(*tensor_shape(problem.spec, problem.inputs[Role::x]->shape(), Role::rstd));
  }
  std::cout << info(op).name << " in " << info(format).name << ": " << done << " groups, " << tally.values << " values, " << tally.undecided
            << " ties or exact, " << tally.unknown << " not finite or behind one\n";
  EXPECT_GT(tally.values, 5 * rows);
  EXPECT_LT(tally.undecided, tally.values / 20);
  EXPECT_LT(tally.unknown, tally.values / 5);
}

}  // namespace
}  // namespace norma
