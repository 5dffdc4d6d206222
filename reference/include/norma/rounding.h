// Correct rounding, from the first 64 binary digits of a real number and the knowledge of whether anything follows them.
//
// That is all any IEEE rounding mode needs in any format with a significand of up to 62 bits: the digits hold the significand, the
// round bit and part of the sticky bit. Nothing here throws or allocates.
#pragma once

#include <cstdint>

#include "norma/format.h"

namespace norma {

enum class Mode : std::uint8_t { nearest_even, toward_zero, up, down };

// The real number ±(significand + θ) · 2^exponent with 0 <= θ < 1, where θ = 0 if and only if `sticky` is false.
// Zero is significand 0 without sticky; in every other number the top bit of the significand is set.
struct Digits {
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
  bool sticky = false;

  [[nodiscard]] constexpr bool zero() const { return significand == 0; }
  // floor(log2 |y|), for y other than zero.
  [[nodiscard]] constexpr int log2() const { return exponent + 63; }
};

struct Rounded {
  Bits bits = 0;
  bool inexact = false;
  bool overflow = false;   // the rounded result, had the exponent no upper limit, exceeds the largest finite value
  bool underflow = false;  // inexact, and the exact value lies strictly between ±2^min_exponent (tininess before rounding)

  friend bool operator==(const Rounded&, const Rounded&) = default;
};

// The value of `format` that IEEE 754 assigns to the real number `digits` in `mode`. On overflow a mode that rounds away delivers
// infinity, or NaN in a format that has none (E4M3).
[[nodiscard]] Rounded round(const Digits& digits, Format format, Mode mode = Mode::nearest_even);

}  // namespace norma
