#include "norma/format.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "testing.h"

namespace norma {
namespace {

using testing::hex;
using testing::Layout;
using testing::layout;
using testing::value;

TEST(Format, NamesResolveInAllThreeSpellings) {
  EXPECT_EQ(format_named("f32"), Format::f32);
  EXPECT_EQ(format_named("BF16"), Format::bf16);
  EXPECT_EQ(format_named("f2"), Format::f16);
  EXPECT_EQ(format_named("f31"), std::nullopt);
  EXPECT_EQ(format_named(""), std::nullopt);
  for (const Format format : testing::all_formats) {
    EXPECT_EQ(format_named(info(format).name), format);
    EXPECT_EQ(format_named(info(format).safetensors), format);
    EXPECT_TRUE(info(format).npy.empty() || format_named(info(format).npy) == format);
  }
}

// Everything `decode`, `next_up`, `next_down`, `load` and `store` say of one pattern, against its value as a double.
void check_pattern(Format format, Bits bits) {
  const Layout f = layout(format);
  const double x = value(format, bits);
  const Decoded d = decode(format, bits);
  ASSERT_EQ(d.kind == Kind::nan, std::isnan(x)) << info(format).name << " " << hex(bits);
  ASSERT_EQ(d.kind == Kind::infinite, std::isinf(x)) << info(format).name << " " << hex(bits);
  ASSERT_EQ(d.negative, (bits & f.sign()) != 0) << info(format).name << " " << hex(bits);
  if (d.kind == Kind::finite) {
    const double decoded = std::ldexp(static_cast<double>(d.significand), d.exponent);  // at most 53 bits: exact
    ASSERT_EQ(d.negative ? -decoded : decoded, x) << info(format).name << " " << hex(bits);
    ASSERT_LT(d.significand, Bits{1} << (f.fraction_bits + 1));
  }

  std::array<std::byte, 8> memory{};
  memory.fill(std::byte{0x5A});
  store(format, bits, memory.data());
  ASSERT_EQ(load(format, memory.data()), bits);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool used = static_cast<int>(i) < info(format).bytes();
    ASSERT_EQ(std::to_integer<Bits>(memory[i]), used ? (bits >> (8 * i) & 0xFF) : 0x5A) << "byte " << i;
  }

  const Bits up = next_up(format, bits);
  const Bits down = next_down(format, bits);
  if (std::isnan(x)) {
    ASSERT_EQ(up, bits);
    ASSERT_EQ(down, bits);
  } else if (format == Format::f64) {
    const double inf = std::numeric_limits<double>::infinity();
    ASSERT_EQ(up, std::bit_cast<Bits>(std::nextafter(x, inf))) << hex(bits);
    ASSERT_EQ(down, std::bit_cast<Bits>(std::nextafter(x, -inf))) << hex(bits);
  } else if (format == Format::f32) {
    const float inf = std::numeric_limits<float>::infinity();
    ASSERT_EQ(up, std::bit_cast<std::uint32_t>(std::nextafter(static_cast<float>(x), inf))) << hex(bits);
    ASSERT_EQ(down, std::bit_cast<std::uint32_t>(std::nextafter(static_cast<float>(x), -inf))) << hex(bits);
  }
}

class SmallFormat : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, SmallFormat, ::testing::Values(Format::f16, Format::bf16, Format::f8_e4m3, Format::f8_e5m2),
                         testing::ByName());

TEST_P(SmallFormat, EveryPatternDecodesToItsValue) {
  const Bits patterns = Bits{1} << info(GetParam()).width;
  for (Bits bits = 0; bits < patterns; ++bits) check_pattern(GetParam(), bits);
  EXPECT_GE(patterns, 256U);
}

