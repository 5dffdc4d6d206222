// Numbers as text, against the C library's own exact conversions where it has them.
#include "norma/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cstdio>
#include <random>

#include "testing.h"

namespace norma {
namespace {

Real real(Format format, Bits bits) { return Real(Dyadic(decode(format, bits))); }
Real real(double value) { return real(Format::f64, std::bit_cast<Bits>(value)); }

Bits parsed(std::string_view text, Format format = Format::f64) {
  const Result<Bits> bits = parse_number(text, format);
  EXPECT_TRUE(bits.ok()) << text;
  return bits.ok() ? *bits : 0;
}

// Significant digits and the exponent of ten of the first, read off either notation.
std::pair<std::string, int> significant(const std::string& text) {
  const std::size_t e = text.find('e');
  std::string digits;
  int point = -1;
  for (const char c : text.substr(0, e)) {
    if (c == '.') point = static_cast<int>(digits.size());
    if (c >= '0' && c <= '9') digits += c;
  }
  int exponent = (point < 0 ? static_cast<int>(digits.size()) : point) - 1 + (e == std::string::npos ? 0 : std::stoi(text.substr(e + 1)));
  while (digits.size() > 1 && digits.front() == '0') {
    digits.erase(0, 1);
    --exponent;
  }
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  return {digits, exponent};
}

// Doubles of every size, subnormals included, as random bits give them.
std::vector<double> doubles(int count) {
  std::mt19937_64 random(20);
  std::vector<double> result{5e-324, std::numeric_limits<double>::max(), std::numeric_limits<double>::min(), 0.1, 1.0 / 3, 1e21, 1e22, 9.5,
                             99.5};
  while (static_cast<int>(result.size()) < count) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value) && value != 0) result.push_back(value);
  }
  return result;
}

