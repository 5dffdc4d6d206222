#include "norma/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace norma {
namespace {

namespace mp = boost::multiprecision;

Integer power_of_ten(int n) { return mp::pow(Integer(10), static_cast<unsigned>(n)); }

// Exponents beyond this are 0 or infinity in every format; the limit keeps a hostile "1e999999999" from building the integer.
constexpr int most_exponent = 20000;
constexpr std::size_t longest_number = 4000;

struct Cursor {
  std::string_view rest;

  bool take(std::string_view word) {
    if (!rest.starts_with(word)) return false;
    rest.remove_prefix(word.size());
    return true;
  }
  // Digits of the base, appended to n; returns how many.
  int digits(Integer& n, unsigned base) {
    int count = 0;
    for (; !rest.empty(); rest.remove_prefix(1), ++count) {
      const char c = rest.front();
      const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                             : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                             : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A') + 10
                                                    : base;
      if (digit >= base) break;
      n *= base;
      n += digit;
    }
    return count;
  }
  // [+-]digits, clamped; false if there are none.
  bool exponent(int& e) {
    const bool negative = take("-");
    if (!negative) take("+");
    int count = 0;
    e = 0;
    for (; !rest.empty() && rest.front() >= '0' && rest.front() <= '9'; rest.remove_prefix(1), ++count) {
      e = std::min(most_exponent, e * 10 + (rest.front() - '0'));
    }
    if (negative) e = -e;
    return count > 0;
  }
};

// numerator/denominator · 2^exponent
struct Parsed {
  Integer numerator;
  Integer denominator{1};
  int exponent = 0;
};

// What is left of a number once its sign is taken. False if it is none.
bool parse_magnitude(Cursor& in, Parsed& number) {
  const bool hex = in.take("0x") || in.take("0X");
  const unsigned base = hex ? 16 : 10;
  int count = in.digits(number.numerator, base);
  int fraction = 0;
  if (in.take(".")) fraction = in.digits(number.numerator, base);
  count += fraction;
  if (count == 0) return false;
  int exponent = 0;
  if ((hex && (in.take("p") || in.take("P"))) || (!hex && (in.take("e") || in.take("E")))) {
    if (!in.exponent(exponent)) return false;
  }
  if (hex) {
    number.exponent = exponent - 4 * fraction;
  } else if (const int e = exponent - fraction; e >= 0) {
    number.numerator *= power_of_ten(e);
  } else {
    number.denominator = power_of_ten(-e);
  }
  if (!in.take("/")) return in.rest.empty();
  Integer divisor;
  if (in.digits(divisor, 10) == 0 || divisor.is_zero()) return false;
  number.denominator *= divisor;
  return in.rest.empty();
}

Status not_a_number(std::string_view text) {
  return {Code::bad_parameter,
          "\"" + std::string(text.substr(0, 40)) + "\" is not a number: expected something like 1, -0.5, 1e-5, 0x1.8p-3, 1/3, inf or nan"};
}

Fraction lowest(Integer numerator, Integer denominator, int exponent) {
  (exponent >= 0 ? numerator : denominator) <<= std::abs(exponent);
  const Integer g = gcd(numerator, denominator);
  return {numerator / g, denominator / g};
}

std::string root(const Fraction& f) { return f.denominator == 1 ? "√" + to_text(f) : "√(" + to_text(f) + ")"; }

// The part of y without the root: (p·d + q·a)/d.
Fraction rational_part(const Real& y) {
  const Integer& p = y.p.significand;
  if (y.kappa == nullptr || y.q.zero()) return lowest(p, 1, y.p.exponent);
  const Surd& k = *y.kappa;
  const int q_exponent = y.q.exponent + k.exponent();
  const int exponent = std::min(y.p.exponent, q_exponent);
  return lowest((p * k.d() << (y.p.exponent - exponent)) + (y.q.significand * k.a() << (q_exponent - exponent)), k.d(), exponent);
}

bool rational(const Real& y) { return y.kappa == nullptr || y.q.zero() || y.kappa->rational(); }

std::string special(const Dyadic& value) { return value.kind == Kind::nan ? "nan" : value.negative ? "-inf" : "inf"; }

// `digits` places of value · 10^-exponent with the point after the first, or the plain decimal where that is short.
constexpr int most_plain = 21;
std::string place_point(std::string places, int exponent, int plain = most_plain) {
  const int count = static_cast<int>(places.size());
  if (exponent < -4 || exponent >= std::min(plain, most_plain)) {
    if (count > 1) places.insert(1, ".");
    return places + "e" + (exponent < 0 ? "-" : "+") + (std::abs(exponent) < 10 ? "0" : "") + std::to_string(std::abs(exponent));
  }
  if (exponent < 0) return "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + places;
  if (count <= exponent + 1) return places + std::string(static_cast<std::size_t>(exponent + 1 - count), '0');
  return places.insert(static_cast<std::size_t>(exponent) + 1, ".");
}

// ⌊|y| · 10^k⌋
Floor floor_decimal(const Real& y, int k) {
  if (k >= 0) {
    Real scaled = y;
    const Integer power = power_of_ten(k);
    scaled.p.significand *= power;
    scaled.q.significand *= power;
    return floor_magnitude(scaled, 0);
  }
  const Floor whole = floor_magnitude(y, 0);
  Integer quotient;
  Integer remainder;
  divide_qr(whole.value, power_of_ten(-k), quotient, remainder);
  return {std::move(quotient), whole.exact && remainder.is_zero()};
}

struct Decimal {
  std::string places;  // the first is not 0
  int exponent;        // of ten, of the first place
  bool exact;
};

// |y| to `count` places, to nearest even.
Decimal decimal(const Real& y, int log2, int count) {
  int exponent = static_cast<int>(log2 * 0.30102999566398120);  // within 1 of the right one; corrected by the length below
  for (;;) {
    Floor floor = floor_decimal(y, count - exponent);  // one place more than asked for
    std::string places = floor.value.str();
    if (static_cast<int>(places.size()) != count + 1) {
      exponent += static_cast<int>(places.size()) - count - 1;
      continue;
    }
    const char last = places.back();
    places.pop_back();
    const bool odd = (places.back() - '0') % 2 != 0;
    if (last > '5' || (last == '5' && (!floor.exact || odd))) {
      places = Integer(Integer(places) + 1).str();
      if (static_cast<int>(places.size()) > count) {
        places.pop_back();
        ++exponent;
      }
    }
    return {places, exponent, floor.exact && last == '0'};
  }
}

void drop_zeros(std::string& places) {
  while (places.size() > 1 && places.back() == '0') places.pop_back();
}

}  // namespace

