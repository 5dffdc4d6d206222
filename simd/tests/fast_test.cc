// `fast` keeps the bound of the header, against the exact values; what is finite stays finite; flat rows give β.
#include "kinds.h"
#include "norma/exact.h"
#include "values.h"

namespace norma::simd {
namespace {

struct Exact {
  double y = 0;  // rounded to a double, which is near enough for a bound
  double xhat = 0;
  double error = 0;  // |ŷ − y| in units of ulp(y)
  int log2 = 0;
  bool finite = false;
};

// The worst error as a part of the bound.
double worst_margin(const Trial& t, const Tensor& got, const Tensor& rounded, ::testing::AssertionResult& result) {
  const Call& c = t.call;
  const std::size_t count = got.size();
  std::vector<Exact> exact(count);
  ByRole<ConstView> in;
  ByRole<View> wanted;
  for (std::size_t r = 0; r < role_count; ++r) {
    if (t.inputs[static_cast<Role>(r)]) in[static_cast<Role>(r)] = t.inputs[static_cast<Role>(r)]->in();
  }
  Tensor y(c.format, shape_of(c));
  Tensor xhat(c.format, shape_of(c));
  wanted[Role::y] = y.out();
  wanted[Role::xhat] = xhat.out();
  const Status status = evaluate(spec_of(c), in, wanted, Mode::nearest_even, [&](Role role, std::int64_t offset, const Real& value) {
    Exact& e = exact[static_cast<std::size_t>(offset)];
    const double d = testing::value(Format::f64, round(value, Format::f64).bits);
    if (role == Role::xhat) e.xhat = d;
    if (role != Role::y) return;
    e.y = d;
    e.finite = value.finite();
    if (!value.finite()) return;
    e.error = ulp_error(value, c.format, got.bits(static_cast<std::size_t>(offset)));
    const Digits first = digits(value);
    e.log2 = first.zero() ? info(c.format).min_exponent() : first.log2();
  });
  EXPECT_TRUE(status.ok()) << status.message;
  const double u = c.format == Format::f64 ? 0x1p-53 : 0x1p-24;
  const double n = static_cast<double>(count) / static_cast<double>(std::max<std::size_t>(1, group_count(c)));
  const double depth = 39 + std::max(0.0, std::log2(n / 2048));
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (got.bits(i) == rounded.bits(i)) continue;
    const Exact& e = exact[i];
    const Membership m = membership(c, i);
    double gain = 1;
    if (t.inputs[Role::gamma]) gain = (*t.inputs[Role::gamma])[m.parameter] + (c.profile.gain_offset ? 1 : 0);
    const double ulp = std::ldexp(1.0, info(c.format).ulp_exponent(e.log2));
    double bias = 0;
    if (t.inputs[Role::beta]) bias = (*t.inputs[Role::beta])[m.parameter];
    const double bound = depth * u * std::fabs(gain) * (17 * std::fabs(e.xhat) + 5) + 3 * u * (std::fabs(e.y) + std::fabs(bias)) + ulp / 2;
    const double most = std::ldexp(1.0, info(c.format).max_exponent() + 1) - std::ldexp(ulp, -1);
    const bool may_overflow = std::isinf(got[i]) && std::signbit(got[i]) == std::signbit(e.y) && std::fabs(e.y) + bound >= most;
    const double margin = !e.finite || std::isnan(got[i]) ? std::numeric_limits<double>::infinity()
                          : may_overflow                  ? 1
                                                          : e.error * ulp / bound;
    worst = std::max(worst, margin);
    if (margin > 1 && result) {
      result = ::testing::AssertionFailure() << "y[" << i << "] is " << testing::hex(got.bits(i)) << " (" << got[i] << "), exactly about "
                                             << e.y << ", " << e.error << " ulp away, " << margin << " of the bound; x "
                                             << (*t.inputs[Role::x])[i] << " xhat " << e.xhat << " gain " << gain << "\n"
                                             << text(t);
    }
  }
  return worst;
}

class SimdFast : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SimdFast, ::testing::ValuesIn(kinds()), KindName());

