// Every input there is, for the two smallest groups. n = 1 RMSNorm over all 16-bit patterns is y = x/√(x² + ε); n = 2 LayerNorm over
// pairs (a, b) of f16 is y = ±d/√(d² + ε) with d = (a − b)/2.
//
// Both are monotone in the size of their one variable, so the right results follow from thresholds: the least |d| at which y reaches
// each midpoint m of the output format. Over integers m²(d² + ε) < d² says whether it does. Nothing here divides or takes a root of an
// input; a pair costs one lookup and one comparison.
//
// The whole of n = 2, 2^32 pairs for each ε, is a tier of its own, and so is the quarter of it that the symmetries leave:
//     reference_test --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_OfF16All*'
//     reference_test --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_OfF16AQuarter*'
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "surd.h"

namespace norma {
namespace {

using testing::Big;
using testing::Exact;
using testing::Layout;
using testing::layout;

// m²(d² + ε) against d², that is, m against d/√(d² + ε); both nonnegative.
int compare(const Exact& m, const Exact& d, const Exact& epsilon) { return (m * m * (d * d + epsilon) - d * d).sign(); }

TEST(Exhaustive, RmsNormOfEveryF16AndBf16Alone) {
  const double epsilons[] = {0, std::ldexp(1.0, -149), 1e-12, 1e-5, 1, 65504, std::ldexp(1.0, 1000)};
  std::int64_t checked = 0;
  std::int64_t not_finite = 0;
  for (const Format format : {Format::f16, Format::bf16}) {
    const Layout f = layout(format);
    testing::Tensor x(format, {65536, 1});
    for (std::size_t i = 0; i < 65536; ++i) x.set(i, i);
    for (const double epsilon : epsilons) {
      testing::Call call{testing::spec_of(Op::rms_norm, epsilon), {}};
      call.inputs[Role::x] = x;
      const testing::Tensor y = call.get(Role::y, format);
      ASSERT_EQ(y.size(), 65536U);
      const Exact e = Exact::of(epsilon);
      for (Bits i = 0; i < 65536; ++i) {
        const double in = testing::value(format, i);
        const double out = y[i];
        ++checked;
        if (!std::isfinite(in) || (in == 0 && epsilon == 0)) {
          ASSERT_TRUE(std::isnan(out)) << testing::hex(i) << ", epsilon " << epsilon;
          ++not_finite;
          continue;
        }
        const Bits magnitude = y.bits(i) & (f.sign() - 1);
        ASSERT_EQ(std::signbit(out), std::signbit(in)) << testing::hex(i);
        ASSERT_LE(magnitude, testing::nearest(format, 1)) << testing::hex(i);
        const Exact d = Exact::of(std::fabs(in));
        const Exact here = testing::magnitude_value(format, magnitude);
        const int above = compare(testing::midpoint(here, testing::magnitude_value(format, magnitude + 1)), d, e);
        ASSERT_TRUE(above > 0 || (above == 0 && magnitude % 2 == 0))
            << testing::hex(i) << ", epsilon " << epsilon << ": " << testing::hex(magnitude);
        if (magnitude == 0) continue;
        const int below = compare(testing::midpoint(testing::magnitude_value(format, magnitude - 1), here), d, e);
        ASSERT_TRUE(below < 0 || (below == 0 && magnitude % 2 == 0))
            << testing::hex(i) << ", epsilon " << epsilon << ": " << testing::hex(magnitude);
      }
    }
  }
  std::cout << checked << " values of x checked, " << not_finite << " of them NaN by right\n";
  EXPECT_EQ(checked, 2 * 7 * 65536);
}

constexpr Bits f16_one = 0x3C00;
constexpr std::int64_t not_finite_f16 = std::numeric_limits<std::int64_t>::min();

// f16 values in units of 2^-24, all integers.
std::vector<std::int64_t> f16_integers() {
  std::vector<std::int64_t> result(65536);
  for (Bits i = 0; i < 65536; ++i) {
    const double x = testing::value(Format::f16, i);
    result[i] = std::isfinite(x) ? static_cast<std::int64_t>(std::ldexp(x, 24)) : not_finite_f16;
  }
  return result;
}

// reach[r]: the least D = |a − b| in units of 2^-24, so d = D·2^-25, at which y rounds to the f16 pattern r or above. 0 <= r <= 1.0, and
// one past it that nothing reaches.
std::vector<std::int64_t> thresholds(double epsilon) {
  constexpr std::int64_t never = std::int64_t{1} << 60;
  std::vector<std::int64_t> reach(f16_one + 2, never);
  reach[0] = 0;
  const Exact e = Exact::of(epsilon);
  for (Bits r = 1; r <= f16_one; ++r) {
    const Exact m = testing::midpoint(testing::magnitude_value(Format::f16, r - 1), testing::magnitude_value(Format::f16, r));
    const auto reaches = [&](std::int64_t difference) {
      const int c = compare(m, {difference, -25}, e);
      return c < 0 || (c == 0 && r % 2 == 0 && difference > 0);
    };
    std::int64_t low = reach[r - 1] > 0 ? reach[r - 1] - 1 : 0;  // does not reach r
    std::int64_t high = std::int64_t{1} << 42;
    if (!reaches(high)) continue;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (reaches(middle) ? high : low) = middle;
    }
    reach[r] = high;
  }
  return reach;
}

struct Sweep {
  std::int64_t pairs = 0;
  std::int64_t nan = 0;
  double seconds = 0;
};

enum class Which { all, b_up_to_a };

// LayerNorm of pairs (a, b), on as many threads as there are processors: of all of them, or for a = as[i] = i of those with b among
// bs[0 .. 2i + 1].
Sweep sweep(const std::vector<Bits>& as, const std::vector<Bits>& bs, double epsilon, bool progress = false, Which which = Which::all) {
  const std::vector<std::int64_t> integers = f16_integers();
  const std::vector<std::int64_t> reach = thresholds(epsilon);
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> pairs{0};
  std::atomic<std::int64_t> nan{0};
  std::atomic<int> wrong{0};
  std::mutex reporting;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const auto work = [&] {
    testing::Tensor x(Format::f16, {static_cast<std::int64_t>(bs.size()), 2});
    for (std::size_t j = 0; j < bs.size(); ++j) x.set(2 * j + 1, bs[j]);
    testing::Tensor y(Format::f16, x.shape());
    const Spec spec = testing::spec_of(Op::layer_norm, epsilon);
    for (std::size_t i = next++; i < as.size() && wrong == 0; i = next++) {
      const std::size_t rows = which == Which::all ? bs.size() : 2 * i + 2;
      for (std::size_t j = 0; j < rows; ++j) x.set(2 * j, as[i]);
      ByRole<ConstView> in;
      ByRole<View> out;
      in[Role::x] = x.in();
      out[Role::y] = y.out();
      in[Role::x]->shape[0] = out[Role::y]->shape[0] = static_cast<std::int64_t>(rows);
      std::int64_t nan_here = 0;
      std::string fault = compute(spec, in, out).message;
      for (std::size_t j = 0; j < rows && fault.empty(); ++j) {
        const std::int64_t a = integers[as[i]];
        const std::int64_t b = integers[bs[j]];
        const Bits ya = y.bits(2 * j);
        const Bits yb = y.bits(2 * j + 1);
        bool right = false;
        if (a == not_finite_f16 || b == not_finite_f16 || (a == b && epsilon == 0)) {
          right = ya == 0x7E00 && yb == 0x7E00;
          ++nan_here;
        } else {
          const std::int64_t difference = std::abs(a - b);
          const Bits magnitude = ya & 0x7FFF;
          const bool zeros = a == b && as[i] != bs[j];  // +0 and -0: the mean is +0, and -0 - +0 is -0
          const Bits sign_a = a < b || (zeros && as[i] != 0) ? 0x8000 : 0;
          const Bits sign_b = b < a || (zeros && bs[j] != 0) ? 0x8000 : 0;
          right = magnitude <= f16_one && reach[magnitude] <= difference && difference < reach[magnitude + 1] &&
                  ya == (magnitude | sign_a) && yb == (magnitude | sign_b);
        }
        if (!right)
          fault = "(" + testing::hex(as[i]) + ", " + testing::hex(bs[j]) + ") gives (" + testing::hex(ya) + ", " + testing::hex(yb) + ")";
      }
      pairs += static_cast<std::int64_t>(rows);
      nan += nan_here;
      const std::scoped_lock lock(reporting);
      if (!fault.empty()) {
        ++wrong;
        ADD_FAILURE() << "epsilon " << epsilon << ": " << fault;
      }
      if (progress && i % 64 == 63) {
        std::cout << i + 1 << " of " << as.size() << " first elements, " << static_cast<double>(pairs) / elapsed() << " pairs a second"
                  << std::endl;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return {pairs, nan, elapsed()};
}

std::vector<Bits> every(Bits step, Bits from = 0) {
  std::vector<Bits> result;
  for (Bits i = from; i < 65536; i += step) result.push_back(i);
  return result;
}

const double pair_epsilons[] = {0, 1e-12, 1e-5, 1e-3};

class ExhaustivePairs : public ::testing::TestWithParam<double> {
 protected:
  static void check(const std::vector<Bits>& as, const std::vector<Bits>& bs, bool progress, Which which, std::int64_t pairs) {
    const Sweep done = sweep(as, bs, GetParam(), progress, which);
    std::cout << "epsilon " << GetParam() << ": " << done.pairs << " pairs checked, " << done.nan << " of them NaN by right, "
              << static_cast<double>(done.pairs) / done.seconds << " a second" << std::endl;
    EXPECT_EQ(done.pairs, pairs);
    EXPECT_GT(done.nan, 0);
    EXPECT_LT(done.nan, done.pairs);
  }

  // Exchanging a and b exchanges the results; negating both negates both, save NaN, and the zeros of two equal patterns, which stay +0.
  // So the pairs with a >= +0 and |b| <= a, in the order of the patterns, NaN and infinity included, stand for all.
  static void check_quarter(Bits step, bool progress) {
    std::vector<Bits> as;
    std::vector<Bits> bs;
    for (Bits magnitude = 0; magnitude < 0x8000; magnitude += step) {
      as.push_back(magnitude);
      bs.push_back(magnitude);
      bs.push_back(magnitude | 0x8000);
    }
    check(as, bs, progress, Which::b_up_to_a, static_cast<std::int64_t>(as.size() * (as.size() + 1)));
  }
};

INSTANTIATE_TEST_SUITE_P(Epsilon, ExhaustivePairs, ::testing::ValuesIn(pair_epsilons));

// Strides prime to one another and to 2, so that signs, exponents and fractions of all kinds meet.
TEST_P(ExhaustivePairs, OfF16SpreadEvenly) { check(every(101), every(97), false, Which::all, 649 * 676); }

TEST(Exhaustive, PairsOfF16CloseTogether) {
  for (Bits at : {0x0000U, 0x03F0U, 0x3BF0U, 0x7BF0U, 0x8000U, 0xBC00U}) {
    std::vector<Bits> near;
    for (Bits i = at; i < at + 48; ++i) near.push_back(i);
    for (const double epsilon : pair_epsilons) {
      const Sweep done = sweep(near, near, epsilon);
      EXPECT_EQ(done.pairs, 48 * 48);
    }
  }
}

TEST_P(ExhaustivePairs, DISABLED_OfF16All) { check(every(1), every(1), true, Which::all, std::int64_t{1} << 32); }
TEST_P(ExhaustivePairs, DISABLED_OfF16AQuarter) { check_quarter(1, true); }
TEST_P(ExhaustivePairs, OfF16ASliceOfTheQuarter) { check_quarter(127, false); }

// The symmetries themselves, on a slice of all pairs.
TEST(Exhaustive, SymmetriesOfPairs) {
  std::vector<Bits> some = every(509, 7);
  some.insert(some.end(), {0x0000, 0x8000, 0x0001, 0x8001, 0x7BFF, 0x7C00, 0xFC00});
  std::int64_t checked = 0;
  for (const double epsilon : pair_epsilons) {
    const auto pair = [&](Bits a, Bits b) {
      testing::Call call{testing::spec_of(Op::layer_norm, epsilon), {}};
      call.inputs[Role::x] = testing::Tensor(Format::f16, {2}, {a, b});
      const testing::Tensor y = call.get(Role::y, Format::f16);
      return std::pair{y.bits(0), y.bits(1)};
    };
    for (const Bits a : some) {
      for (const Bits b : some) {
        const auto [ya, yb] = pair(a, b);
        ASSERT_EQ(pair(b, a), (std::pair{yb, ya})) << testing::hex(a) << " " << testing::hex(b);
        const bool keeps = ya == 0x7E00 || a == b;  // NaN has one pattern here
        const auto negated = [&](Bits y) { return keeps ? y : y ^ 0x8000; };
        ASSERT_EQ(pair(a ^ 0x8000, b ^ 0x8000), (std::pair{negated(ya), negated(yb)})) << testing::hex(a) << " " << testing::hex(b);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 60'000);
}

}  // namespace
}  // namespace norma
