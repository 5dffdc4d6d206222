#include "norma/exact.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace norma {
namespace {

// Of κ, up to 4 more: two limbs at most. Of these the digits take 64 and the guard 32; what is left may cancel against p.
constexpr int enclosure_bits = 124;
constexpr int digit_bits = 64;

using Limb = boost::multiprecision::limb_type;
constexpr int limb_bits = std::numeric_limits<Limb>::digits;
static_assert(limb_bits == 64);

// Of the magnitude.
int bit_length(const Integer& n) {
  const std::size_t size = n.backend().size();
  return static_cast<int>(size - 1) * limb_bits + static_cast<int>(std::bit_width(n.backend().limbs()[size - 1]));
}

// The 64 bits of the magnitude from the given one up.
std::uint64_t word_at(const Integer& n, int bit) {
  const Limb* const limbs = n.backend().limbs();
  const auto i = static_cast<std::size_t>(bit / limb_bits);
  const int offset = bit % limb_bits;
  std::uint64_t word = limbs[i] >> offset;
  if (offset != 0 && i + 1 < n.backend().size()) word |= limbs[i + 1] << (limb_bits - offset);
  return word;
}

// (a + c√v)/d over integers, d > 0; c = 0, or v positive and no square. It is zero only if a = c = 0: otherwise c√v is irrational.
struct Quadratic {
  Integer a, c, v, d;

  // ⌊|this| · 2^k⌋
  [[nodiscard]] Floor floor(int k) const {
    const Integer numerator = abs(a) << std::max(k, 0);
    const Integer denominator = d << std::max(-k, 0);
    if (c.is_zero()) {
      Integer quotient, remainder;
      divide_qr(numerator, denominator, quotient, remainder);
      return {std::move(quotient), remainder.is_zero()};
    }
    if (a.is_zero()) return {sqrt(((c * c * v) << (2 * std::max(k, 0))) / (denominator * denominator)), false};  // ⌊√x⌋ = ⌊√⌊x⌋⌋
    const Integer root = sqrt((c * c * v) << (2 * std::max(k, 0)));  // ⌊√B⌋, and √B is irrational
    if ((a < 0) == (c < 0)) return {(numerator + root) / denominator, false};
    // |A − √B|, and √B lies strictly between root and root + 1.
    return {(root >= numerator ? root - numerator : numerator - root - 1) / denominator, false};
  }

  // An integer within 2 of log2 |this|, for a number other than zero. Where the terms cancel, (A − √B)(A + √B) = A² − B tells how far.
  [[nodiscard]] int log2() const {
    const Integer b = c * c * v;
    const int larger = std::max(bit_length(a), (bit_length(b) + 1) / 2);
    const bool cancels = !a.is_zero() && !c.is_zero() && (a < 0) != (c < 0);
    const int numerator = cancels ? bit_length(a * a - b) - larger : larger;
    return numerator - bit_length(d);
  }
};

// y as a Quadratic times a power of two.
std::pair<Quadratic, int> common_denominator(const Real& y) {
  if (y.kappa == nullptr) return {Quadratic{y.p.significand, 0, 0, 1}, y.p.exponent};
  const Surd& k = *y.kappa;
  Integer p = y.p.significand * k.d();
  Integer qa = y.q.significand * k.a();
  Integer qc = y.q.significand * k.c();
  const int k_exponent = y.q.exponent + k.exponent();
  const int exponent = p.is_zero() ? k_exponent : std::min(y.p.exponent, k_exponent);
  p <<= p.is_zero() ? 0 : y.p.exponent - exponent;
  qa <<= k_exponent - exponent;
  qc <<= k_exponent - exponent;
  return {Quadratic{p + qa, std::move(qc), k.v(), k.d()}, exponent};
}

// The digits of a positive number known to lie in [n, n + 1) · 2^exponent, and to equal n · 2^exponent only if `exact`.
Digits leading(const Integer& n, int exponent, bool exact, bool negative) {
  const int excess = bit_length(n) - digit_bits;
  if (excess <= 0) return {negative, word_at(n, 0) << -excess, exponent + excess, !exact};
  const bool dropped = static_cast<int>(lsb(n)) < excess;
  return {negative, word_at(n, excess), exponent + excess, !exact || dropped};
}

// Sign of a Quadratic.
bool is_negative(const Quadratic& y) {
  if (y.a.is_zero() || y.c.is_zero() || (y.a < 0) == (y.c < 0)) return y.a < 0 || y.c < 0;
  return (y.a * y.a > y.c * y.c * y.v) == (y.a < 0);
}

}  // namespace

Dyadic::Dyadic(Integer n, int e) : negative(n.sign() < 0), significand(std::move(n)), exponent(e) {}

Dyadic::Dyadic(const Decoded& value)
    : kind(value.kind), negative(value.negative), significand(value.significand), exponent(value.exponent) {
  if (negative) significand.backend().negate();
}

