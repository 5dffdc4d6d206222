// The second method for everything about p + q·κ: no digits, no square roots, only comparisons. Whether y lies above or below a dyadic
// number is the sign of X + Y√ρ over integers, which signs and squares decide. A rounded result is right if y lies between the
// midpoints around it; nothing is ever approximated.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <concepts>
#include <string>
#include <utility>

#include "norma/exact.h"
#include "testing.h"

namespace norma::testing {

using Big = boost::multiprecision::cpp_int;

// m · 2^e
struct Exact {
  Big m;
  int e = 0;

  Exact() = default;
  Exact(Big mantissa, int exponent = 0) : m(std::move(mantissa)), e(exponent) {}  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  Exact(T mantissa, int exponent = 0) : m(mantissa), e(exponent) {}  // NOLINT(google-explicit-constructor)
  // A finite double, by frexp.
  static Exact of(double x) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    return {static_cast<std::int64_t>(std::ldexp(fraction, 53)), exponent - 53};
  }

  [[nodiscard]] int sign() const { return m.sign(); }
  [[nodiscard]] Exact scaled(int k) const { return {m, e + k}; }
  friend Exact operator*(const Exact& a, const Exact& b) { return {a.m * b.m, a.e + b.e}; }
  friend Exact operator+(const Exact& a, const Exact& b) {
    if (a.m == 0) return b;
    if (b.m == 0) return a;
    return a.e < b.e ? Exact{a.m + (b.m << (b.e - a.e)), a.e} : Exact{(a.m << (a.e - b.e)) + b.m, b.e};
  }
  friend Exact operator-(const Exact& a) { return {-a.m, a.e}; }
  friend Exact operator-(const Exact& a, const Exact& b) { return a + -b; }
  friend std::ostream& operator<<(std::ostream& to, const Exact& x) { return to << x.m << "*2^" << x.e; }
};

inline Dyadic dyadic(const Exact& x) { return {Integer(x.m), x.e}; }

// κ = numerator/(alpha + sigma·√rho) with everything but the numerator dyadic and nonnegative, and the library's own κ beside it.
struct Constant {
  Big numerator;
  Exact alpha, sigma, rho;
  Surd surd;

  static Constant ratio(const Big& n, const Big& d) { return {n, d, 0, 0, Surd::ratio(Integer(n), Integer(d))}; }
  // 1/(s√(t/z)) = z/(s√(tz))
  static Constant root(const Exact& t, const Big& z, const Big& s) {
    return {z, 0, s, t * z, Surd::reciprocal_root(dyadic(t), Integer(z), Integer(s))};
  }
  // 1/(s(√(t/z) + e)) = z/(s√(tz) + zse)
  static Constant root_plus(const Exact& t, const Big& z, const Exact& e, const Big& s) {
    return {z, Exact(z * s) * e, s, t * z, Surd::reciprocal_root_plus(dyadic(t), Integer(z), dyadic(e), Integer(s))};
  }

  // κ to about `bits` bits, to aim with: nothing that is checked rests on it.
  [[nodiscard]] Exact approximately(int bits) const {
    Exact root;
    if (rho.m != 0) {
      const int shift = 2 * bits + (rho.e & 1);
      root = {sqrt(Big(rho.m << shift)), (rho.e - shift) / 2};
    }
    const Exact denominator = alpha + sigma * root;
    const int k = bits + static_cast<int>(msb(denominator.m));
    return {(numerator << k) / denominator.m, -k - denominator.e};
  }
};

// y = p + q·κ
struct Number {
  const Constant* kappa;
  Exact p, q;

  // The sign of y − m, that is, of (p − m)(alpha + sigma√rho) + q·numerator.
  [[nodiscard]] int compare(const Exact& m) const {
    const Exact d = p - m;
    const Exact x = d * kappa->alpha + q * kappa->numerator;
    const Exact y = d * kappa->sigma;
    const int sx = x.sign();
    const int sy = kappa->rho.sign() == 0 ? 0 : y.sign();
    if (sy == 0 || sx == sy) return sx;
    if (sx == 0) return sy;
    return (x * x - y * y * kappa->rho).sign() * sx;
  }
  [[nodiscard]] int sign() const { return compare(0); }

  [[nodiscard]] Real real(bool negative_zero = false) const {
    Real r;
    r.p = dyadic(p);
    r.q = dyadic(q);
    r.kappa = &kappa->surd;
    r.negative_zero = negative_zero;
    return r;
  }
  [[nodiscard]] std::string text() const {
    std::ostringstream s;
    s << "p = " << p << ", q = " << q << ", kappa = " << kappa->numerator << "/(" << kappa->alpha << " + " << kappa->sigma << " * sqrt("
      << kappa->rho << "))";
    return s.str();
  }
};

// The value a magnitude would have if the format's exponent went on past its largest value.
inline Exact magnitude_value(Format format, Bits magnitude) {
  const Layout f = layout(format);
  const int exponent = static_cast<int>(magnitude >> f.fraction_bits);
  const Bits fraction = magnitude & ((Bits{1} << f.fraction_bits) - 1);
  if (exponent == 0) return {fraction, f.least_exponent()};
  return {fraction + (Bits{1} << f.fraction_bits), f.least_exponent() + exponent - 1};
}

inline Exact midpoint(const Exact& a, const Exact& b) { return (a + b).scaled(-1); }