// The values in order, by sorting doubles: neighbours in the list must be neighbours to the library.
TEST_P(SmallFormat, NeighboursAreTheNextValuesInOrder) {
  const Format format = GetParam();
  const Bits patterns = Bits{1} << info(format).width;
  std::vector<std::pair<double, Bits>> ordered;
  for (Bits bits = 0; bits < patterns; ++bits) {
    const double x = value(format, bits);
    if (!std::isnan(x) && (x != 0 || !std::signbit(x))) ordered.emplace_back(x, bits);
  }
  std::sort(ordered.begin(), ordered.end());
  for (std::size_t i = 0; i + 1 < ordered.size(); ++i) {
    const auto [x, bits] = ordered[i];
    const auto [above, above_bits] = ordered[i + 1];
    // Coming from below, zero is -0.
    ASSERT_EQ(next_up(format, bits), above == 0 ? layout(format).sign() : above_bits) << hex(bits);
    ASSERT_EQ(next_down(format, above_bits), bits) << hex(above_bits);
  }
  const Bits least = 1;
  EXPECT_EQ(next_up(format, layout(format).sign()), least);
  EXPECT_EQ(next_down(format, layout(format).sign()), least | layout(format).sign());
  const double top = ordered.back().first;
  if (layout(format).infinity) {
    EXPECT_EQ(top, std::numeric_limits<double>::infinity());
    EXPECT_EQ(next_up(format, ordered.back().second), ordered.back().second);
    EXPECT_EQ(next_down(format, ordered.front().second), ordered.front().second);
  } else {
    EXPECT_EQ(next_up(format, ordered.back().second), 0x7FU);  // E4M3: past 448 there is only NaN
    EXPECT_EQ(next_down(format, ordered.front().second), 0xFFU);
  }
}

// The unit in the last place at e is the gap above 2^e, in the subnormal range the gap above 0.
TEST_P(SmallFormat, UlpExponentIsTheGapBetweenValues) {
  const Format format = GetParam();
  const FormatInfo& f = info(format);
  for (int e = -300; e <= 300; ++e) {
    const int clamped = std::clamp(e, 1 - layout(format).bias, layout(format).greatest_exponent());
    const Bits at = testing::nearest(format, std::ldexp(1.0, clamped));
    ASSERT_EQ(value(format, at), std::ldexp(1.0, clamped));
    EXPECT_EQ(std::ldexp(1.0, f.ulp_exponent(e)), value(format, at + 1) - value(format, at)) << e;
  }
}

// The OCP table's own words: "Max normal", "Min normal", "Max subnorm", "Min subnorm", "NaN", "Infinities", "Zeros".
TEST(Format, E4M3IsTheTableOfTheOcp) {
  const Format e4m3 = Format::f8_e4m3;
  const auto d = [](Bits bits) {
    const Decoded v = decode(Format::f8_e4m3, bits);
    return std::ldexp(static_cast<double>(v.significand), v.exponent) * (v.negative ? -1 : 1);
  };
  EXPECT_EQ(d(0b0'1111'110), 448);                    // 1.75 · 2^8
  EXPECT_EQ(d(0b0'0001'000), std::ldexp(1.0, -6));    // 2^-6
  EXPECT_EQ(d(0b0'0000'111), std::ldexp(0.875, -6));  // 0.875 · 2^-6
  EXPECT_EQ(d(0b0'0000'001), std::ldexp(1.0, -9));    // 2^-9
  EXPECT_EQ(d(0b1'0111'000), -1);
  EXPECT_EQ(decode(e4m3, 0b0'1111'111).kind, Kind::nan);  // S.1111.111, and no infinity anywhere
  EXPECT_EQ(decode(e4m3, 0b1'1111'111).kind, Kind::nan);
  int finite = 0;
  int infinite = 0;
  for (Bits bits = 0; bits < 256; ++bits) {
    finite += decode(e4m3, bits).kind == Kind::finite;
    infinite += decode(e4m3, bits).kind == Kind::infinite;
  }
  EXPECT_EQ(finite, 254);
  EXPECT_EQ(infinite, 0);
}

