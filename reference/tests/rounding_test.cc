// Random numbers p + q·κ, each aimed at a difficulty, rounded by the library and judged by comparisons (surd.h).
#include "norma/rounding.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "scale.h"
#include "surd.h"

namespace norma {
namespace {

using testing::Big;
using testing::Constant;
using testing::Exact;
using testing::Layout;
using testing::layout;
using testing::Number;
using testing::Random;

Big random_bits(Random& random, int bits) {  // exactly that many
  Big n = 1;
  for (int i = 1; i < bits; i += 32) {
    const int step = std::min(32, bits - i);
    n = (n << step) + static_cast<std::uint32_t>(random.next() >> (64 - step));
  }
  return n;
}

Exact random_exact(Random& random, int exponent, int most_bits = 60) {  // of magnitude about 2^exponent
  const int bits = static_cast<int>(random.between(1, most_bits));
  Big m = random_bits(random, bits);
  if (random.one_in(2)) m = -m;
  return {m, exponent - bits};
}

int magnitude_of(const Exact& x) { return x.m == 0 ? 0 : static_cast<int>(msb(Big(abs(x.m)))) + x.e; }

// Constants of every kind: rational, surd, rational in a surd's clothes, ε beside the root on either side of it and equal to it.
Constant random_constant(Random& random, int reach) {
  const Big s = random_bits(random, static_cast<int>(random.between(1, 20)));
  const Big z = random.one_in(3)            ? s * s
                : random.one_in(2) && s > 1 ? Big(s * (s - 1))
                                            : random_bits(random, static_cast<int>(random.between(1, 20)));
  const auto exponent = [&] { return static_cast<int>(random.between(-reach, reach)); };
  const auto positive = [&](int at) { return Exact(random_bits(random, static_cast<int>(random.between(1, 110))), at); };
  switch (random.between(0, 7)) {
    case 0:
      return Constant::ratio(random_bits(random, static_cast<int>(random.between(1, 90))),
                             random_bits(random, static_cast<int>(random.between(1, 90))));
    case 1: {  // √(t/z) = r
      const Exact r = random_exact(random, exponent(), 30);
      return Constant::root(r * r * Exact(z), z, s);
    }
    case 2: {  // √(t/z) = e, or just beside it
      const Exact e(random_bits(random, static_cast<int>(random.between(1, 50))), exponent());
      Exact t = e * e * Exact(z);
      if (random.one_in(2)) {
        const int depth = static_cast<int>(random.between(1, 120));
        t = t + Exact(random.one_in(2) ? 1 : -1, magnitude_of(t) - depth);
        if (t.sign() <= 0) t = e * e * Exact(z);
      }
      return Constant::root_plus(t, z, e, s);
    }
    case 3:
      return Constant::root_plus({}, z, positive(exponent()), s);  // σ² = 0
    case 4: {
      const Exact t = positive(2 * exponent());
      return Constant::root_plus(t, z, positive(magnitude_of(t) / 2 + static_cast<int>(random.between(-70, 70))), s);
    }
    default:
      return Constant::root(positive(2 * exponent() + static_cast<int>(random.between(0, 1))), z, s);
  }
}

// x cut off below 2^place.
Exact truncated(const Exact& x, int place) {
  if (x.e >= place) return x;
  return {x.m / (Big(1) << (place - x.e)), place};
}

// A value of the format, or the middle between two, from zero to past the largest.
Exact random_target(Random& random, Format format) {
  const Layout f = layout(format);
  const Bits top = f.largest();
  Bits at = random.next() % (top + 1);
  if (random.one_in(4)) at = (at & ((Bits{1} << f.fraction_bits) - 1)) + (random.one_in(2) ? 0 : top & ~((Bits{1} << f.fraction_bits) - 1));
  if (random.one_in(8)) at = random.of(std::vector<Bits>{0, 1, Bits{1} << f.fraction_bits, (Bits{1} << f.fraction_bits) - 1, top, top - 1});
  at = std::min(at, top);
  const Exact m = testing::magnitude_value(format, at);
  const Exact target = random.one_in(2) ? m : testing::midpoint(m, testing::magnitude_value(format, at + 1));
  return random.one_in(2) ? target : -target;
}

Number random_number(Random& random, Format format, const Constant& kappa) {
  const Layout f = layout(format);
  const int least = f.least_exponent() - 40;
  const int most = f.greatest_exponent() + 10;
  const Exact k = kappa.approximately(400);
  const int k_log = magnitude_of(k);
  const auto place = [&] { return static_cast<int>(random.between(least, most)); };
  switch (random.between(0, 5)) {
    case 0:
      return {&kappa, {}, random_exact(random, place() - k_log)};
    case 1: {  // two terms of like size
      const int at = place();
      return {&kappa, random_exact(random, at), random_exact(random, at - k_log + static_cast<int>(random.between(-70, 70)))};
    }
    case 2:
      return {&kappa, random_exact(random, place()), random_exact(random, place() - k_log)};
    case 3: {  // cancellation down to a random depth
      const int at = place();
      const Exact q = random_exact(random, at - k_log + static_cast<int>(random.between(0, 60)));
      return {&kappa, -truncated(q * k, at - static_cast<int>(random.between(0, 200))), q};
    }
    case 4: {  // beside a value or a tie, at a random depth
      const Exact target = random_target(random, format);
      const Exact q = random_exact(random, place() - k_log);
      const int depth = static_cast<int>(random.between(1, 300));
      return {&kappa, target - truncated(q * k, std::min(magnitude_of(target), f.greatest_exponent()) - depth), q};
    }
    default: {  // on it, where κ is rational; some rational multiple beside it where not
      const Exact target = random_target(random, format);
      const Big& d = kappa.surd.rational() ? Big(kappa.surd.d()) : Big(1);
      Exact q = Exact(d) * random_exact(random, place() - k_log - static_cast<int>(msb(d)), 20);
      if (!kappa.surd.rational()) return {&kappa, target, q};
      // d·κ is dyadic, so q·κ is: exactly numerator·d/alpha where there is no root; else a/d·d.
      const Exact product = q * Exact(Big(kappa.surd.a()), kappa.surd.exponent());
      return {&kappa, target - Exact(product.m / d, product.e), q};
    }
  }
}

class EveryFormat : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, ::testing::ValuesIn(testing::all_formats), testing::ByName());

TEST_P(EveryFormat, RoundsRandomSurdsCorrectly) {
  const Format format = GetParam();
  constexpr std::uint64_t seed = 20260101;
  Random random(seed + static_cast<std::uint64_t>(format));
  const std::int64_t cases = testing::scaled(50'000);
  const int reach = layout(format).greatest_exponent() + 10;
  std::int64_t rounded = 0;
  std::int64_t exact = 0;
  std::int64_t ties = 0;
  std::int64_t undecided_by_enclosure = 0;
  for (std::int64_t i = 0; i < cases; ++i) {
    const Constant kappa = random_constant(random, reach);
    const std::string wrong = testing::enclosure_fault(kappa);
    ASSERT_EQ(wrong, "") << "case " << i << ": " << Number{&kappa, {}, 1}.text();
    for (int j = 0; j < 4; ++j) {
      const Number y = random_number(random, format, kappa);
      const bool negative_zero = random.one_in(2);
      const Real real = y.real(negative_zero);
      const auto where = [&] { return "case " + std::to_string(i) + "." + std::to_string(j) + ": " + y.text(); };

      const Digits digits = norma::digits(real);
      const Digits slow = digits_exact(real);
      ASSERT_EQ(testing::fault(y, negative_zero, digits), "") << where();
      ASSERT_TRUE(digits.negative == slow.negative && digits.significand == slow.significand && digits.exponent == slow.exponent &&
                  digits.sticky == slow.sticky)
          << where();
      std::array<Rounded, 4> results;
      for (const Mode mode : testing::all_modes) {
        const Rounded got = round(real, format, mode);
        results[static_cast<std::size_t>(mode)] = got;
        ASSERT_EQ(testing::fault(y, negative_zero, format, mode, got), "")
            << where() << ", mode " << static_cast<int>(mode) << " gave " << testing::hex(got.bits);
        ++rounded;
      }
      const Neighbours around = neighbours(real, format);
      ASSERT_EQ(around.below, results[static_cast<std::size_t>(Mode::down)].bits) << where();
      ASSERT_EQ(around.above, results[static_cast<std::size_t>(Mode::up)].bits) << where();

      // How far off is the correct result, and how far off is some other value?
      const Bits nearest = results[0].bits;
      const Bits other = random.one_in(2) ? random.next() & (2 * layout(format).sign() - 1) : nearest ^ (random.next() & 3);
      for (const Bits got : {nearest, other}) {
        const double error = ulp_error(real, format, got);
        if (!std::isfinite(testing::value(format, got))) {
          ASSERT_EQ(error, std::numeric_limits<double>::infinity()) << where();
        } else {
          ASSERT_EQ(testing::ulp_fault(y, format, got, error), "") << where() << ", " << testing::hex(got) << " off by " << error;
          ASSERT_TRUE(got != nearest || error <= 0.5) << where();
        }
      }
      exact += !results[0].inexact;
      if (std::isfinite(testing::value(format, nearest))) ties += results[0].inexact && ulp_error(real, format, nearest) == 0.5;

      const int k = static_cast<int>(random.between(-reach, reach + 100));
      const Floor floor = floor_magnitude(real, k);
      const auto magnitude_against = [&](const Exact& m) { return y.sign() < 0 ? -y.compare(-m) : y.compare(m); };
      const int low = magnitude_against({Big(floor.value), -k});
      ASSERT_TRUE(low >= 0 && magnitude_against({Big(floor.value) + 1, -k}) < 0 && floor.exact == (low == 0)) << where() << ", k = " << k;

      // Where 124 bits of κ settle the digits, they are the rule's.
      const std::optional<Digits> enclosed = digits_enclosed(real);
      undecided_by_enclosure += enclosed ? 0 : 1;
    }
  }
  std::cout << rounded << " roundings in " << info(format).name << ", " << exact << " exact numbers, " << ties << " at half an ulp, "
            << undecided_by_enclosure << " not decided by the enclosure\n";
  EXPECT_GT(exact, cases / 100);
  EXPECT_GT(ties, cases / 100);
  EXPECT_GT(undecided_by_enclosure, cases / 100);
  EXPECT_LT(undecided_by_enclosure, 3 * cases);  // of 4 · cases
  EXPECT_EQ(rounded, 16 * cases);
}

// Every value of the small formats, and every midpoint, as a number p without κ: exact values, exact ties, and overflows.
TEST_P(EveryFormat, RoundsItsOwnValuesAndMidpoints) {
  const Format format = GetParam();
  const Layout f = layout(format);
  const Constant one = Constant::ratio(1, 1);
  Random random(7);
  const Bits step = f.largest() > 70'000 ? f.largest() / 30'000 : 1;
  int checked = 0;
  for (Bits at = 0; at <= f.largest(); at += random.one_in(50) ? 1 : step) {
    const Exact m = testing::magnitude_value(format, at);
    for (const Exact& p : {m, -m, testing::midpoint(m, testing::magnitude_value(format, at + 1))}) {
      const Number y{&one, p, {}};
      for (const Mode mode : testing::all_modes) {
        ASSERT_EQ(testing::fault(y, false, format, mode, round(y.real(), format, mode)), "") << y.text();
        ++checked;
      }
      ASSERT_EQ(testing::fault(y, false, digits(Real(testing::dyadic(p)))), "") << y.text();
    }
    if (f.largest() - at < step) break;
  }
  EXPECT_GT(checked, 1000);
}

}  // namespace
}  // namespace norma
