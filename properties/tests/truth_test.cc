// Bounds hold of plain loops, whatever the numbers, and are not idle: an error a little larger is seen.
#include "norma/truth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "direct.h"
#include "norma/generate.h"
#include "scale.h"

namespace norma::properties {
namespace {

// layer_norm in float, loop by loop.
Tensor plain(const Case& c) {
  Tensor y = tensor_of(Role::y, c.format, c.x().shape);
  const std::int64_t rows = c.x().shape[0], n = c.elements() / std::max<std::int64_t>(1, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto x = [&](std::int64_t i) { return static_cast<float>(value_at(c.x(), r * n + i)); };
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += x(i);
    const float mean = sum / static_cast<float>(n);
    float squares = 0;
    for (std::int64_t i = 0; i < n; ++i) squares += (x(i) - mean) * (x(i) - mean);
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(n) + static_cast<float>(c.spec.effective_epsilon()));
    for (std::int64_t i = 0; i < n; ++i) {
      float v = (x(i) - mean) * rstd;
      if (c.inputs[Role::gamma]) v *= static_cast<float>(value_at(*c.inputs[Role::gamma], i));
      if (c.inputs[Role::beta]) v += static_cast<float>(value_at(*c.inputs[Role::beta], i));
      set_bits(y, r * n + i, nearest_bits(c.format, v));
    }
  }
  return y;
}

TEST(Truth, BoundsHoldOfAPlainLoop) {
  double worst = 0;
  std::int64_t seen = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(testing::scaled(20'000)); ++i) {
    const Case c =
        generate({.ops = {Op::layer_norm}, .formats = {Format::f32, Format::f16, Format::bf16}, .tame = true, .plain_profile = true}, 1, i)
            .value();
    ByRole<Tensor> got;
    got[Role::y] = plain(c);
    const Result<Truth> truth = truth_of(c, {}, &got);
    ASSERT_TRUE(truth.ok());
    for (std::size_t k = 0; k < truth->y().size(); ++k) {
      const Element& e = truth->y()[k];
      if (e.range || bits_at(*got[Role::y], static_cast<std::int64_t>(k)) == e.rounded) continue;
      ++seen;
      worst = std::max(worst, e.distance / e.bound);
      ASSERT_LE(e.distance, e.bound * bound_slack) << "y[" << k << "] " << e.error << " ulp\n" << to_line(c);
    }
  }
  EXPECT_GT(seen, testing::scaled(100'000));
  EXPECT_GT(worst, 0.5) << "nothing comes near the bound: it says little";
  EXPECT_LE(worst, bound_slack);
}

// Of the exact value and its neighbours the correctly rounded one alone is within the bound of correctly_rounded.
TEST(Truth, CorrectlyRoundedAllowsOneValue) {
  const Arithmetic exact{.compute = {}, .accumulate = {}, .algorithm = Arithmetic::Algorithm::correctly_rounded, .bitwise = {}};
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Case c = generate({.tame = true}, 2, i).value();
    const Result<Truth> first = truth_of(c, exact);
    ASSERT_TRUE(first.ok());
    ByRole<Tensor> got;
    got[Role::y] = tensor_of(Role::y, c.format, c.x().shape);
    for (std::int64_t k = 0; k < c.elements(); ++k)
      set_bits(*got[Role::y], k, next_up(c.format, first->y()[static_cast<std::size_t>(k)].rounded));
    const Result<Truth> truth = truth_of(c, exact, &got);
    for (const Element& e : truth->y()) {
      EXPECT_TRUE(!std::isfinite(e.exact) || e.distance >= e.bound);
    }
  }
}

// An error of more units in the last place than a double can count is no small one.
TEST(Truth, ErrorsBesideAnExactZeroAreSeenWhole) {
  const Result<Case> c = parse_case("layer_norm f64 x=f64[1,2]:3ff0000000000000*2");
  ASSERT_TRUE(c.ok());
  ByRole<Tensor> got;
  got[Role::y] = tensor_of(Role::y, Format::f64, {1, 2});
  set_bits(*got[Role::y], 0, nearest_bits(Format::f64, 1.0));
  const Result<Truth> truth = truth_of(*c, {}, &got);
  ASSERT_TRUE(truth.ok());
  const Element& e = truth->y()[0];
  EXPECT_EQ(e.distance, 1.0);
  EXPECT_LT(e.bound, 1e-12);
  EXPECT_FALSE(within_bound(e, Format::f64, bits_at(*got[Role::y], 0)));
}

// The depth that was found is the least: one that a declaration can name covers everything exactly when it is as large.
TEST(Truth, DepthIsTheLeastThatCovers) {
  int covering = 0, falling_short = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(testing::scaled(200)); ++i) {
    const Case c =
        generate({.ops = {Op::layer_norm}, .formats = {Format::f32}, .tame = true, .least_n = 100, .plain_profile = true}, 4, i).value();
    ByRole<Tensor> got;
    got[Role::y] = plain(c);
    Depth depth;
    ASSERT_TRUE(truth_of(c, {}, &got, &depth).ok());
    const auto n = static_cast<double>(c.elements() / c.x().shape[0]);
    EXPECT_LE(depth.least, n - 1) << to_line(c);
    EXPECT_EQ(depth.least == 0, depth.element < 0);
    for (std::int64_t lanes = 1; lanes <= 64; lanes *= 2) {
      const Arithmetic declared{.compute = {}, .accumulate = {}, .depth = Arithmetic::Depth::lanes, .lanes = lanes, .bitwise = {}};
      const double c_of_lanes = std::ceil(n / static_cast<double>(lanes)) + std::ceil(std::log2(static_cast<double>(lanes))) + 1;
      const Result<Truth> truth = truth_of(c, declared, &got);
      bool covered = true;
      for (std::size_t k = 0; k < truth->y().size(); ++k) {
        const Element& e = truth->y()[k];
        covered = covered && (e.range || within_bound(e, c.format, bits_at(*got[Role::y], static_cast<std::int64_t>(k))));
      }
      ASSERT_EQ(covered, c_of_lanes >= depth.least) << "depth " << depth.least << ", declared " << c_of_lanes << "\n" << to_line(c);
      ++(covered ? covering : falling_short);
    }
    // What is known already is not found again, and where no c helps, that is said.
    Depth known = depth;
    ASSERT_TRUE(truth_of(c, {}, &got, &known).ok());
    EXPECT_EQ(known.least, depth.least);
    for (std::int64_t k = 0; k < c.elements(); ++k) set_bits(*got[Role::y], k, info(c.format).quiet_nan());
    ASSERT_TRUE(truth_of(c, {}, &got, &known).ok());
    EXPECT_TRUE(std::isinf(known.least)) << to_line(c);
  }
  EXPECT_GT(covering, testing::scaled(500));
  EXPECT_GT(falling_short, testing::scaled(50));
}

TEST(Truth, StatisticsAreBoundedToo) {
  Direct reference(reference_with("reference", [](Spec&) {}));
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Case c = generate({.tame = true, .statistics = true}, 3, i).value();
    const Reply reply = reference.run(c);
    ASSERT_EQ(reply.kind, Reply::Kind::ok) << reply.what;
    const Result<Truth> truth = truth_of(c, {}, &reply.outputs);
    ASSERT_TRUE(truth.ok());
    for (const Role role : {Role::mean, Role::rstd, Role::running_mean, Role::running_variance}) {
      if (!reply.outputs[role]) continue;
      for (const Element& e : *truth->outputs[role]) EXPECT_LE(e.error, 0.5 + 1e-9) << name(role) << "\n" << to_line(c);
    }
  }
}

// Of one op another arithmetic than of the others; what is said of it reads back.
TEST(Truth, ArithmeticMayDependOnTheOp) {
  const Result<Arithmetic> a = parse_arithmetic("compute=x algorithm=welford batch_norm_training:algorithm=two_pass");
  ASSERT_TRUE(a.ok()) << a.status().message;
  EXPECT_EQ(a->of(Op::layer_norm).algorithm, Arithmetic::Algorithm::welford);
  EXPECT_EQ(a->of(Op::batch_norm_training).algorithm, Arithmetic::Algorithm::two_pass);
  EXPECT_TRUE(a->of(Op::batch_norm_training).compute_x);
  EXPECT_EQ(to_words(*parse_arithmetic(to_words(*a))), to_words(*a));
  for (const std::string words : {"batch_norm:depth=n-1", "layer_norm:bitwise=alignment", "layer_norm:depth=n", "compute=y",
                                  "bitwise=aligment", "bitwise=mean_zero", "bitwise=alignment,"}) {
    EXPECT_FALSE(parse_arithmetic(words).ok()) << words;
  }
}

// Groups without elements have statistics, which are none.
TEST(Truth, OfEmptyGroups) {
  for (const char* line :
       {"batch_norm_training f32 x=f32[0,3]:", "batch_norm_training f32 x=f32[2,3,0]: want=mean,y,rstd",
        "layer_norm f32 x=f32[3,0]: want=mean,y,rstd", "group_norm f32 x=f32[2,4,0]: groups=2", "instance_norm f32 x=f32[2,4,0]:"}) {
    const Result<Truth> truth = truth_of(*parse_case(line), {});
    ASSERT_TRUE(truth.ok()) << line;
    EXPECT_TRUE(truth->y().empty());
    for (const Element& e : *truth->outputs[Role::mean]) EXPECT_TRUE(std::isnan(e.exact)) << line;
  }
}

// Nothing is to be taken in, so that running statistics stay to the bit.
TEST(Truth, OfRunningStatisticsOfAnEmptyBatch) {
  const Case c = *parse_case(
      "batch_norm_training f32 x=f32[0,2]: running_mean=f32[2]:3f000000,bf800000 running_variance=f32[2]:40000000,40400000 "
      "want=running_mean,running_variance,y");
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    for (const bool changed : {false, true}) {
      ByRole<Tensor> got;
      got[role] = *c.inputs[role];
      if (changed) set_bits(*got[role], 1, bits_at(*got[role], 1) + 1);
      const Result<Truth> truth = truth_of(c, {}, &got);
      ASSERT_TRUE(truth.ok()) << truth.status().message;
      EXPECT_EQ(within_bound((*truth->outputs[role])[1], Format::f32, bits_at(*got[role], 1)), !changed) << name(role);
    }
  }
}