TEST(Text, ParsesDecimalsAndHexFloatsAsTheCLibraryDoes) {
  std::mt19937_64 random(21);
  int checked = 0;
  for (const double value : doubles(3000)) {
    for (const char* form : {"%.17g", "%.9g", "%.3e", "%.30e", "%a", "%.5a", "%.400f"}) {
      char text[800];
      std::snprintf(text, sizeof text, form, value);
      EXPECT_EQ(parsed(text), std::bit_cast<Bits>(std::strtod(text, nullptr))) << text;
      EXPECT_EQ(parsed(text, Format::f32), std::bit_cast<std::uint32_t>(std::strtof(text, nullptr))) << text;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 21000);
}

TEST(Text, ParsingRoundsOnce) {
  // 1 + 2^-11 is half way between two values of f16. What lies just above it is not, though a double cannot tell.
  EXPECT_EQ(parsed("1.00048828125", Format::f16), 0x3C00U);
  EXPECT_EQ(parsed("1.000488281250000000000000000000001", Format::f16), 0x3C01U);
  EXPECT_EQ(parsed("1/3"), 0x3FD5555555555555U);
  EXPECT_EQ(parsed("-2/6", Format::f32), 0xBEAAAAABU);
  EXPECT_EQ(parsed("464", Format::f8_e4m3), 0x7EU);  // 448 and the 480 that is not there: a tie to even
  EXPECT_EQ(parsed("464.1", Format::f8_e4m3), 0x7FU);
  EXPECT_EQ(parsed("-0"), 0x8000000000000000U);
  EXPECT_EQ(parsed("-1e-999999999999"), 0x8000000000000000U);
  EXPECT_EQ(parsed("1e999999999999"), 0x7FF0000000000000U);
  EXPECT_EQ(parsed("-inf", Format::bf16), 0xFF80U);
  EXPECT_EQ(decode(Format::f64, parsed("nan")).kind, Kind::nan);
}

TEST(Text, TellsWhetherNothingWasRoundedAway) {
  const auto exact = [](std::string_view text, Format format) {
    bool is_exact = false;
    EXPECT_TRUE(parse_number(text, format, &is_exact).ok());
    return is_exact;
  };
  EXPECT_TRUE(exact("0.5", Format::f16));
  EXPECT_TRUE(exact("3/4", Format::f8_e5m2));
  EXPECT_TRUE(exact("0x1.8p-3", Format::bf16));
  EXPECT_FALSE(exact("0.1", Format::f64));
  EXPECT_FALSE(exact("257", Format::bf16));
}

TEST(Text, RefusesWhatIsNoNumber) {
  for (const std::string text : {"",    "-",   "+",  ".",  "e5",    "1e",   "1e+",  "0x",    "0xg",   "1x",  "1 ",   " 1",
                                 "--1", "1/0", "1/", "/2", "1/2/3", "1//2", "1/-2", "infin", "nanny", "1,5", "0x1p", "\x01"}) {
    const Result<Bits> bits = parse_number(text, Format::f64);
    ASSERT_FALSE(bits.ok()) << text;
    EXPECT_EQ(bits.status().code, Code::bad_parameter);
    EXPECT_NE(bits.status().message.find("is not a number: expected"), std::string::npos);
  }
  EXPECT_FALSE(parse_number(std::string(100'000, '1'), Format::f64).ok());
}

TEST(Text, TwentyDigitsAreThoseOfTheExactValue) {
  int checked = 0;
  for (const double value : doubles(20'000)) {
    char expected[40];
    std::snprintf(expected, sizeof expected, "%.19e", value);  // glibc rounds the exact value to nearest even
    EXPECT_EQ(significant(to_decimal(real(value))), significant(expected)) << expected;
    ++checked;
  }
  EXPECT_EQ(checked, 20'000);
  EXPECT_EQ(to_decimal(real(1.0)), "1");
  EXPECT_EQ(to_decimal(real(-0.0)), "-0");
  EXPECT_EQ(to_decimal(real(1e20)), "100000000000000000000");
  EXPECT_EQ(to_decimal(real(1e21)), "1e+21");
  EXPECT_EQ(to_decimal(real(0.0001220703125)), "0.0001220703125");
  EXPECT_EQ(to_decimal(real(0.5), 1), "0.5");
  EXPECT_EQ(to_decimal(real(2.5), 1), "2");  // to even
  EXPECT_EQ(to_decimal(real(9.75), 2), "9.8");
  EXPECT_EQ(to_decimal(real(99.75), 2), "1.0e+02");  // the carry makes a digit more, and the third is not known
  EXPECT_EQ(to_decimal(Real(Dyadic::nan())), "nan");
  EXPECT_EQ(to_decimal(Real(Dyadic::infinity(true))), "-inf");
}

TEST(Text, ShortestReadsBackAsTheSameBitsAndIsShortest) {
  int checked = 0;
  for (const Format format : {Format::f16, Format::bf16, Format::f8_e4m3, Format::f8_e5m2}) {
    for (Bits bits = 0; bits >> info(format).width == 0; bits += 1) {
      if (decode(format, bits).kind != Kind::finite) continue;
      EXPECT_EQ(parsed(to_shortest(format, bits), format), bits) << to_hex(format, bits);
      ++checked;
    }
  }
  EXPECT_GT(checked, 120'000);
  for (const double value : doubles(3000)) {
    char expected[40];
    const auto end = std::to_chars(expected, expected + sizeof expected, value, std::chars_format::scientific).ptr;
    EXPECT_EQ(significant(to_shortest(Format::f64, std::bit_cast<Bits>(value))), significant(std::string(expected, end)));
  }
}

TEST(Text, ExactFormsAreInLowestTerms) {
  const auto form = [](const Surd& kappa, int p, int q) {
    const Dyadic bias(p);
    return to_exact(affine(nullptr, Dyadic(q), kappa, p == 0 ? nullptr : &bias));
  };
  const Surd fifth = Surd::reciprocal_root(Dyadic(5), 4, 2);  // 1/√5
  EXPECT_EQ(form(fifth, 0, 3), "√(9/5)");
  EXPECT_EQ(form(fifth, 0, -5), "-√5");
  EXPECT_EQ(form(fifth, 7, -1), "7 - √(1/5)");
  EXPECT_EQ(form(Surd::ratio(6, 4), 0, 2), "3");
  EXPECT_EQ(form(Surd::ratio(6, 8), 1, 1), "7/4");
  EXPECT_EQ(form(Surd::reciprocal_root(Dyadic(9), 4, 1), 0, 1), "2/3");                      // a perfect square is no root
  EXPECT_EQ(form(Surd::reciprocal_root_plus(Dyadic(2), 1, Dyadic(1), 1), 0, 1), "-1 + √2");  // 1/(√2 + 1)
  EXPECT_EQ(form(fifth, 0, 0), "0");
  EXPECT_EQ(to_exact(real(-0.0)), "-0");
  EXPECT_EQ(to_exact(real(-0.375)), "-3/8");
  EXPECT_EQ(to_hex(12.0), "0x1.8p+3");
  EXPECT_EQ(to_hex(-0.0), "-0x0p+0");
  EXPECT_EQ(to_hex(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(to_hex(Format::f16, 0x3c01), "0x3c01");
  EXPECT_EQ(to_hex(Format::f8_e4m3, 0x7), "0x07");
}

}  // namespace
}  // namespace norma