Dyadic Dyadic::nan() {
  Dyadic result;
  result.kind = Kind::nan;
  return result;
}

Dyadic Dyadic::infinity(bool negative) {
  Dyadic result;
  result.kind = Kind::infinite;
  result.negative = negative;
  return result;
}

Dyadic operator-(Dyadic a) {
  a.negative = !a.negative;
  a.significand.backend().negate();
  return a;
}

Dyadic operator*(const Dyadic& a, const Dyadic& b) {
  if (a.kind == Kind::nan || b.kind == Kind::nan) return Dyadic::nan();
  const bool negative = a.negative != b.negative;
  if (!a.finite() || !b.finite()) return a.zero() || b.zero() ? Dyadic::nan() : Dyadic::infinity(negative);
  Dyadic product;
  product.negative = negative;
  multiply(product.significand, a.significand, b.significand);
  product.exponent = a.exponent + b.exponent;
  return product;
}

Dyadic add(Dyadic a, Dyadic b, Mode mode) {
  if (a.kind == Kind::nan || b.kind == Kind::nan) return Dyadic::nan();
  if (!a.finite() || !b.finite()) {
    if (!a.finite() && !b.finite() && a.negative != b.negative) return Dyadic::nan();
    return Dyadic::infinity(a.finite() ? b.negative : a.negative);
  }
  if (b.zero()) {
    if (a.zero() && a.negative != b.negative) a.negative = mode == Mode::down;
    return a;
  }
  if (a.zero()) return b;
  if (a.exponent > b.exponent) {
    a.significand <<= a.exponent - b.exponent;
    a.exponent = b.exponent;
  } else if (b.exponent > a.exponent) {
    b.significand <<= b.exponent - a.exponent;
  }
  a.significand += b.significand;
  a.negative = a.significand.is_zero() ? mode == Mode::down : a.significand.sign() < 0;
  return a;
}

Surd::Surd(Integer a, Integer c, Integer v, Integer d, int exponent)
    : a_(std::move(a)), c_(std::move(c)), v_(std::move(v)), d_(std::move(d)), exponent_(exponent) {
  if (!c_.is_zero()) {
    Integer remainder;
    const Integer root = sqrt(v_, remainder);
    if (remainder.is_zero()) {
      a_ += c_ * root;
      c_ = 0;
      v_ = 0;
    }
  }
  if (zero()) return;
  const Quadratic value{a_, c_, v_, d_};
  const int k = enclosure_bits + 2 - value.log2();
  Floor floor = value.floor(k);
  low_ = std::move(floor.value);
  low_exponent_ = exponent_ - k;
  tight_ = floor.exact;
}

Surd Surd::ratio(Integer numerator, Integer denominator) {
  if (denominator.is_zero()) return Surd(numerator.is_zero() ? Kind::nan : Kind::infinite);
  return {std::move(numerator), 0, 0, std::move(denominator), 0};
}

Surd Surd::reciprocal_root(const Dyadic& t, const Integer& z, const Integer& s) {
  if (t.kind == Kind::nan || (!t.zero() && t.negative)) return Surd(Kind::nan);
  if (t.kind == Kind::infinite) return {0, 0, 0, 1, 0};
  if (t.zero()) return Surd(Kind::infinite);
  // t = n · 2^e with e even: 1/(s√(t/z)) = √(z·n)/(s·n) · 2^(−e/2); where z = s², as in the biased variance, that is √n/n.
  const int odd = t.exponent & 1;
  const Integer n = t.significand << odd;
  const int half = (t.exponent - odd) / 2;
  if (z == s * s) return {0, 1, n, n, -half};
  return {0, 1, z * n, s * n, -half};
}

Surd Surd::reciprocal_root_plus(const Dyadic& t, const Integer& z, const Dyadic& e, const Integer& s) {
  if (e.zero() || !t.finite() || (!t.zero() && t.negative)) return reciprocal_root(t, z, s);
  // With 2^f the smaller of the two units: √(t/z) + e = (√(n·z) + z·m)/z · 2^f, hence
  // 1/(s(√(t/z) + e)) = z/s · 2^(−f)/(√(n·z) + z·m) = z(√(n·z) − z·m)/(s(n·z − z²m²)) · 2^(−f), and z/(2s·z·m) · 2^(−f) where that is 0/0.
  const int odd = t.exponent & 1;
  Integer n = t.significand << odd;
  const int half = (t.exponent - odd) / 2;
  Integer m = e.significand;
  const int f = t.zero() ? e.exponent : std::min(half, e.exponent);
  if (!t.zero()) n <<= 2 * (half - f);
  m <<= e.exponent - f;
  const Integer zm = z * m;
  const Integer nz = n * z;
  const Integer difference = nz - zm * zm;
  if (difference.is_zero()) return {z, 0, 0, 2 * s * zm, -f};
  const int sign = difference < 0 ? -1 : 1;
  return {-sign * z * zm, sign * z, nz, s * abs(difference), -f};
}

