// Numbers as people write them, without a detour through floating point: text is read exactly and then rounded once, exact values are
// printed as decimals that are right in every digit, or as the fraction or surd that they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "norma/exact.h"
#include "norma/spec.h"
#include "norma/status.h"

namespace norma {

// The number nearest to `text` in `format`: a decimal (1, -0.5, 1e-5), a hexadecimal float (0x1.8p-3), a fraction (1/3),
// inf or nan. With `exact`, where given, told whether nothing was rounded away.
Result<Bits> parse_number(std::string_view text, Format format, bool* exact = nullptr);

// `digits` significant decimal digits of the value itself, rounded to nearest even, trailing zeros dropped where the decimal is exact;
// in scientific notation outside [1e-4, 1e21) and where digits before the point are not known. digits >= 1. "nan", "inf", "-inf", "-0" as
// they are.
[[nodiscard]] std::string to_decimal(const Real& y, int digits = 20);

// The value of a bit pattern, correctly rounded to the fewest digits that read back as the same bits in its own format.
[[nodiscard]] std::string to_shortest(Format format, Bits bits);

// 0x and all the digits of the pattern.
[[nodiscard]] std::string to_hex(Format format, Bits bits);

// A double as a hexadecimal float, exactly: 0x1.8p+3, -0x0p+0; or inf, -inf, nan.
[[nodiscard]] std::string to_hex(double value);

// A rational number in lowest terms; nullopt for any other.
struct Fraction {
  Integer numerator;
  Integer denominator;
};
[[nodiscard]] std::optional<Fraction> to_fraction(const Real& y);
[[nodiscard]] std::string to_text(const Fraction& fraction);

[[nodiscard]] std::string to_text(const Shape& shape);  // [2, 3]

// What the number is: an integer, a fraction in lowest terms, or ±√fraction, or fraction ± √fraction. UTF-8.
[[nodiscard]] std::string to_exact(const Real& y);

}  // namespace norma