std::vector<Kind> with_flat_groups() {
  std::vector<Kind> all = kinds();
  std::erase_if(all, [](const Kind& kind) { return !info(kind.op).centred || info(kind.op).given_statistics; });
  return all;
}
class SimdFastFlat : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SimdFastFlat, ::testing::ValuesIn(with_flat_groups()), KindName());

TEST_P(SimdFast, KeepsItsBound) {
  const auto [op, format, params] = GetParam();
  Random random(20260216);
  // What is promised to be computed correctly rounded is; of what is computed in f32 something is not. What is computed in f64 hardly ever
  // shows it.
  const bool rows = info(op).grouping == Grouping::trailing;
  const bool correct = info(op).given_statistics || format == Format::f64 || (!rows && format != Format::f32);
  // However little is to be run, the rows go on until they show it, as far as the whole test would.
  const std::int64_t most = 30'000;
  const std::int64_t wanted = testing::scaled(most);
  double worst = 0;
  for (std::int64_t done = 0, trial = 0; done < wanted || (rows && !correct && worst == 0 && done < most); ++trial) {
    Trial t = random_trial(random, op, format, random.one_in(2) ? format : Format::f32);
    t.call.accuracy = Accuracy::fast;
    const ByRole<Tensor> rounded = expected(t);
    for (const std::int64_t target : usable_targets()) {
      const OnTarget scope(target);
      ByRole<Tensor> got;
      ASSERT_TRUE(run(t, got));
      ::testing::AssertionResult result = ::testing::AssertionSuccess();
      worst = std::max(worst, worst_margin(t, *got[Role::y], *rounded[Role::y], result));
      ASSERT_TRUE(result) << hwy::TargetName(target) << ", trial " << trial;
    }
    done += static_cast<std::int64_t>(elements(t.call));
  }
  if (correct) {
    EXPECT_EQ(worst, 0);
  } else if (rows) {
    EXPECT_GT(worst, 0);
  }
  std::cout << "worst error: " << worst << " of the bound\n";
}

TEST_P(SimdFastFlat, GiveBeta) {
  const auto [op, format, params] = GetParam();
  Random random(20260217);
  for (std::int64_t trial = 0; trial < testing::scaled(200); ++trial) {
    Trial t = random_trial(random, op, format, format);
    t.call.accuracy = Accuracy::fast;
    t.call.epsilon = random.of(std::vector<double>{1e-12, 1e-5, 1});
    t.inputs[Role::x] = filled_by_group(random, t.call, &x_families[5]);
    t.inputs[Role::gamma] = filled(random, t.call, Role::gamma, families::finite);
    t.inputs[Role::beta].reset();
    if (random.one_in(2)) t.inputs[Role::beta] = filled(random, t.call, Role::beta, families::ordinary);
    const ByRole<Tensor> want = expected(t);  // without β a zero of the sign of γ
    t.note = "flat";
    for (const std::int64_t target : usable_targets()) {
      const OnTarget scope(target);
      ByRole<Tensor> got;
      ASSERT_TRUE(run(t, got));
      for (std::size_t i = 0; i < got[Role::y]->size(); ++i) {
        const double flat = t.inputs[Role::beta] ? (*t.inputs[Role::beta])[membership(t.call, i).parameter] : 0;
        ASSERT_EQ((*got[Role::y])[i], flat) << hwy::TargetName(target) << " " << i << "\n" << text(t);
        ASSERT_EQ(got[Role::y]->bits(i), want[Role::y]->bits(i)) << hwy::TargetName(target) << " " << i << "\n" << text(t);
      }
    }
  }
}

