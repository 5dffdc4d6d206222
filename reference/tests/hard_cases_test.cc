// Hard cases of rounding by hand, each with its reason. The expected bits are written down; surd.h judges each a second time.
#include <gtest/gtest.h>

#include "surd.h"

namespace norma {
namespace {

using testing::Big;
using testing::Constant;
using testing::Exact;
using testing::Layout;
using testing::layout;
using testing::Number;

constexpr Format f16 = Format::f16, bf16 = Format::bf16, f32 = Format::f32, f64 = Format::f64, e4m3 = Format::f8_e4m3,
                 e5m2 = Format::f8_e5m2;
constexpr Mode even = Mode::nearest_even, inward = Mode::toward_zero, up = Mode::up, down = Mode::down;

enum Flags : unsigned { none = 0, inexact = 1, overflow = 2, underflow = 4 };

struct Dyadics {
  const char* reason;
  Format format;
  std::int64_t significand;
  int exponent;
  Mode mode;
  Bits expected;
  unsigned flags;
};

// Numbers significand · 2^exponent.
const Dyadics dyadic_cases[] = {
    {"E4M3: the largest value", e4m3, 448, 0, even, 0x7E, none},
    {"E4M3: under the tie with the pattern that would be 480", e4m3, 463, 0, even, 0x7E, inexact},
    {"E4M3: the tie goes to the even significand, which is 448's", e4m3, 464, 0, even, 0x7E, inexact},
    {"E4M3: past the tie the result is 480, which is NaN", e4m3, (std::int64_t{464} << 40) + 1, -40, even, 0x7F, inexact | overflow},
    {"E4M3: 480 itself", e4m3, 480, 0, even, 0x7F, inexact | overflow},
    {"E4M3: 480, toward zero; unbounded it would be 480", e4m3, 480, 0, inward, 0x7E, inexact | overflow},
    {"E4M3: 479, toward zero; unbounded it would be 448 all the same", e4m3, 479, 0, inward, 0x7E, inexact},
    {"E4M3: just above 448, upwards", e4m3, (std::int64_t{448} << 40) + 1, -40, up, 0x7F, inexact | overflow},
    {"E4M3: just below -448, downwards", e4m3, -(std::int64_t{448} << 40) - 1, -40, down, 0xFF, inexact | overflow},
    {"E4M3: 2^9, a whole binade out", e4m3, 512, 0, down, 0x7E, inexact | overflow},
    {"E4M3: half the least subnormal is a tie with zero", e4m3, 1, -10, even, 0x00, inexact | underflow},
    {"E4M3: and keeps its sign", e4m3, -1, -10, even, 0x80, inexact | underflow},
    {"E4M3: one and a half least subnormals tie to two", e4m3, 3, -10, even, 0x02, inexact | underflow},
    {"E5M2: the tie at the top: 57344 is odd, so infinity", e5m2, 61440, 0, even, 0x7C, inexact | overflow},
    {"E5M2: just under that tie", e5m2, 61439, 0, even, 0x7B, inexact},
    {"E5M2: the tie toward zero", e5m2, 61440, 0, inward, 0x7B, inexact},
    {"E5M2: -65536 upwards is the largest negative, an overflow nonetheless", e5m2, -65536, 0, up, 0xFB, inexact | overflow},
    {"f16: 65504 is the largest value", f16, 65504, 0, even, 0x7BFF, none},
    {"f16: 65519.99...: the last number that stays finite", f16, (std::int64_t{65520} << 20) - 1, -20, even, 0x7BFF, inexact},
    {"f16: 65520 ties to infinity", f16, 65520, 0, even, 0x7C00, inexact | overflow},
    {"f16: the largest subnormal and a half rounds up to the least normal value, yet was tiny", f16, 2047, -25, even, 0x0400,
     inexact | underflow},
    {"f16: the same, toward zero", f16, 2047, -25, inward, 0x03FF, inexact | underflow},
    {"f16: the least normal value is exact and not tiny", f16, 1, -14, even, 0x0400, none},
    {"f16: the largest subnormal is exact: tiny but no underflow", f16, 1023, -24, even, 0x03FF, none},
    {"f16: half the least subnormal, upwards", f16, 1, -25, up, 0x0001, inexact | underflow},
    {"f16: far below the least subnormal, upwards", f16, 1, -1000, up, 0x0001, inexact | underflow},
    {"f16: far below it, downwards, keeps +0", f16, 1, -1000, down, 0x0000, inexact | underflow},
    {"f16: far below it on the other side, upwards, is -0", f16, -1, -1000, up, 0x8000, inexact | underflow},
    {"f16: 2049 lies between 2048 and 2050: tie to even", f16, 2049, 0, even, 0x6800, inexact},
    {"f16: 2051 the same, upwards to 2052", f16, 2051, 0, even, 0x6802, inexact},
    {"f16: 4095 carries through all ones into the exponent", f16, 4095, 0, even, 0x6C00, inexact},
    {"bf16: a tie in the first dropped bit", bf16, 0x101, -8, even, 0x3F80, inexact},
    {"bf16: a tie to the odd neighbour's other side", bf16, 0x103, -8, even, 0x3F82, inexact},
    {"bf16: the top tie", bf16, 0x1FF, 119, even, 0x7F80, inexact | overflow},
    {"f32: 2^24 + 1", f32, 16777217, 0, even, 0x4B800000, inexact},
    {"f32: 2^24 + 3", f32, 16777219, 0, even, 0x4B800002, inexact},
    {"f32: half the least subnormal", f32, 1, -150, even, 0x00000000, inexact | underflow},
    {"f32: more than half of it, by the 62nd bit", f32, (std::int64_t{1} << 61) + 1, -211, even, 0x00000001, inexact | underflow},
    {"f32: the largest value", f32, 0xFFFFFF, 104, even, 0x7F7FFFFF, none},
    {"f32: the tie above it", f32, 0x1FFFFFF, 103, even, 0x7F800000, inexact | overflow},
    {"f32: just under the tie", f32, 0x1FFFFFFFFFFFFF, 75, inward, 0x7F7FFFFF, inexact},
    {"f64: 2^53 + 1", f64, 9007199254740993, 0, even, 0x4340000000000000, inexact},
    {"f64: half the least subnormal", f64, 1, -1075, even, 0, inexact | underflow},
    {"f64: three halves of it", f64, 3, -1075, even, 2, inexact | underflow},
    {"f64: the largest subnormal and a half", f64, 0x1FFFFFFFFFFFFF, -1075, even, 0x0010000000000000, inexact | underflow},
    {"f64: the tie above the largest value", f64, 0x3FFFFFFFFFFFFF, 970, even, 0x7FF0000000000000, inexact | overflow},
};

void check(const char* reason, const Number& y, Format format, Mode mode, const Rounded& got, Bits expected, unsigned flags) {
  EXPECT_EQ(got.bits, expected) << reason << ": " << testing::hex(got.bits) << " for " << testing::hex(expected);
  EXPECT_EQ(got.inexact, (flags & inexact) != 0) << reason;
  EXPECT_EQ(got.overflow, (flags & overflow) != 0) << reason;
  EXPECT_EQ(got.underflow, (flags & underflow) != 0) << reason;
  EXPECT_EQ(testing::fault(y, false, format, mode, got), "") << reason;
}

TEST(HardCases, OfDyadicNumbers) {
  const Constant one = Constant::ratio(1, 1);
  const Constant seventh = Constant::ratio(1, 7);
  const Constant root_of_nine = Constant::root(1, 9, 1);  // a perfect square: 1/√(1/9) = 3
  for (const Dyadics& c : dyadic_cases) {
    const Exact value(c.significand, c.exponent);
    for (const Number& y : {Number{&one, value, 0}, Number{&one, 0, value}, Number{&seventh, 0, Exact(7) * value},
                            Number{&seventh, value - Exact(1), 7}, Number{&root_of_nine, Exact(4) * value, -value}}) {
      check(c.reason, y, c.format, c.mode, round(y.real(), c.format, c.mode), c.expected, c.flags);
    }
  }
}

TEST(HardCases, SignsOfZero) {
  const Constant third = Constant::ratio(1, 3);
  const Number nothing{&third, -5, 15};  // −5 + 15/3
  for (const Format format : testing::all_formats) {
    for (const Mode mode : testing::all_modes) {
      EXPECT_EQ(round(nothing.real(false), format, mode), Rounded{});
      EXPECT_EQ(round(nothing.real(true), format, mode), (Rounded{layout(format).sign(), false, false, false}));
      EXPECT_EQ(round(Real(Dyadic()), format, mode), Rounded{});
      EXPECT_EQ(round(Real(-Dyadic()), format, mode), (Rounded{layout(format).sign(), false, false, false}));
    }
  }
  // What `affine` says the sign is: of the product without a bias; IEEE 754's rule for a sum with one.
  const Dyadic zero;
  const Dyadic minus_zero = -Dyadic();
  const Dyadic five(5);
  const Dyadic minus_fifteen(-15);
  const auto negative = [](const Real& y) { return (round(y, f32).bits & 0x80000000) != 0; };
  EXPECT_FALSE(negative(affine(nullptr, zero, third.surd, nullptr)));
  EXPECT_TRUE(negative(affine(nullptr, minus_zero, third.surd, nullptr)));
  EXPECT_TRUE(negative(affine(&minus_fifteen, zero, third.surd, nullptr)));
  EXPECT_FALSE(negative(affine(nullptr, minus_zero, third.surd, &zero)));
  EXPECT_TRUE(negative(affine(nullptr, minus_zero, third.surd, &minus_zero)));
  EXPECT_FALSE(negative(affine(nullptr, minus_fifteen, third.surd, &five)));
  EXPECT_TRUE(negative(affine(nullptr, minus_fifteen, third.surd, &five, down)));
}

// √2 cut off `depth` places below the round bit and moved beside a tie or a value: what is left of it decides, and it is all there is.
TEST(HardCases, NearTiesAtEveryDepth) {
  const Constant root2 = Constant::root(1, 2, 1);
  const Exact approximation = root2.approximately(2400);
  int decided_by_the_rule = 0;
  for (const Format format : testing::all_formats) {
    const Layout f = layout(format);
    const Bits one = testing::nearest(format, 1);
    const Bits least_normal = Bits{1} << f.fraction_bits;
    for (const Bits at : {one, one + 1, least_normal - 1, least_normal, Bits{0}, Bits{1}, f.largest() - 1, f.largest()}) {
      const Exact low = testing::magnitude_value(format, at);
      const Exact high = testing::magnitude_value(format, at + 1);
      const int round_bit = Exact(high - low).e - 1;
      for (const int depth : {1, 30, 60, 64, 100, 126, 130, 131, 200, 300, 1000}) {
        const int place = round_bit - depth;
        const Exact cut(approximation.m >> std::max(place - approximation.e, 0), std::max(place, approximation.e));
        const Exact tie = testing::midpoint(low, high);
        const Number above{&root2, tie - cut, 1};   // tie + (√2 − cut)
        const Number below{&root2, tie + cut, -1};  // tie − (√2 − cut)
        const Bits top = at == f.largest() ? (f.infinity ? at + 1 : f.nan()) : at + 1;
        EXPECT_EQ(round(above.real(), format).bits, top) << info(format).name << " " << testing::hex(at) << " + 2^-" << depth;
        EXPECT_EQ(round(below.real(), format).bits, at) << info(format).name << " " << testing::hex(at) << " - 2^-" << depth;
        for (const Number& y : {above, below, Number{&root2, low - cut, 1}, Number{&root2, low + cut, -1}, Number{&root2, -cut, 1}}) {
          for (const Mode mode : testing::all_modes) {
            EXPECT_EQ(testing::fault(y, false, format, mode, round(y.real(), format, mode)), "") << y.text();
          }
          EXPECT_EQ(testing::fault(y, false, digits(y.real())), "") << y.text();
          EXPECT_EQ(testing::fault(y, false, digits_exact(y.real())), "") << y.text();
        }
        // Does κ's enclosure leave the tie on both sides?
        const Exact enclosed(Big(root2.surd.low()), root2.surd.low_exponent());
        const Exact unit(1, root2.surd.low_exponent());
        decided_by_the_rule += (enclosed - cut).sign() <= 0 && (enclosed + unit - cut).sign() > 0;
      }
    }
  }
  EXPECT_GE(decided_by_the_rule, 6 * 8 * 3);
}

// ε outside the root: where √(t/z) = ε the formula's difference of squares is 0/0, and beside it nearly so.
TEST(HardCases, EpsilonEqualToTheRoot) {
  int checked = 0;
  for (const int exponent : {-1074, -149, -20, 0, 3, 500}) {
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{3}, std::int64_t{0x1FFFFFFFFFFFFF}}) {
      for (const std::int64_t z : {1, 2, 12, 132}) {
        const Exact e(m, exponent);
        const Exact t = e * e * Exact(z);
        const Constant equal = Constant::root_plus(t, z, e, 11);  // 1/(22e)
        EXPECT_TRUE(equal.surd.rational());
        for (const int depth : {0, 1, 30, 130, 400}) {
          for (const int sign : {-1, 0, 1}) {
            const Exact beside = t + Exact(sign, t.e - depth);
            if (beside.sign() <= 0) continue;
            const Constant kappa = Constant::root_plus(beside, z, e, 11);
            EXPECT_EQ(testing::enclosure_fault(kappa), "") << depth << " " << sign;
            const Number y{&kappa, -3, e * Exact(66)};  // 0 where they are equal
            for (const Format format : testing::all_formats) {
              EXPECT_EQ(testing::fault(y, false, format, even, round(y.real(), format)), "") << y.text();
              ++checked;
            }
            EXPECT_EQ(testing::fault(y, false, digits(y.real())), "") << y.text();
            EXPECT_EQ(digits(y.real()).zero(), sign == 0);
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 6000);
}

TEST(HardCases, ConstantsThatAreNoNumbers) {
  const Dyadic inf = Dyadic::infinity(false);
  EXPECT_EQ(Surd::ratio(0, 0).kind(), Kind::nan);
  EXPECT_EQ(Surd::ratio(3, 0).kind(), Kind::infinite);
  EXPECT_TRUE(Surd::ratio(0, 3).zero());
  EXPECT_EQ(Surd::reciprocal_root(Dyadic(), 1, 1).kind(), Kind::infinite);
  EXPECT_EQ(Surd::reciprocal_root(Dyadic(-1), 1, 1).kind(), Kind::nan);
  EXPECT_EQ(Surd::reciprocal_root(Dyadic::nan(), 1, 1).kind(), Kind::nan);
  EXPECT_EQ(Surd::reciprocal_root(-inf, 1, 1).kind(), Kind::nan);
  EXPECT_TRUE(Surd::reciprocal_root(inf, 1, 1).zero());
  EXPECT_EQ(Surd::reciprocal_root_plus(Dyadic(), 1, Dyadic(), 1).kind(), Kind::infinite);
  EXPECT_EQ(Surd::reciprocal_root_plus(Dyadic(-1), 1, Dyadic(1), 1).kind(), Kind::nan);
  EXPECT_EQ(Surd::reciprocal_root_plus(Dyadic::nan(), 1, Dyadic(1), 1).kind(), Kind::nan);
  EXPECT_TRUE(Surd::reciprocal_root_plus(inf, 1, Dyadic(1), 1).zero());
  EXPECT_TRUE(Surd::reciprocal_root_plus(Dyadic(), 1, Dyadic(1), 1).rational());
}

TEST(HardCases, UlpErrorOfSpecialValues) {
  const Constant one = Constant::ratio(1, 1);
  const Real five = Number{&one, 5, 0}.real();
  const Real nan(Dyadic::nan());
  const Real inf(Dyadic::infinity(false));
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ulp_error(five, f16, 0x7C00), infinite);
  EXPECT_EQ(ulp_error(five, f16, 0x7E00), infinite);
  EXPECT_EQ(ulp_error(nan, f16, 0x7E00), 0);
  EXPECT_EQ(ulp_error(nan, f16, 0xFE01), 0);
  EXPECT_EQ(ulp_error(nan, f16, 0x7C00), infinite);
  EXPECT_EQ(ulp_error(inf, f16, 0x7C00), 0);
  EXPECT_EQ(ulp_error(inf, f16, 0xFC00), infinite);
  EXPECT_EQ(ulp_error(inf, f16, 0x7BFF), infinite);
  // What `round` makes of infinity is the best there is.
  for (const Format format : testing::all_formats) EXPECT_EQ(ulp_error(inf, format, round(inf, format).bits), 0) << info(format).name;
}

// What makes the reference fast: on an ordinary row, the enclosure decides every element.
TEST(HardCases, TheEnclosureDecidesOrdinaryRows) {
  testing::Random random(30);
  testing::Tensor x(Format::f32, {4, 500});
  for (std::size_t i = 0; i < 2000; ++i)
    x.set(i, testing::nearest(Format::f32, static_cast<double>(random.between(-1'000'000, 1'000'000)) / 333'333));
  ByRole<ConstView> in;
  in[Role::x] = x.in();
  ByRole<View> wanted;
  wanted[Role::y] = View{Format::f32, nullptr, {4, 500}, {}};
  int decided = 0;
  const Status status = evaluate(testing::spec_of(Op::layer_norm, 1e-5), in, wanted, Mode::nearest_even,
                                 [&](Role, std::int64_t, const Real& y) { decided += digits_enclosed(y).has_value() ? 1 : 0; });
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(decided, 2000);
}

}  // namespace
}  // namespace norma
