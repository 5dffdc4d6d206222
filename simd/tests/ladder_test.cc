// Every rung of the ladder is reached, which the counters say, and gives the same bits: values as near to a midpoint as doubles allow, and
// on it.
#include "ladder.h"

#include <bit>

#include "kinds.h"
#include "near.h"

namespace norma::simd {
namespace {

// equals_reference, and what the rungs settled, summed over the targets.
::testing::AssertionResult counted(Trial& t, Counters& counters) {
  t.call.counters = &counters;
  const Counters before = counters;
  ::testing::AssertionResult result = equals_reference(t);
  t.call.counters = nullptr;
  const std::uint64_t all = counters.vector + counters.double_double + counters.exact - before.vector - before.double_double - before.exact;
  if (result && all != elements(t.call) * usable_targets().size()) {
    return ::testing::AssertionFailure() << all << " elements were counted instead of " << elements(t.call) * usable_targets().size()
                                         << "\n"
                                         << text(t);
  }
  return result;
}

class SimdLadder : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SimdLadder, ::testing::ValuesIn(kinds()), KindName());

std::vector<std::int64_t> small_integers(Random& random) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(random.between(2, 40)));
  for (std::int64_t& v : values) v = random.between(-15, 15);
  return values;
}

TEST_P(SimdLadder, NearMidpoints) {
  const auto [op, format, params] = GetParam();
  const int p = info(format).precision;
  Random random(20260212);
  Counters counters;
  double nearest = 0;
  for (int nearness = 1; nearness <= p + 1; ++nearness) {
    for (std::int64_t trial = 0; trial < testing::scaled(20); ++trial) {
      Integers g = integers(op, format, small_integers(random), random.one_in(2) ? 1 : 5);
      g.trial.call.epsilon = epsilon_near_midpoint(g, format, nearness);
      if (g.trial.call.epsilon == 0) continue;
      if (random.one_in(2)) g.trial.inputs[Role::gamma] = filled(random, g.trial.call, Role::gamma, families::powers);
      if (random.one_in(2)) g.trial.inputs[Role::beta] = filled(random, g.trial.call, Role::beta, families::signed_zeros);
      const double distance = distance_from_midpoint(g.trial, 0);
      ASSERT_LT(distance, -50) << "the construction fails: " << text(g.trial);
      nearest = std::min(nearest, distance);
      g.trial.note = "2^" + std::to_string(distance) + " from a midpoint";
      ASSERT_TRUE(counted(g.trial, counters));
    }
  }
  std::cout << "nearest 2^" << nearest << "; vector " << counters.vector << ", double-double " << counters.double_double << ", exact "
            << counters.exact << "\n";
  EXPECT_LT(nearest, -60);
  EXPECT_GT(counters.vector, 0U);
  EXPECT_GT(format == Format::f64 ? counters.exact : counters.double_double, 0U);  // the vectors of f64 are of double-doubles already
}

// x = 0 leaves the bias alone, and that may lie halfway between two values.
TEST(SimdLadder, BiasHalfwayBetweenTwoValues) {
  constexpr std::size_t n = 100;
  const std::vector<std::uint16_t> x(n);
  std::vector<float> beta(n);
  for (std::size_t i = 0; i < n; ++i) beta[i] = std::bit_cast<float>(0x48de8000U + static_cast<std::uint32_t>(i << 16));
  Call call;
  call.op = Op::rms_norm;
  call.format = Format::bf16;
  call.rows = 1;
  call.cols = n;
  call.epsilon = 1;
  call.x = x.data();
  call.beta = beta.data();
  for (const std::int64_t target : usable_targets()) {
    const OnTarget scope(target);
    std::vector<std::uint16_t> y(n);
    call.y = y.data();
    ASSERT_TRUE(normalize(call).ok());
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t even = (0x48de + i + 1) / 2 * 2;  // of the two neighbours
      ASSERT_EQ(y[i], even) << hwy::TargetName(target) << " at " << i;
    }
  }
}