// An infinite gain makes infinities, or NaN where x̂ is zero, and no NaN beside them.
TEST_P(SimdFast, GainsThatAreNotFinite) {
  const auto [op, format, params] = GetParam();
  const std::vector<double> gains{1, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN(), testing::value(params, testing::layout(params).largest())};
  Random random(20261130);
  for (std::int64_t trial = 0; trial < 20; ++trial) {
    Trial t = random_trial(random, op, format, params);
    t.call.accuracy = Accuracy::fast;
    t.inputs[Role::x] = filled_by_group(random, t.call, &x_families[0]);
    t.inputs[Role::gamma] = filled(random, t.call, Role::gamma, families::ones);
    for (std::size_t k = 0; k < parameters(t.call); ++k) {
      t.inputs[Role::gamma]->set(k, testing::nearest(params, gains[(k + static_cast<std::size_t>(trial)) % gains.size()]));
    }
    t.note = "gains of all kinds";
    const ByRole<Tensor> want = expected(t);
    for (const std::int64_t target : usable_targets()) {
      const OnTarget scope(target);
      ByRole<Tensor> got;
      ASSERT_TRUE(run(t, got));
      for (std::size_t i = 0; i < got[Role::y]->size(); ++i) {
        if (std::isfinite((*want[Role::y])[i])) continue;
        ASSERT_EQ(got[Role::y]->bits(i), want[Role::y]->bits(i)) << hwy::TargetName(target) << " " << i << "\n" << text(t);
      }
    }
  }
}

// Just inside the end of a format, by a bias or by cancellation, nothing is rounded to infinity. Parameters in f32, finer than a half.
TEST_P(SimdFast, StaysInsideTheFormat) {
  const Op op = GetParam().op;
  const Format format = GetParam().format;
  const Format params = format == Format::f64 ? Format::f64 : Format::f32;
  const double most = testing::value(format, testing::layout(format).largest());
  const double beyond = most + std::ldexp(1.0, info(format).ulp_exponent(info(format).max_exponent()) - 1);  // where infinity starts
  const double xhat = 1 / std::sqrt(14.0 / 3 + 1e-5);
  struct Edge {
    std::vector<double> x;
    double gamma, beta, epsilon;
  };
  std::vector<Edge> edges{{{1, -1}, -0x1p-20, beyond, 0x1p-40},
                          {{1, -1}, -1, beyond, 0x1p-40},
                          {{1, 2, -3}, 1e13, -static_cast<double>(static_cast<float>(static_cast<double>(1e13F) * xhat)), 1e-5},
                          {{-0.4284667968750, 0.3383789062500}, 65522.2265625, 0, 1e-5}};
  // One element of 257 is 16 deviations from the mean, but for ε: γx̂ is half a unit in the last place of the largest float, but for ε.
  edges.push_back({std::vector<double>(257, 0), 0x1p99, 0x1.fffffep127, 0x1p-60});
  edges.back().x[3] = 1;
  for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
    for (const Edge& edge : edges) {
      Trial t;
      Call& c = t.call;
      c.op = op, c.format = format, c.params = params, c.layout = layout, c.accuracy = Accuracy::fast;
      c.rows = c.channels = c.cases = 1, c.cols = c.positions = edge.x.size(), c.epsilon = edge.epsilon;
      t.fill(Role::x, edge.x);
      t.fill(Role::gamma, std::vector<double>(parameters(c), edge.gamma));
      t.fill(Role::beta, std::vector<double>(parameters(c), edge.beta));
      if (info(op).given_statistics) {
        t.fill(Role::mean, {0});
        t.fill(Role::variance, {1});
      }
      const ByRole<Tensor> want = expected(t);
      for (const std::int64_t target : usable_targets()) {
        const OnTarget scope(target);
        ByRole<Tensor> got;
        ASSERT_TRUE(run(t, got));
        for (std::size_t k = 0; k < edge.x.size(); ++k) {
          EXPECT_EQ(std::isfinite((*got[Role::y])[k]), std::isfinite((*want[Role::y])[k])) << hwy::TargetName(target) << " " << k << "\n"
                                                                                           << text(t);
        }
      }
    }
  }
}

}  // namespace
}  // namespace norma::simd
