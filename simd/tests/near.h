// Calls in which the exact value of an element lies as near to a midpoint between two values of the format as asked, or on it.
//
// Integers x leave y = x̂ = d/√(v + ε) to a choice of ε. For a midpoint m just below d/√v,  ε = (d/m)² − v  is small against v, and rounding
// it to a double moves y by about 2^-54·ε/v of itself: the nearer m is to d/√v, the nearer y is to m.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>

#include "norma/exact.h"
#include "values.h"

namespace norma::simd {

// log2 of the relative distance of y[index] from the nearest midpoint; -infinity on it.
inline double distance_from_midpoint(const Trial& t, std::size_t index) {
  double log2 = std::numeric_limits<double>::quiet_NaN();
  ByRole<ConstView> in;
  ByRole<View> wanted;
  for (std::size_t r = 0; r < role_count; ++r) {
    if (t.inputs[static_cast<Role>(r)]) in[static_cast<Role>(r)] = t.inputs[static_cast<Role>(r)]->in();
  }
  Tensor y(t.call.format, shape_of(t.call));
  wanted[Role::y] = y.out();
  const Status status = evaluate(spec_of(t.call), in, wanted, Mode::nearest_even, [&](Role, std::int64_t offset, const Real& value) {
    if (offset != static_cast<std::int64_t>(index) || !value.finite()) return;
    constexpr int extra = 200;
    const int p = info(t.call.format).precision;
    const Digits first = digits(value);
    if (first.zero()) return;
    const Floor scaled = floor_magnitude(value, p + extra - first.log2());
    const Integer ulp = Integer(1) << (extra + 1);
    const Integer off = abs(Integer(scaled.value % ulp - ulp / 2));
    log2 =
        off.is_zero() ? (scaled.exact ? -std::numeric_limits<double>::infinity() : -extra - p) : static_cast<double>(msb(off)) - extra - p;
  });
  EXPECT_TRUE(status.ok()) << status.message;
  return log2;
}

// A call on one group of integers (of several like it where the op has rows), without its epsilon.
struct Integers {
  Trial trial;
  std::int64_t n = 0;         // d/n is an element's deviation,
  std::int64_t d = 0;         //   that of element 0,
  std::int64_t variance = 0;  // and variance/n² the variance
};
inline Integers integers(Op op, Format format, const std::vector<std::int64_t>& values, std::size_t copies = 1) {
  Integers r;
  Call& c = r.trial.call;
  c.op = op;
  c.format = c.params = format;
  c.epsilon = 1;
  c.rows = c.cases = copies;
  c.cols = c.positions = values.size();
  c.channels = 1;
  if (op == Op::batch_norm_training) c.cases = 1;
  std::vector<double> x;
  for (std::size_t k = 0; k < (c.op == Op::batch_norm_training ? 1 : copies); ++k) x.insert(x.end(), values.begin(), values.end());
  r.trial.fill(Role::x, x);
  std::int64_t sum = 0;
  std::int64_t squares = 0;
  for (const std::int64_t v : values) sum += v, squares += v * v;
  r.n = static_cast<std::int64_t>(values.size());
  if (!info(op).centred) sum = 0;
  r.d = r.n * values[0] - sum;
  r.variance = r.n * squares - sum * sum;
  if (info(op).given_statistics) {
    r.n = 1;
    r.d = values[0] - 1;
    r.variance = 7;
    r.trial.fill(Role::mean, {1});
    r.trial.fill(Role::variance, {7});
  }
  return r;
}
// ε such that y[0] is all but the midpoint of the greatest significand that leaves ε at least 2^-nearness of v. 0 if there is none.
inline double epsilon_near_midpoint(const Integers& g, Format format, int nearness) {
  if (g.d == 0 || g.variance == 0) return 0;
  const int p = info(format).precision;
  const Integer d2 = Integer(g.d) * g.d;
  const Integer v = g.variance;
  int s = p + 64;
  Integer m = sqrt(Integer((d2 << (2 * s)) / v));  // |d|/√variance, scaled
  m -= nearness <= p ? Integer(m >> nearness) : Integer(0);
  const int surplus = static_cast<int>(msb(m)) - p;
  m >>= surplus;
  s -= surplus;
  // p + 1 bits and odd: a midpoint.
  if ((m & 1) == 0) m -= 1;
  if (static_cast<int>(msb(m)) < p) m = 2 * m + 1, ++s;
  const Integer numerator = (s >= 0 ? Integer(d2 << (2 * s)) : Integer(d2 >> (-2 * s))) - v * m * m;
  if (numerator <= 0) return 0;
  const Integer denominator = m * m * g.n * g.n;
  constexpr int scale = 400;
  return std::ldexp(Integer((numerator << scale) / denominator).convert_to<double>(), -scale);
}

}  // namespace norma::simd