Real affine(const Dyadic* gain, const Dyadic& deviation, const Surd& kappa, const Dyadic* bias, Mode mode) {
  Dyadic q = gain != nullptr ? *gain * deviation : deviation;
  if (kappa.kind() == Kind::finite && !kappa.zero() && q.finite() && (bias == nullptr || bias->finite())) {
    Real y;
    const bool zero = q.zero() && (bias == nullptr || bias->zero());
    y.negative_zero = bias == nullptr ? q.negative
                      : zero          ? (q.negative == bias->negative ? q.negative : mode == Mode::down)
                                      : mode == Mode::down;
    if (bias != nullptr) y.p = *bias;
    y.q = std::move(q);
    y.kappa = &kappa;
    return y;
  }
  // Some factor is 0, ∞ or NaN, or the bias is: IEEE 754 knows the answer from the kinds and signs alone.
  Dyadic k = kappa.kind() == Kind::nan        ? Dyadic::nan()
             : kappa.kind() == Kind::infinite ? Dyadic::infinity(false)
                                              : Dyadic(kappa.zero() ? 0 : 1);
  const Dyadic product = q * k;
  return Real(bias != nullptr ? add(product, *bias, mode) : product);
}

Floor floor_magnitude(const Real& y, int k) {
  const auto [value, exponent] = common_denominator(y);
  return value.floor(k + exponent);
}

Digits digits_exact(const Real& y) {
  const auto [value, exponent] = common_denominator(y);
  if (value.a.is_zero() && value.c.is_zero()) return {y.negative_zero};
  const int k = digit_bits + 2 - value.log2();
  const Floor floor = value.floor(k);
  return leading(floor.value, exponent - k, floor.exact, is_negative(value));
}

std::optional<Digits> digits_enclosed(const Real& y) {
  if (y.kappa == nullptr || y.q.zero()) {
    if (y.p.zero()) return Digits{y.negative_zero};
    return leading(abs(y.p.significand), y.p.exponent, true, y.p.negative);
  }
  const Surd& k = *y.kappa;
  // y is `low`, and a part of 2^width more or less where κ's enclosure is not tight: 0 < |y − low| < 2^width.
  Integer low = y.q.significand * k.low();
  int exponent = y.q.exponent + k.low_exponent();
  int width = bit_length(y.q.significand);
  if (!y.p.zero()) {
    const int shift = y.p.exponent - exponent;
    if (shift >= 0) {
      low += y.p.significand << shift;
    } else {
      low <<= -shift;
      low += y.p.significand;
      exponent += shift;
      width -= shift;
    }
  }
  const bool negative = low.sign() < 0;
  if (k.tight()) {
    if (low.is_zero()) return Digits{y.negative_zero};
    return leading(abs(low), exponent, true, negative);
  }
  // Behind the digits, `low` has bits of weight 2^width and more. If the first 32 of them are neither all zeros nor all ones, adding or
  // subtracting less than 2^width leaves the digits as they are, and something behind them.
  constexpr int guard_bits = 32;
  const int excess = bit_length(low) - digit_bits;
  if (excess < width + guard_bits) return std::nullopt;
  const auto guard = static_cast<std::uint32_t>(word_at(low, excess - guard_bits));
  if (guard == 0 || guard == ~std::uint32_t{0}) return std::nullopt;
  return Digits{negative, word_at(low, excess), exponent + excess, true};
}

Digits digits(const Real& y) {
  if (const std::optional<Digits> enclosed = digits_enclosed(y)) return *enclosed;
  return digits_exact(y);
}

Rounded round(const Real& y, Format format, Mode mode) {
  const FormatInfo& f = info(format);
  if (y.finite()) return round(digits(y), format, mode);
  if (y.p.kind == Kind::nan) return {f.quiet_nan()};
  return {f.overflow() | (y.p.negative ? f.sign_bit() : 0)};
}

double ulp_error(const Real& y, Format format, Bits got) {
  const Decoded value = decode(format, got);
  if (!y.finite() || value.kind != Kind::finite) {
    const Kind best = y.p.kind == Kind::infinite && !info(format).has_infinity ? Kind::nan : y.p.kind;
    const bool same = best == value.kind && (value.kind == Kind::nan || y.p.negative == value.negative);
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  const Digits exact = digits(y);
  const int ulp = info(format).ulp_exponent(exact.zero() ? std::numeric_limits<int>::min() : exact.log2());
  Real difference;
  difference.p = add(Dyadic(value), -y.p);
  difference.q = -y.q;
  difference.kappa = y.kappa;
  difference.p.exponent -= ulp;
  difference.q.exponent -= ulp;
  Digits error = digits(difference);
  error.negative = false;
  const Rounded result = round(error, Format::f64);
  return result.overflow ? std::numeric_limits<double>::max() : std::bit_cast<double>(result.bits);
}

Neighbours neighbours(const Real& y, Format format) { return {round(y, format, Mode::down).bits, round(y, format, Mode::up).bits}; }

}  // namespace norma
