// The third method: every op straight from its definition, in interval arithmetic (MPFI), which encloses the true value whatever happens.
// Groups are found by asking every element for its group; there are no strides. Nothing of the library's arithmetic is used.
#pragma once

#include <mpfr.h>

#include <boost/multiprecision/mpfi.hpp>
#include <cstdlib>
#include <optional>

#include "problem.h"

namespace norma::testing {

template <unsigned Digits>
using Interval = boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<Digits>, boost::multiprecision::et_off>;

// A value of MPFR rounded to a format: brought to units in the last place, rounded to an integer by MPFR, and put together.
inline Bits rounded(mpfr_srcptr x, Format format, Mode mode) {
  struct Scratch {
    mpfr_t scaled, integer;
    Scratch() { mpfr_inits2(64, scaled, integer, static_cast<mpfr_ptr>(nullptr)); }
    ~Scratch() { mpfr_clears(scaled, integer, static_cast<mpfr_ptr>(nullptr)); }
  };
  thread_local Scratch scratch;
  const Layout f = layout(format);
  const Bits sign = mpfr_signbit(x) != 0 ? f.sign() : 0;
  if (mpfr_zero_p(x) != 0) return sign;
  const int e = static_cast<int>(std::clamp<mpfr_exp_t>(mpfr_get_exp(x) - 1, 1 - f.bias, f.greatest_exponent() + 1));
  const int ulp = e - f.fraction_bits;
  if (mpfr_get_prec(scratch.scaled) < mpfr_get_prec(x)) mpfr_set_prec(scratch.scaled, mpfr_get_prec(x));
  mpfr_mul_2si(scratch.scaled, x, -ulp, MPFR_RNDN);  // exact
  const mpfr_rnd_t direction[] = {MPFR_RNDN, MPFR_RNDZ, MPFR_RNDU, MPFR_RNDD};
  mpfr_rint(scratch.integer, scratch.scaled, direction[static_cast<int>(mode)]);  // ties to even
  const double integer = std::fabs(mpfr_get_d(scratch.integer, MPFR_RNDN));
  const bool outward = mode == Mode::nearest_even || mode == (sign != 0 ? Mode::down : Mode::up);
  const Bits beyond = sign | (outward ? (f.infinity ? f.largest() + 1 : f.nan()) : f.largest());
  if (e > f.greatest_exponent()) return beyond;
  const Bits n = static_cast<Bits>(integer);
  const Bits hidden = Bits{1} << f.fraction_bits;
  const Bits magnitude = n < hidden ? n : n - hidden + (static_cast<Bits>(ulp - f.least_exponent() + 1) << f.fraction_bits);
  return magnitude > f.largest() ? beyond : sign | magnitude;
}

// Patterns in the order of their values; both zeros are 0.
inline std::int64_t order(Format format, Bits bits) {
  const Bits sign = layout(format).sign();
  return (bits & sign) != 0 ? -static_cast<std::int64_t>(bits - sign) : static_cast<std::int64_t>(bits);
}

// What the outputs are, as far as intervals can tell: nothing where a value is not finite, or hangs on a rounding that is undecided.
template <class I>
using Answers = ByRole<std::vector<std::optional<I>>>;

template <class I>
Answers<I> solve(const Problem& problem) {
  const Spec& spec = problem.spec;
  const Profile& profile = spec.profile;
  const Tensor& x = *problem.inputs[Role::x];
  const auto have = [&](Role role) { return problem.inputs[role].has_value(); };
  const auto input = [&](Role role, std::size_t i) { return I((*problem.inputs[role])[i]); };
  const auto enclosed = [](const I& value, Format format, Mode mode) -> std::optional<double> {
    const Bits low = rounded(&value.backend().data()->left, format, mode);
    const Bits high = rounded(&value.backend().data()->right, format, mode);
    const double result = testing::value(format, low);
    return low == high && std::isfinite(result) ? std::optional(result) : std::nullopt;
  };

  Answers<I> answers;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (problem.outputs[role]) answers[role].emplace(problem.outputs[role]->size());
  }
  const auto answer = [&](Role role, std::size_t i, const I& value) {
    if (answers[role]) (*answers[role])[i] = value;
  };