// Near enough that double-double leaves it open, and yet no tie: f32 gets there by luck, so try often.
TEST(SimdLadder, ExactWithoutATie) {
  for (const Op op : {Op::layer_norm, Op::rms_norm, Op::group_norm}) {
    Random random(20260213);
    Counters counters;
    int tried = 0;
    for (std::int64_t trial = 0; trial < testing::scaled(20'000); ++trial) {
      Integers g = integers(op, Format::f32, small_integers(random));
      g.trial.call.epsilon = epsilon_near_midpoint(g, Format::f32, 25);
      if (g.trial.call.epsilon == 0) continue;
      const double distance = distance_from_midpoint(g.trial, 0);
      if (distance > -88 || std::isinf(distance)) continue;
      g.trial.note = "2^" + std::to_string(distance) + " from a midpoint";
      ASSERT_TRUE(counted(g.trial, counters));
      ++tried;
    }
    std::cout << tried << " tried; exact " << counters.exact << "\n";
    EXPECT_GE(tried, testing::scaled(20'000) / 5000);
    EXPECT_GT(counters.exact, 0U);
  }
}

// v + ε = r² with r a power of two makes x̂ = d/r a value of the format, and γ = T/x̂ puts y on T, an odd number of one bit too many; a β of
// an even number of the same units leaves it there.
TEST_P(SimdLadder, Ties) {
  const auto [op, format, params] = GetParam();
  const int p = info(format).precision;
  Random random(20260214);
  Counters counters;
  int ties = 0;
  for (std::int64_t trial = 0; trial < testing::scaled(100); ++trial) {
    std::vector<std::int64_t> values(std::size_t{1} << random.between(1, 5));
    for (std::int64_t& v : values) v = random.between(-9, 9);
    Integers g = integers(op, format, values, random.one_in(2) ? 1 : 5);
    Trial& t = g.trial;
    if (g.d == 0) continue;
    const double variance = static_cast<double>(g.variance) / static_cast<double>(g.n * g.n);
    double r = 1;
    while (r * r < variance) r *= 2;
    t.call.epsilon = r * r - variance;
    std::int64_t odd = std::abs(g.d);
    while (odd % 2 == 0) odd /= 2;
    if (odd < 3) continue;
    // g·odd has p + 1 bits.
    const auto low = static_cast<std::int64_t>((std::uint64_t{1} << p) / static_cast<std::uint64_t>(odd)) + 1;
    const auto high = static_cast<std::int64_t>(((std::uint64_t{2} << p) - 1) / static_cast<std::uint64_t>(odd));
    if (high <= low) continue;
    const double gain = static_cast<double>(random.between(low, high) | 1);
    if (testing::value(format, testing::nearest(format, gain)) != gain) continue;  // the last odd number may be one too many
    Tensor gamma = filled(random, t.call, Role::gamma, families::ones);
    const double down = std::ldexp(1.0, -p - 2);  // to where f16 has room
    gamma.set(0, testing::nearest(format, gain * down));
    t.inputs[Role::gamma] = gamma;
    const double distance = distance_from_midpoint(t, 0);
    if (!std::isinf(distance)) continue;  // T was even, or of p + 2 bits
    ++ties;
    t.note = "a tie";
    ASSERT_TRUE(counted(t, counters));
    // x̂ = d/n/r; a unit of T is the last bit of γ·x̂.
    const double product = gain * down * static_cast<double>(g.d) / static_cast<double>(g.n) / r;
    const double unit = std::ldexp(1.0, std::ilogb(product) - p);
    t.inputs[Role::beta] = filled(random, t.call, Role::beta, families::signed_zeros);
    t.inputs[Role::beta]->set(0, testing::nearest(format, 2 * static_cast<double>(random.between(-60, 60)) * unit));
    t.note = "a tie with a bias";
    ASSERT_TRUE(counted(t, counters));
  }
  std::cout << ties << " ties; vector " << counters.vector << ", double-double " << counters.double_double << ", exact " << counters.exact
            << "\n";
  EXPECT_GT(ties, testing::scaled(100) / 10);
  EXPECT_GT(counters.exact, 0U);
}

// Halfway between the largest value and what would be the next, and just below; halfway between subnormals, and between zero and the least.
TEST_P(SimdLadder, TiesAtBothEnds) {
  const Op op = GetParam().op;
  const Format format = GetParam().format;
  const testing::Layout f = testing::layout(format);
  const int p = info(format).precision;
  const std::int64_t odd = format == Format::f32 ? 31 : format == Format::bf16 ? 7 : 3;  // a divisor of 2^(p+1) - 1
  Integers g = integers(op, format, {odd, -odd, 0, 0, 0, 0, 0, 0}, 5);
  Trial& t = g.trial;
  if (info(op).given_statistics) {
    t.fill(Role::mean, {0});
    t.fill(Role::variance, {2});
    g.d = odd, g.n = 1, g.variance = 2;
  }
  const double variance = static_cast<double>(g.variance) / static_cast<double>(g.n * g.n);
  double r = 1;
  while (r * r < variance) r *= 2;
  const double tie = r * r - variance;
  Counters counters;
  const auto check = [&](double gain, const char* what) {
    ASSERT_EQ(testing::value(format, testing::nearest(format, gain)), gain) << what;
    t.inputs[Role::gamma] = Tensor(format, shape_of(t.call, Role::gamma));
    for (std::size_t i = 0; i < t.inputs[Role::gamma]->size(); ++i) t.inputs[Role::gamma]->set(i, testing::nearest(format, gain));
    t.note = what;
    for (const double epsilon : {tie, std::nextafter(tie, 0), std::nextafter(tie, 1e9), tie * (1 + 1e-9), tie * (1 - 1e-9)}) {
      t.call.epsilon = epsilon;
      ASSERT_TRUE(counted(t, counters));
    }
  };
  // y = ((2^(p+1) - 1)/odd · odd) · 2^(e - p) is halfway beyond the largest value.
  const auto quotient = static_cast<double>(((std::uint64_t{2} << p) - 1) / static_cast<std::uint64_t>(odd));
  const int top = f.greatest_exponent();
  ASSERT_NO_FATAL_FAILURE(check(std::ldexp(quotient * r, top - p), "overflow"));
  // y = odd·k·2^least/2^j: halfway between two subnormals.
  for (const int k : {1, 3, 5}) {
    const double least = std::ldexp(static_cast<double>(k), f.least_exponent());
    ASSERT_NO_FATAL_FAILURE(check(least, "subnormal"));
    ASSERT_NO_FATAL_FAILURE(check(least * r / 2, "half a subnormal"));
  }
  EXPECT_GT(counters.exact, 0U);
}

// γx̂ + β = 0 exactly, or short of it by the last bit of β.
TEST_P(SimdLadder, Cancelling) {
  const auto [op, format, params] = GetParam();
  Random random(20260215);
  Counters counters;
  for (std::int64_t trial = 0; trial < testing::scaled(50); ++trial) {
    std::vector<std::int64_t> values(std::size_t{1} << random.between(1, 5));
    for (std::int64_t& v : values) v = random.between(-9, 9);
    Integers g = integers(op, format, values);
    Trial& t = g.trial;
    const double variance = static_cast<double>(g.variance) / static_cast<double>(g.n * g.n);
    double r = 1;
    while (r * r < variance) r *= 2;
    t.call.epsilon = r * r - variance;
    t.inputs[Role::gamma] = filled(random, t.call, Role::gamma, families::powers);
    t.inputs[Role::beta] = filled(random, t.call, Role::beta, families::signed_zeros);
    const double product = (*t.inputs[Role::gamma])[0] * static_cast<double>(g.d) / static_cast<double>(g.n) / r;
    for (std::size_t i = 0; i < t.inputs[Role::beta]->size(); ++i) t.inputs[Role::beta]->set(i, testing::nearest(format, -product));
    t.note = "cancelling";
    ASSERT_TRUE(counted(t, counters));
    for (std::size_t i = 0; i < t.inputs[Role::beta]->size(); ++i) t.inputs[Role::beta]->set(i, t.inputs[Role::beta]->bits(i) ^ 1);
    ASSERT_TRUE(counted(t, counters));
  }
  EXPECT_GT(counters.double_double + counters.exact, 0U);
}

// An interval that ends on a midpoint decides if the tie is broken toward it, on either side of zero alike.
TEST(SimdLadder, AnIntervalMayEndOnATie) {
  const double error = 0x1p-80;
  for (const double sign : {1.0, -1.0}) {
    const double tie = sign * (1 + 3 * 0x1p-24);
    EXPECT_FALSE(round_within({tie, -sign * error}, error, Format::f32)) << sign;  // the tie itself rounds away from zero, to even
    EXPECT_TRUE(round_within({tie, sign * error}, error, Format::f32)) << sign;
    const auto beyond = round_within({tie, sign * 2 * error}, error, Format::f32);
    const auto before = round_within({tie, -sign * 2 * error}, error, Format::f32);
    ASSERT_TRUE(beyond && before);
    EXPECT_EQ(*beyond, *before + 1);
    EXPECT_TRUE(round_within({sign, 0}, error / 0x1p40, Format::f32)) << "a power of two is no tie";
  }
}

}  // namespace
}  // namespace norma::simd