Result<Bits> parse_number(std::string_view text, Format format, bool* exact) {
  const FormatInfo& f = info(format);
  Cursor in{text};
  const bool negative = in.take("-");
  if (!negative) in.take("+");
  const Bits sign = negative ? f.sign_bit() : 0;
  if (exact != nullptr) *exact = true;
  if (in.rest == "nan" || in.rest == "NaN") return f.quiet_nan() | sign;
  if (in.rest == "inf" || in.rest == "Inf" || in.rest == "infinity") {
    if (exact != nullptr) *exact = f.has_infinity;
    return f.overflow() | sign;
  }
  if (text.size() > longest_number) {
    return Status{Code::bad_parameter,
                  "a number of " + std::to_string(text.size()) + " characters: expected at most " + std::to_string(longest_number)};
  }
  Parsed number;
  if (!parse_magnitude(in, number)) return not_a_number(text);
  const Surd one_over = Surd::ratio(1, number.denominator);
  Dyadic numerator(negative ? -number.numerator : number.numerator, number.exponent);
  numerator.negative = negative;
  const Rounded rounded = round(affine(nullptr, numerator, one_over, nullptr), format);
  if (exact != nullptr) *exact = !rounded.inexact;
  return rounded.bits;
}

std::string to_decimal(const Real& y, int digits) {
  if (!y.finite()) return special(y.p);
  const Digits leading = norma::digits(y);
  const std::string sign = leading.negative ? "-" : "";
  if (leading.zero()) return sign + "0";
  Decimal d = decimal(y, leading.log2(), digits);
  if (d.exact) drop_zeros(d.places);
  return sign + place_point(d.places, d.exponent, d.exact ? most_plain : digits);
}

std::string to_shortest(Format format, Bits bits) {
  const Decoded value = decode(format, bits);
  const Real y{Dyadic(value)};
  if (value.kind != Kind::finite || value.significand == 0) return to_decimal(y);
  const int log2 = digits(y).log2();
  for (int count = 1;; ++count) {
    Decimal d = decimal(y, log2, count);
    drop_zeros(d.places);
    std::string s = (value.negative ? "-" : "") + place_point(d.places, d.exponent);
    if (const Result<Bits> back = parse_number(s, format); back.ok() && *back == bits) return s;
  }
}

std::string to_hex(Format format, Bits bits) {
  std::string s = "0x";
  for (int shift = info(format).width - 4; shift >= 0; shift -= 4) s += "0123456789abcdef"[bits >> shift & 15];
  return s;
}

std::string to_hex(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), std::fabs(value), std::chars_format::hex).ptr;
  return (std::signbit(value) ? "-" : "") + std::string(std::isfinite(value) ? "0x" : "") + std::string(digits.data(), end);
}

std::optional<Fraction> to_fraction(const Real& y) {
  if (!y.finite() || !rational(y)) return std::nullopt;
  return rational_part(y);
}

std::string to_text(const Fraction& f) { return f.denominator == 1 ? f.numerator.str() : f.numerator.str() + "/" + f.denominator.str(); }

std::string to_text(const Shape& shape) {
  std::string s = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) s += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return s + "]";
}

std::string to_exact(const Real& y) {
  if (!y.finite()) return special(y.p);
  const Fraction p = rational_part(y);
  if (rational(y)) return p.numerator.is_zero() && y.negative_zero ? "-0" : to_text(p);
  const Integer c = y.q.significand * y.kappa->c();
  const Fraction w = lowest(c * c * y.kappa->v(), y.kappa->d() * y.kappa->d(), 2 * (y.q.exponent + y.kappa->exponent()));
  if (p.numerator.is_zero()) return (c < 0 ? "-" : "") + root(w);
  return to_text(p) + (c < 0 ? " - " : " + ") + root(w);
}

}  // namespace norma