  struct Member {
    std::size_t index;
    std::size_t parameter;
    std::optional<I> x;
  };
  std::vector<std::vector<Member>> groups;
  std::size_t flat = 0;
  for (std::int64_t i = 0; i < problem.extent(0); ++i) {
    for (std::int64_t j = 0; j < problem.extent(1); ++j) {
      for (std::int64_t k = 0; k < problem.extent(2); ++k, ++flat) {
        const std::int64_t at[3] = {i, j, k};
        const auto g = static_cast<std::size_t>(problem.group(at));
        if (groups.size() <= g) groups.resize(g + 1);
        std::optional<I> value = I(x[flat]);
        if (have(Role::residual)) {
          value = *value + input(Role::residual, flat);
          if (profile.residual_sum == ResidualSum::rounded) {
            const auto sum = enclosed(*value, x.format(), Mode::nearest_even);
            value = sum ? std::optional(I(*sum)) : std::nullopt;
          }
        }
        groups[g].push_back({flat, problem.parameter(at), value});
      }
    }
  }

  const I epsilon(spec.effective_epsilon());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<Member>& members = groups[g];
    bool known = true;
    for (const Member& m : members) known = known && m.x.has_value();
    if (!known) continue;
    const I n(static_cast<double>(members.size()));
    I mean = 0;
    I variance = 0;
    I squares = 0;
    if (spec.op == Op::batch_norm_inference) {
      mean = input(Role::mean, g);
      variance = input(Role::variance, g);
    } else {
      if (info(spec.op).centred) {
        for (const Member& m : members) mean += *m.x;
        mean /= n;
      }
      for (const Member& m : members) {
        const I deviation = *m.x - mean;
        I square;
        mpfi_sqr(square.backend().data(), deviation.backend().data());  // deviation·deviation would forget that the two are one
        squares += square;
      }
      variance = squares;
      if (spec.op != Op::weight_norm) variance /= profile.variance == Estimator::unbiased ? n - 1 : n;
    }
    answer(Role::mean, g, mean);
    answer(Role::variance, g, variance);
    const I momentum(spec.momentum);
    const I weight = profile.momentum == Momentum::weight_of_new ? momentum : 1 - momentum;
    if (answers[Role::running_mean]) answer(Role::running_mean, g, (1 - weight) * input(Role::running_mean, g) + weight * mean);
    if (answers[Role::running_variance]) {
      const I estimate = squares / (profile.running_variance == Estimator::unbiased ? n - 1 : n);
      answer(Role::running_variance, g, (1 - weight) * input(Role::running_variance, g) + weight * estimate);
    }
    const bool inside = profile.epsilon_placement == EpsilonPlacement::inside;
    const I under = inside ? variance + epsilon : variance;
    if (mpfr_sgn(&under.backend().data()->left) < 0) continue;
    const I root = inside ? sqrt(under) : sqrt(under) + epsilon;
    const bool divisible = mpfr_sgn(&root.backend().data()->left) > 0;
    const I rstd = divisible ? 1 / root : I(0);
    if (divisible) answer(Role::rstd, g, rstd);
    for (const Member& m : members) {
      const I deviation = *m.x - mean;
      answer(Role::sum, m.index, *m.x);
      answer(Role::deviation, m.index, deviation);
      if (!divisible) continue;
      I xhat = deviation * rstd;
      if (profile.cast_before_gain) {
        const auto cast = enclosed(xhat, problem.outputs[Role::y]->format(), problem.mode);
        if (!cast) continue;
        xhat = *cast;
      }
      answer(Role::xhat, m.index, xhat);
      if (have(Role::gamma)) xhat *= profile.gain_offset ? 1 + input(Role::gamma, m.parameter) : input(Role::gamma, m.parameter);
      if (have(Role::beta)) xhat += input(Role::beta, m.parameter);
      answer(Role::y, m.index, xhat);
    }
  }
  return answers;
}

}  // namespace norma::testing