// Many multiply γ by rstd first, and of a subnormal product few bits are left. An infinite root is no matter of range.
TEST(Truth, AGainThatUnderflowsTimesRstdIsOutOfRange) {
  const auto ranged = [](const char* x, const char* gamma) {
    const Case c = *parse_case("rms_norm f32 x=f32[1,2]:" + std::string(x) + " gamma=f32[2]:3f800000," + gamma + " epsilon=0x1p-20");
    const Result<Truth> truth = truth_of(c, {});
    EXPECT_FALSE(truth->y()[0].range);
    return truth->y()[1].range;
  };
  EXPECT_TRUE(ranged("53800000,53800000", "00800000"));   // 2^40, and the least normal number
  EXPECT_FALSE(ranged("3f800000,3f800000", "01000000"));  // 1
  EXPECT_TRUE(ranged("40800000,40800000", "01000000"));   // 4
  EXPECT_FALSE(ranged("40800000,40800000", "00000000"));
  EXPECT_FALSE(ranged("7f800000,40800000", "00800000"));
}

// An infinity makes rstd 0, and what is finite beside it β to the bit.
TEST(Truth, OfRowsWithAnInfinityIsExact) {
  const Case c = *parse_case("rms_norm f32 x=f32[1,2]:7f800000,40800000 beta=f32[2]:3f800000,3dcccccd want=rstd,y");
  const Result<Truth> truth = truth_of(c, {});
  ASSERT_TRUE(truth.ok()) << truth.status().message;
  // Half a unit in the last place.
  EXPECT_EQ(truth->y()[1].bound, 0x1p-28);
  EXPECT_EQ((*truth->outputs[Role::rstd])[0].exact, 0);
  EXPECT_EQ((*truth->outputs[Role::rstd])[0].bound, 0x1p-150);
}