TEST(Format, E5M2IsTheTableOfTheOcp) {
  const auto d = [](Bits bits) {
    const Decoded v = decode(Format::f8_e5m2, bits);
    return std::ldexp(static_cast<double>(v.significand), v.exponent);
  };
  EXPECT_EQ(d(0b0'11110'11), 57344);                  // 1.75 · 2^15
  EXPECT_EQ(d(0b0'00001'00), std::ldexp(1.0, -14));   // 2^-14
  EXPECT_EQ(d(0b0'00000'11), std::ldexp(0.75, -14));  // 0.75 · 2^-14
  EXPECT_EQ(d(0b0'00000'01), std::ldexp(1.0, -16));   // 2^-16
  EXPECT_EQ(decode(Format::f8_e5m2, 0b0'11111'00).kind, Kind::infinite);
  EXPECT_EQ(decode(Format::f8_e5m2, 0b1'11111'00).kind, Kind::infinite);
  for (const Bits bits : {0b0'11111'01, 0b0'11111'10, 0b0'11111'11}) EXPECT_EQ(decode(Format::f8_e5m2, bits).kind, Kind::nan);
}

template <class Float>
void check_limits(Format format) {
  using Limits = std::numeric_limits<Float>;
  const FormatInfo& f = info(format);
  EXPECT_EQ(f.width, 8 * static_cast<int>(sizeof(Float)));
  EXPECT_EQ(f.precision, Limits::digits);
  EXPECT_EQ(f.min_exponent(), Limits::min_exponent - 1);  // <limits> counts from a fraction in [1/2, 1)
  EXPECT_EQ(f.max_exponent(), Limits::max_exponent - 1);
  EXPECT_EQ(value(format, f.max_finite()), static_cast<double>(Limits::max()));
  EXPECT_EQ(value(format, f.infinity()), static_cast<double>(Limits::infinity()));
  EXPECT_TRUE(std::isnan(value(format, f.quiet_nan())));
  EXPECT_EQ(f.overflow(), f.infinity());
  EXPECT_EQ(std::ldexp(1.0, f.ulp_exponent(std::numeric_limits<int>::min())), static_cast<double>(Limits::denorm_min()));
  EXPECT_EQ(std::ldexp(1.0, f.ulp_exponent(0)), static_cast<double>(Limits::epsilon()));
}

TEST(Format, F32AndF64AreTheMachinesOwn) {
  check_limits<float>(Format::f32);
  check_limits<double>(Format::f64);
}

TEST(Format, BoundaryPatternsOfF32AndF64) {
  for (const Format format : {Format::f32, Format::f64}) {
    const Layout f = layout(format);
    const Bits hidden = Bits{1} << f.fraction_bits;
    int checked = 0;
    for (const Bits at : {Bits{0}, hidden, 2 * hidden, f.largest(), f.nan(), f.sign() / 2}) {
      for (int k = -2; k <= 2; ++k, ++checked) {
        check_pattern(format, (at + static_cast<Bits>(k)) & (f.sign() - 1));
        check_pattern(format, ((at + static_cast<Bits>(k)) & (f.sign() - 1)) | f.sign());
      }
    }
    EXPECT_EQ(checked, 30);
  }
}

// RapidCheck draws from the clock unless it is told not to.
const bool seeded = setenv("RC_PARAMS", "seed=20260104", 0) == 0;

RC_GTEST_PROP(Format, AnyF32, (std::uint32_t bits)) {
  RC_ASSERT(seeded);
  check_pattern(Format::f32, bits);
}
RC_GTEST_PROP(Format, AnyF64, (std::uint64_t bits)) {
  RC_ASSERT(seeded);
  check_pattern(Format::f64, bits);
}

TEST(Format, AMillionF32AndF64) {
  testing::Random random(1);
  for (int i = 0; i < 500'000; ++i) {
    check_pattern(Format::f32, random.next() >> 32);
    check_pattern(Format::f64, random.next());
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace norma
