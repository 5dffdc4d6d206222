#include "norma/rounding.h"

namespace norma {

Rounded round(const Digits& digits, Format format, Mode mode) {
  const FormatInfo& f = info(format);
  const Bits sign = digits.negative ? f.sign_bit() : 0;
  if (digits.zero()) return {sign};

  const bool away = mode == (digits.negative ? Mode::down : Mode::up);  // rounds every inexact magnitude up
  const int e = digits.log2();
  const Rounded overflow{sign | (away || mode == Mode::nearest_even ? f.overflow() : f.max_finite()), true, true, false};
  if (e > f.max_exponent()) return overflow;

  const int quantum = f.ulp_exponent(e);
  const int dropped = quantum - digits.exponent;  // > 0, as precision < 64
  const Bits kept = dropped < 64 ? digits.significand >> dropped : 0;
  const bool half = dropped <= 64 && (digits.significand >> (dropped - 1) & 1) != 0;
  const bool below_half =
      digits.sticky || dropped > 64 || (digits.significand & ((Bits{1} << (dropped - 1)) - 1)) != 0;  // anything under the round bit
  const bool inexact = half || below_half;
  const bool increment = mode == Mode::nearest_even ? half && (below_half || (kept & 1) != 0) : away && inexact;

  // A significand that rounds up to 2^precision carries into the exponent field, which is just what the pattern needs.
  const int least = f.min_exponent() - f.fraction_bits();
  const Bits magnitude = (static_cast<Bits>(quantum - least) << f.fraction_bits()) + kept + (increment ? 1 : 0);
  if (magnitude > f.max_finite()) return overflow;  // in E4M3 even without an increment: its all-ones pattern would be 480
  return {sign | magnitude, inexact, false, inexact && e < f.min_exponent()};
}

}  // namespace norma