// Says what is wrong with a rounding of y, or nothing.
inline std::string fault(const Number& y, bool negative_zero, Format format, Mode mode, const Rounded& got) {
  const Layout f = layout(format);
  const int sign = y.sign();
  const bool negative = sign < 0 || (sign == 0 && negative_zero);
  if (((got.bits & f.sign()) != 0) != negative) return "wrong sign";
  // From here on everything is about |y|.
  const auto compare = [&](const Exact& m) { return negative ? -y.compare(-m) : y.compare(m); };
  const Bits r = got.bits & (f.sign() - 1);
  const Bits top = f.largest();
  const Exact beyond = magnitude_value(format, top + 1);
  const bool overflowed = r > top;
  if (overflowed && r != (f.infinity ? top + 1 : f.sign() - 1)) return "not what an overflow delivers";
  const auto at = [&](Bits magnitude) { return magnitude_value(format, magnitude); };

  bool overflow = false;
  if (mode == Mode::nearest_even) {
    overflow = overflowed;
    if (overflowed) {
      const int c = compare(midpoint(at(top), beyond));
      if (c < 0 || (c == 0 && (top & 1) == 0)) return "overflows too early";
    } else {
      const int above = compare(midpoint(at(r), at(r + 1)));
      if (above > 0 || (above == 0 && (r & 1) != 0)) return "above the midpoint to the next value";
      if (r > 0) {
        const int below = compare(midpoint(at(r - 1), at(r)));
        if (below < 0 || (below == 0 && (r & 1) != 0)) return "below the midpoint to the last value";
      }
    }
  } else if (mode == (negative ? Mode::down : Mode::up)) {
    overflow = overflowed;
    if (overflowed ? compare(at(top)) <= 0 : compare(at(r)) > 0 || (r > 0 && compare(at(r - 1)) <= 0)) return "not the least value above";
  } else {
    if (overflowed) return "overflows toward zero";
    overflow = compare(beyond) >= 0;
    if (compare(at(r)) < 0 || (r < top && compare(at(r + 1)) >= 0)) return "not the greatest value below";
  }
  const bool inexact = overflowed || compare(at(r)) != 0;
  const bool tiny = sign != 0 && compare({1, 1 - f.bias}) < 0;
  if (got.inexact != inexact) return "wrong inexact flag";
  if (got.overflow != overflow) return "wrong overflow flag";
  if (got.underflow != (inexact && tiny)) return "wrong underflow flag";
  return {};
}

// Whether `digits` are the leading digits of y.
inline std::string fault(const Number& y, bool negative_zero, const Digits& digits) {
  const int sign = y.sign();
  if (digits.negative != (sign < 0 || (sign == 0 && negative_zero))) return "digits of the wrong sign";
  if (sign == 0) return digits.zero() && !digits.sticky ? "" : "digits of a zero";
  if (digits.significand >> 63 == 0) return "the leading digit is 0";
  const auto compare = [&](const Exact& m) { return sign < 0 ? -y.compare(-m) : y.compare(m); };
  const int low = compare({digits.significand, digits.exponent});
  if (low < 0 || compare({Big(digits.significand) + 1, digits.exponent}) >= 0) return "not the leading digits";
  return digits.sticky == (low > 0) ? "" : "wrong sticky bit";
}

// Whether `error` is |got − y|/ulp rounded to the nearest double.
inline std::string ulp_fault(const Number& y, Format format, Bits got, double error) {
  const Layout f = layout(format);
  // The ulp is that of the binade of y, found by comparing with powers of two downwards from the largest.
  int low = 1 - f.bias;
  int high = f.greatest_exponent();
  const auto at_least = [&](int e) { return y.compare({1, e}) >= 0 || y.compare({-1, e}) <= 0; };
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    at_least(middle) ? low = middle : high = middle - 1;
  }
  const int ulp = low - f.fraction_bits;
  const Exact centre = Exact::of(value(format, got));
  // −1, 0, 1: |got − y| below, at, above c ulps.
  const auto compare = [&](const Exact& c) {
    const Exact reach = c.scaled(ulp);
    const int above = y.compare(centre + reach);
    const int below = y.compare(centre - reach);
    return above > 0 || below < 0 ? 1 : above == 0 || below == 0 ? 0 : -1;
  };
  if (!(error >= 0) || std::isinf(error)) return "not an error";
  const Bits bits = std::bit_cast<Bits>(error);
  const bool greatest = error == std::numeric_limits<double>::max();  // or more
  const int above = greatest ? -1 : compare(midpoint(magnitude_value(Format::f64, bits), magnitude_value(Format::f64, bits + 1)));
  if (above > 0 || (above == 0 && (bits & 1) != 0)) return "error too small";
  if (bits == 0) return "";
  const int below = compare(midpoint(magnitude_value(Format::f64, bits - 1), magnitude_value(Format::f64, bits)));
  return below < 0 || (below == 0 && (bits & 1) != 0) ? "error too large" : "";
}

// Whether κ's enclosure encloses it, is fine enough, and is called tight if and only if it is.
inline std::string enclosure_fault(const Constant& kappa) {
  if (kappa.surd.kind() != Kind::finite || kappa.surd.zero()) return "not a finite positive constant";
  const Big n(kappa.surd.low());
  if (n == 0 || msb(n) < 123) return "fewer than 124 bits";
  const Number y{&kappa, {}, 1};
  const int low = y.compare({n, kappa.surd.low_exponent()});
  if (low < 0 || y.compare({n + 1, kappa.surd.low_exponent()}) >= 0) return "outside its enclosure";
  return kappa.surd.tight() == (low == 0) ? "" : "wrong about being tight";
}

}  // namespace norma::testing
