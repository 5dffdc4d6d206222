// The one arithmetic of the reference: real numbers of the form  p + q·κ  with p, q dyadic rationals and κ a quadratic surd.
//
// Every finite binary float is an integer times a power of two, so sums, differences and products of inputs are dyadic. What divides and
// takes roots is the same for a whole group of elements: κ, say 1/√(σ²+ε). Every output of every op is then p + q·κ: one irrational per
// group, one dyadic pair per element.
//
// Such a number is rounded without tolerance, iteration or extra digits. Over a common denominator it is (A + C√v)/D with integers, and
//     ⌊(A + √B)/D⌋ = ⌊(A + ⌊√B⌋)/D⌋,    ⌊(A − √B)/D⌋ = ⌊(A − ⌈√B⌉)/D⌋,
// so an integer square root and an integer division decide its leading digits and whether anything follows them. `digits` first looks at
// an enclosure of κ of 124 bits, computed once per group (`digits_enclosed`); only where that leaves a digit open is the rule applied
// (`digits_exact`).
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <optional>

#include "norma/format.h"
#include "norma/rounding.h"

namespace norma {

// Any size; up to 512 bits without the heap, which covers an ordinary row's every intermediate.
using Integer = boost::multiprecision::number<
    boost::multiprecision::cpp_int_backend<512, 0, boost::multiprecision::signed_magnitude, boost::multiprecision::unchecked>,
    boost::multiprecision::et_off>;

// significand · 2^exponent, or one of IEEE 754's special values. The operations below are exact on finite numbers and follow
// IEEE 754 on the rest: the signs of zeros, Inf − Inf, 0 · Inf, NaN.
struct Dyadic {
  Kind kind = Kind::finite;
  bool negative = false;  // also of zeros and infinities
  Integer significand;    // carries the sign too; zero unless finite
  int exponent = 0;

  Dyadic() = default;
  Dyadic(Integer n, int e = 0);  // NOLINT(google-explicit-constructor): an integer is a dyadic number
  explicit Dyadic(const Decoded& value);
  [[nodiscard]] static Dyadic nan();
  [[nodiscard]] static Dyadic infinity(bool negative);

  [[nodiscard]] bool finite() const { return kind == Kind::finite; }
  [[nodiscard]] bool zero() const { return finite() && significand.is_zero(); }
};

[[nodiscard]] Dyadic operator-(Dyadic a);
[[nodiscard]] Dyadic operator*(const Dyadic& a, const Dyadic& b);
// The mode decides one thing, the sign of x + (−x): +0, but −0 when rounding down.
[[nodiscard]] Dyadic add(Dyadic a, Dyadic b, Mode mode = Mode::nearest_even);

// A nonnegative constant (a + c√v)/d · 2^exponent, c = 0 or v no square: zero, positive, +infinity, or NaN.
class Surd {
 public:
  Surd() = default;  // zero
  // numerator/denominator, both nonnegative. IEEE 754's division by zero: n/0 is infinite, 0/0 is NaN.
  [[nodiscard]] static Surd ratio(Integer numerator, Integer denominator);
  // 1/(s·√(t/z)), z > 0 and s > 0 integers. A zero t gives infinity, an infinite one zero, a negative one or NaN gives NaN.
  [[nodiscard]] static Surd reciprocal_root(const Dyadic& t, const Integer& z, const Integer& s);
  // 1/(s·(√(t/z) + e)), e >= 0 finite; t as above.
  [[nodiscard]] static Surd reciprocal_root_plus(const Dyadic& t, const Integer& z, const Dyadic& e, const Integer& s);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool zero() const { return kind_ == Kind::finite && a_.is_zero() && c_.is_zero(); }
  [[nodiscard]] bool rational() const { return c_.is_zero(); }
  [[nodiscard]] const Integer& a() const { return a_; }
  [[nodiscard]] const Integer& c() const { return c_; }
  [[nodiscard]] const Integer& v() const { return v_; }
  [[nodiscard]] const Integer& d() const { return d_; }
  [[nodiscard]] int exponent() const { return exponent_; }

  // The enclosure  low · 2^low_exponent <= κ < (low + 1) · 2^low_exponent, of at least 124 bits; with `tight` the left is an equality.
  [[nodiscard]] const Integer& low() const { return low_; }
  [[nodiscard]] int low_exponent() const { return low_exponent_; }
  [[nodiscard]] bool tight() const { return tight_; }

 private:
  explicit Surd(Kind kind) : kind_(kind) {}
  Surd(Integer a, Integer c, Integer v, Integer d, int exponent);

  Integer a_, c_, v_, d_{1};
  Integer low_;
  int exponent_ = 0;
  int low_exponent_ = 0;
  Kind kind_ = Kind::finite;
  bool tight_ = true;
};

// p + q·κ. Built by `affine`; refers to its κ, which has to outlive it.
struct Real {
  Dyadic p;                     // the whole value where κ is null; not finite only then
  Dyadic q;                     // finite
  const Surd* kappa = nullptr;  // finite and positive, or null
  bool negative_zero = false;   // the sign of the value if it is zero

  Real() = default;
  explicit Real(Dyadic value) : p(std::move(value)), negative_zero(p.negative) {}
  [[nodiscard]] bool finite() const { return p.finite(); }
};

// gain · (deviation · κ) + bias, a null gain or bias meaning none, with IEEE 754's special values and signs of zero.
[[nodiscard]] Real affine(const Dyadic* gain, const Dyadic& deviation, const Surd& kappa, const Dyadic* bias,
                          Mode mode = Mode::nearest_even);

// The leading 64 binary digits of a finite number: from the enclosure of κ if that decides them, else by the rule, which decides all.
[[nodiscard]] Digits digits(const Real& y);
[[nodiscard]] std::optional<Digits> digits_enclosed(const Real& y);
[[nodiscard]] Digits digits_exact(const Real& y);

// ⌊|y|·2^k⌋ for finite y, and whether the floor is the number itself.
struct Floor {
  Integer value;
  bool exact;
};
[[nodiscard]] Floor floor_magnitude(const Real& y, int k);

// The correctly rounded value; special values become the format's own (a canonical quiet NaN; NaN for infinity where there is none).
[[nodiscard]] Rounded round(const Real& y, Format format, Mode mode = Mode::nearest_even);

// |got − y| in units in the last place of `format` at y (of its largest binade where y is beyond it), correctly rounded to a double,
// the largest one where the error exceeds that.
// Infinite where one of the two is finite and the other is not, or where they are different infinities; 0 where both are NaN, and for
// NaN in place of infinity in a format that has none.
[[nodiscard]] double ulp_error(const Real& y, Format format, Bits got);

// The largest value of `format` not above y, and the smallest not below it: equal if y is one of them. y finite.
struct Neighbours {
  Bits below;
  Bits above;
};
[[nodiscard]] Neighbours neighbours(const Real& y, Format format);

}  // namespace norma
