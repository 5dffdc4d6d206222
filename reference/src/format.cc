#include "norma/format.h"

#include <algorithm>

namespace norma {

// The tables of the formats' own standards: IEEE 754-2019 table 3.5, and OCP 8-bit Floating Point Specification (2023) table 1.
static_assert(info(Format::f16).min_exponent() == -14 && info(Format::f16).max_exponent() == 15);
static_assert(info(Format::bf16).min_exponent() == -126 && info(Format::bf16).max_exponent() == 127);
static_assert(info(Format::f32).min_exponent() == -126 && info(Format::f32).max_exponent() == 127);
static_assert(info(Format::f64).min_exponent() == -1022 && info(Format::f64).max_exponent() == 1023);
static_assert(info(Format::f8_e4m3).min_exponent() == -6 && info(Format::f8_e4m3).max_exponent() == 8);
static_assert(info(Format::f8_e5m2).min_exponent() == -14 && info(Format::f8_e5m2).max_exponent() == 15);

// Patterns in order are values in order; what follows the largest is what an overflow delivers.
static_assert(std::all_of(formats.begin(), formats.end(), [](const FormatInfo& f) { return f.overflow() == f.max_finite() + 1; }));
static_assert(info(Format::f8_e5m2).name == "f8_e5m2" && info(Format::f64).name == "f64");

std::optional<Format> format_named(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (name == formats[i].name || name == formats[i].safetensors || name == formats[i].npy) return static_cast<Format>(i);
  }
  return std::nullopt;
}

Bits next_up(Format format, Bits bits) {
  const Decoded value = decode(format, bits);
  if (value.kind == Kind::nan || (value.kind == Kind::infinite && !value.negative)) return bits;
  if (value.kind == Kind::finite && value.significand == 0) return 1;
  return value.negative ? bits - 1 : bits + 1;
}

Bits next_down(Format format, Bits bits) {
  const Bits sign = info(format).sign_bit();
  return decode(format, bits).kind == Kind::nan ? bits : next_up(format, bits ^ sign) ^ sign;
}

Bits load(Format format, const std::byte* from) {
  Bits bits = 0;
  for (int i = info(format).bytes(); i-- > 0;) bits = bits << 8 | std::to_integer<Bits>(from[i]);
  return bits;
}

void store(Format format, Bits bits, std::byte* to) {
  for (int i = 0; i < info(format).bytes(); ++i) to[i] = static_cast<std::byte>(bits >> (8 * i));
}

}  // namespace norma