// Computing in the format of x costs more of f16 than f32 does, and nothing of f32.
TEST(Truth, ComputingInTheFormatOfX) {
  const Arithmetic in_x = *parse_arithmetic("compute=x");
  for (const auto& [line, wider] : {std::pair{"layer_norm f16 x=f16[1,3]:3c00,4000,4200", true},
                                    std::pair{"layer_norm f32 x=f32[1,3]:3f800000,40000000,40400000", false}}) {
    const Case c = *parse_case(line);
    const double bound = truth_of(c, in_x)->y()[0].bound, usual = truth_of(c, {})->y()[0].bound;
    EXPECT_EQ(bound > 2 * usual, wider) << line;
    EXPECT_GE(bound, usual) << line;
  }
}

// Welford's update of equal elements is exact, whatever their size, unless they are rounded when they are read. A sum of them is not.
TEST(Truth, WelfordLeavesAFlatGroupExact) {
  const Arithmetic welford = *parse_arithmetic("algorithm=welford"), narrow = *parse_arithmetic("algorithm=welford compute=f16");
  const Case flat = *parse_case("layer_norm f32 x=f32[1,1000]:4b7fffff*1000");
  EXPECT_LT(truth_of(flat, welford)->y()[0].bound, 1e-30);
  EXPECT_GT(truth_of(flat, {})->y()[0].bound, 0.9);
  EXPECT_GT(truth_of(flat, narrow)->y()[0].bound, 0.9);
  const Case uneven = *parse_case("layer_norm f32 x=f32[1,1000]:4b7fffff*999,4b7ffffe");
  EXPECT_GT(truth_of(uneven, welford)->y()[0].bound, 0.9);
}

}  // namespace
}  // namespace norma::properties
