// Double-double arithmetic: error-free transformations of Knuth (two_sum), Dekker (fast_two_sum) and the fused multiply-add (two_product),
// and the operations on pairs built from them (Joldes, Muller and Popescu 2017). u = 2^-53. Errors hold where nothing overflows and no
// error term underflows. Needs round to nearest and no contraction.
#pragma once

#include <cmath>

#include "ladder.h"

#ifdef __FAST_MATH__
#error "error-free transformations need IEEE arithmetic: compile without -ffast-math"
#endif

namespace norma::simd {

inline constexpr double u = 0x1p-53;

// a + b, exactly.
inline DoubleDouble two_sum(double a, double b) {
  const double s = a + b;
  const double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// a + b, exactly, for |a| >= |b| or a = 0.
inline DoubleDouble fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
// a · b, exactly.
inline DoubleDouble two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}
inline DoubleDouble operator-(DoubleDouble a) { return {-a.hi, -a.lo}; }
// Relative error 3u² + 13u³ for operands of one sign; else 3u²·(|a| + |b|) absolute.
inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = two_sum(a.hi, b.hi);
  const DoubleDouble t = two_sum(a.lo, b.lo);
  const DoubleDouble v = fast_two_sum(s.hi, s.lo + t.hi);
  return fast_two_sum(v.hi, t.lo + v.lo);
}
inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + -b; }
// Relative error 2u²; absolute 2u²·(|a| + |b|) where they cancel.
inline DoubleDouble operator+(DoubleDouble a, double b) {
  const DoubleDouble s = two_sum(a.hi, b);
  return fast_two_sum(s.hi, a.lo + s.lo);
}
// Relative error 5u².
inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, p.lo + std::fma(a.hi, b.lo, a.lo * b.hi));
}
// Relative error 2u².
inline DoubleDouble operator*(DoubleDouble a, double b) {
  const DoubleDouble p = two_product(a.hi, b);
  return fast_two_sum(p.hi, std::fma(a.lo, b, p.lo));
}
// Relative error 3u².
inline DoubleDouble operator/(DoubleDouble a, double b) {
  const double q = a.hi / b;
  const DoubleDouble p = two_product(q, b);
  return fast_two_sum(q, ((a.hi - p.hi) - p.lo + a.lo) / b);
}
// 1/√a for a > 0, relative error 64u²; one Newton step from the double. That one is off by at most 2.5u, so the step leaves
// (3/2)·(2.5u)² < 9.5u²; the residual, of size 5u, adds half of what its product (5u²), its difference and the square carry, less than 8u²,
// and its low part and the last rounding less than 3u².
inline DoubleDouble reciprocal_root(DoubleDouble a) {
  const double r = 1 / std::sqrt(a.hi);
  const DoubleDouble residual = DoubleDouble{1, 0} - a * two_product(r, r);
  return fast_two_sum(r, r * (residual.hi * 0.5));
}

}  // namespace norma::simd
