// Zeros of either sign, infinities and NaNs in every place of a call and in all combinations: the signs, infinities and NaNs of IEEE 754,
// as the reference has them.
#include "kinds.h"
#include "values.h"

namespace norma::simd {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> elements_tried{0.0, -0.0, 1, -1, inf, nan};
const std::vector<std::optional<double>> gammas{std::nullopt, 0.0, -0.0, 1, -1, inf, nan};
const std::vector<std::optional<double>> betas{std::nullopt, 0.0, -0.0, 1, -inf};

// Every group of three of the values, or so many of them in turn.
std::vector<std::vector<double>> all_groups(std::size_t repeat) {
  std::vector<std::vector<double>> all;
  for (const double a : elements_tried) {
    for (const double b : elements_tried) {
      for (const double c : elements_tried) {
        std::vector<double>& group = all.emplace_back();
        for (std::size_t i = 0; i < repeat; ++i) group.insert(group.end(), {a, b, c});
      }
    }
  }
  return all;
}

// A call on these groups: rows, or channels.
Trial call_on(const Kind& kind, Layout layout, const std::vector<std::vector<double>>& groups) {
  Trial t;
  Call& c = t.call;
  c.op = kind.op;
  c.format = kind.format;
  c.params = kind.params;
  c.layout = layout;
  c.cols = c.positions = groups[0].size();
  c.rows = c.channels = groups.size();
  c.cases = 1;
  c.groups = c.op == Op::group_norm ? c.channels : 1;
  std::vector<double> x(elements(c));
  std::vector<std::size_t> next(groups.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = membership(c, i).group;
    x[i] = groups[g][next[g]++];
  }
  t.fill(Role::x, x);
  return t;
}

class SimdSpecial : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SimdSpecial, ::testing::ValuesIn(kinds()), KindName());

TEST_P(SimdSpecial, InAllCombinations) {
  const Op op = GetParam().op;
  for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
    if (info(op).grouping == Grouping::trailing && layout == Layout::channels_last) continue;
    for (const std::size_t repeat : {1, 6}) {
      Trial t = call_on(GetParam(), layout, all_groups(repeat));
      const std::size_t count = parameters(t.call);
      std::vector<double> means(count, 0.0);
      std::vector<double> variances(count, 1);
      if (info(op).given_statistics) {
        Random random(repeat);
        for (double& mean : means) mean = random.of(elements_tried);
        for (double& variance : variances) variance = random.of(elements_tried);
        t.fill(Role::mean, means);
        t.fill(Role::variance, variances);
      }
      t.outputs.push_back(Role::rstd);
      if (info(op).outputs.contain(Role::mean)) t.outputs.push_back(Role::mean);
      for (const double epsilon : {0.0, 1.0}) {
        t.call.epsilon = epsilon;
        if (repeat > 1 && epsilon == 0) continue;
        for (const std::optional<double>& gamma : gammas) {
          for (const std::optional<double>& beta : betas) {
            t.inputs[Role::gamma].reset();
            t.inputs[Role::beta].reset();
            if (gamma) t.fill(Role::gamma, std::vector<double>(count, *gamma));
            if (beta) t.fill(Role::beta, std::vector<double>(count, *beta));
            t.call.profile.gain_offset = gamma == -1;  // 1 + -1, which is +0
            ASSERT_TRUE(equals_reference(t));
          }
        }
      }
    }
  }
}

// The same of x + residual.
TEST(SimdSpecialResidual, InAllCombinations) {
  for (const Op op : {Op::layer_norm, Op::rms_norm}) {
    for (const Format format : offered_formats) {
      Trial t = call_on({op, format, format}, Layout::channels_first, all_groups(1));
      for (const double other : elements_tried) {
        t.fill(Role::residual, std::vector<double>(elements(t.call), other));
        t.outputs = {Role::y, Role::sum, Role::rstd};
        t.call.epsilon = 1;
        ASSERT_TRUE(equals_reference(t));
      }
    }
  }
}

TEST(SimdSpecialRunning, InAllCombinations) {
  for (const Format format : offered_formats) {
    for (const Format statistics : {format, Format::f32}) {
      for (const std::size_t n : {1, 2, 3}) {
        std::vector<std::vector<double>> groups = all_groups(1);
        for (std::vector<double>& group : groups) group.resize(n);
        Trial t = call_on({Op::batch_norm_training, format, format}, Layout::channels_first, groups);
        t.call.statistics = statistics;
        t.call.epsilon = 1e-5;
        t.outputs = {Role::y, Role::running_mean, Role::running_variance};
        Random random(n);
        std::vector<double> old(groups.size());
        for (const double momentum : {0.0, 0.25, 1.0}) {
          for (const Momentum weight : {Momentum::weight_of_new, Momentum::weight_of_old}) {
            for (const Estimator estimator : {Estimator::unbiased, Estimator::biased}) {
              if (n == 1 && estimator == Estimator::unbiased) continue;  // refused
              t.call.momentum = momentum;
              t.call.profile.momentum = weight;
              t.call.profile.running_variance = estimator;
              for (const Role role : {Role::running_mean, Role::running_variance}) {
                for (double& v : old) v = random.of(elements_tried);
                t.fill(role, old);
              }
              ASSERT_TRUE(equals_reference(t));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace norma::simd
