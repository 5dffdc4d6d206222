// The binary floating-point formats, as one table, and everything about a value that can be read off its bit pattern.
//
// Every finite value is ±significand · 2^exponent with integers; nothing in Norma's reference ever holds one in a float.
// Nothing here throws, allocates or depends on the floating-point environment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace norma {

// A bit pattern, in the low bits of the word.
using Bits = std::uint64_t;

enum class Format : std::uint8_t { f16, bf16, f32, f64, f8_e4m3, f8_e5m2 };

struct FormatInfo {
  std::string_view name;
  std::string_view safetensors;  // its dtype in a .safetensors header
  std::string_view npy;          // its descr in a .npy header without the byte order; empty where numpy has none
  int width;                     // bits
  int precision;                 // bits of the significand, the hidden one included
  bool has_infinity;             // E4M3 spends the pattern on finite values: all ones is its only NaN

  [[nodiscard]] constexpr int bytes() const { return width / 8; }
  [[nodiscard]] constexpr int fraction_bits() const { return precision - 1; }
  [[nodiscard]] constexpr Bits sign_bit() const { return Bits{1} << (width - 1); }
  // Magnitudes (patterns without the sign) are ordered like the values they stand for: zero, subnormals, normals, infinity, NaNs.
  [[nodiscard]] constexpr Bits infinity() const { return sign_bit() - (Bits{1} << fraction_bits()); }
  [[nodiscard]] constexpr Bits max_finite() const { return has_infinity ? infinity() - 1 : sign_bit() - 2; }
  [[nodiscard]] constexpr Bits quiet_nan() const { return has_infinity ? infinity() | Bits{1} << (fraction_bits() - 1) : sign_bit() - 1; }
  // What an overflow delivers.
  [[nodiscard]] constexpr Bits overflow() const { return has_infinity ? infinity() : quiet_nan(); }
  // 2^min_exponent is the smallest normal value; the largest finite one lies in [2^max_exponent, 2^(max_exponent+1)).
  [[nodiscard]] constexpr int min_exponent() const { return 2 - (1 << (width - precision - 1)); }
  [[nodiscard]] constexpr int max_exponent() const { return static_cast<int>(max_finite() >> fraction_bits()) + min_exponent() - 1; }
  // The exponent of the unit in the last place of a value in [2^e, 2^(e+1)), clamped to the exponents the format has.
  [[nodiscard]] constexpr int ulp_exponent(int e) const {
    const int clamped = e < min_exponent() ? min_exponent() : e > max_exponent() ? max_exponent() : e;
    return clamped - fraction_bits();
  }
};

inline constexpr std::array<FormatInfo, 6> formats{{
    {"f16", "F16", "f2", 16, 11, true},
    {"bf16", "BF16", "", 16, 8, true},
    {"f32", "F32", "f4", 32, 24, true},
    {"f64", "F64", "f8", 64, 53, true},
    {"f8_e4m3", "F8_E4M3", "", 8, 4, false},
    {"f8_e5m2", "F8_E5M2", "", 8, 3, true},
}};

[[nodiscard]] constexpr const FormatInfo& info(Format format) { return formats[static_cast<std::size_t>(format)]; }

// By any of its three names; nullopt for a name that is none of them.
[[nodiscard]] std::optional<Format> format_named(std::string_view name);

enum class Kind : std::uint8_t { finite, infinite, nan };

// What a bit pattern says: ±significand · 2^exponent where finite (zero has significand 0 and keeps its sign).
struct Decoded {
  Kind kind;
  bool negative;
  std::uint64_t significand;
  int exponent;
};

[[nodiscard]] constexpr Decoded decode(Format format, Bits bits) {
  const FormatInfo& f = info(format);
  const bool negative = (bits & f.sign_bit()) != 0;
  const Bits magnitude = bits & (f.sign_bit() - 1);
  if (magnitude > f.max_finite()) {
    return {f.has_infinity && magnitude == f.infinity() ? Kind::infinite : Kind::nan, negative, 0, 0};
  }
  const Bits fraction = magnitude & ((Bits{1} << f.fraction_bits()) - 1);
  const int biased = static_cast<int>(magnitude >> f.fraction_bits());
  const int least = f.min_exponent() - f.fraction_bits();
  if (biased == 0) return {Kind::finite, negative, fraction, least};
  return {Kind::finite, negative, fraction | Bits{1} << f.fraction_bits(), least + biased - 1};
}

// The next representable value above, and below. They pass through both zeros as one value (the successor of the least negative
// subnormal is -0, of -0 and +0 alike the least positive subnormal), step from the largest finite value to infinity (NaN in a
// format without infinity), and leave NaN and the infinity they point at alone.
[[nodiscard]] Bits next_up(Format format, Bits bits);
[[nodiscard]] Bits next_down(Format format, Bits bits);

// Little-endian memory, any alignment.
[[nodiscard]] Bits load(Format format, const std::byte* from);
void store(Format format, Bits bits, std::byte* to);

}  // namespace norma
