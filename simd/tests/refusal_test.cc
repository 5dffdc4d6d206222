// Every call that makes no sense, the code it is refused with and a word of the one line that says why; and no refused call has touched
// an output.
#include <set>

#include "values.h"

namespace norma::simd {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t huge = std::size_t{1} << 62;

// A valid call on memory of its own, to be spoilt.
struct Attempt {
  std::vector<std::byte> in = std::vector<std::byte>(1 << 14, std::byte{0});
  std::vector<std::byte> out = std::vector<std::byte>(1 << 14, Slab::canary);
  Call call;

  explicit Attempt(Op op) {
    call.op = op;
    call.epsilon = 1e-5;
    call.rows = 3, call.cols = 5;
    call.cases = 2, call.channels = 6, call.positions = 4;
    call.groups = op == Op::group_norm ? 3 : 1;
    call.x = input(0);
    call.gamma = input(1);
    call.beta = input(2);
    if (by_row(call)) call.residual = input(3), call.sum = output(1);
    if (info(op).given_statistics) call.mean_in = input(4), call.variance_in = input(5);
    call.y = output(0);
    if (info(op).outputs.contain(Role::mean)) call.mean = output(2);
    call.rstd = output(3);
    if (op == Op::batch_norm_training) call.running_mean = output(4), call.running_variance = output(5);
  }
  [[nodiscard]] const std::byte* input(std::size_t i) const { return in.data() + 1024 * i; }
  [[nodiscard]] std::byte* output(std::size_t i) { return out.data() + 1024 * i; }
};

struct Refusal {
  const char* what;
  Code code;
  const char* word;
  std::vector<Op> ops;
  void (*spoil)(Attempt&);
};

const std::vector<Op> every(std::begin(offered_ops), std::end(offered_ops));
const std::vector<Op> by_rows{Op::layer_norm, Op::rms_norm};
const std::vector<Op> by_channels{Op::batch_norm_training, Op::batch_norm_inference, Op::group_norm, Op::instance_norm};

const Refusal refusals[] = {
    {"no x", Code::bad_tensor, "x: ", every, [](Attempt& a) { a.call.x = nullptr; }},
    {"no y", Code::bad_tensor, "y: ", every, [](Attempt& a) { a.call.y = nullptr; }},
    {"no mean", Code::bad_tensor, "mean", {Op::batch_norm_inference}, [](Attempt& a) { a.call.mean_in = nullptr; }},
    {"no variance", Code::bad_tensor, "variance", {Op::batch_norm_inference}, [](Attempt& a) { a.call.variance_in = nullptr; }},
    {"a mean it computes itself",
     Code::bad_tensor,
     "mean_in",
     {Op::layer_norm, Op::batch_norm_training, Op::group_norm},
     [](Attempt& a) { a.call.mean_in = a.input(4); }},
    {"a variance it computes itself",
     Code::bad_tensor,
     "variance_in",
     {Op::rms_norm, Op::instance_norm},
     [](Attempt& a) { a.call.variance_in = a.input(4); }},
    {"the mean of what has none",
     Code::bad_tensor,
     "mean",
     {Op::rms_norm, Op::batch_norm_inference},
     [](Attempt& a) { a.call.mean = a.output(2); }},
    {"a residual", Code::bad_tensor, "residual", by_channels, [](Attempt& a) { a.call.residual = a.input(3); }},
    {"a sum of nothing", Code::bad_tensor, "sum", every, [](Attempt& a) { a.call.residual = nullptr, a.call.sum = a.output(1); }},
    {"sum and y in one place", Code::bad_tensor, "sum", by_rows, [](Attempt& a) { a.call.sum = a.call.y; }},
    {"running statistics",
     Code::bad_tensor,
     "running_mean",
     {Op::layer_norm, Op::batch_norm_inference, Op::group_norm},
     [](Attempt& a) { a.call.running_mean = a.output(4); }},
    {"a running variance",
     Code::bad_tensor,
     "running_variance",
     {Op::rms_norm, Op::instance_norm},
     [](Attempt& a) { a.call.running_variance = a.output(4); }},

    {"a negative epsilon", Code::bad_epsilon, "epsilon", every, [](Attempt& a) { a.call.epsilon = -1e-5; }},
    {"an infinite epsilon", Code::bad_epsilon, "epsilon", every, [](Attempt& a) { a.call.epsilon = inf; }},
    {"an epsilon that is NaN, as it is unless given", Code::bad_epsilon, "epsilon", every, [](Attempt& a) { a.call.epsilon = nan; }},
    {"a momentum above 1", Code::bad_momentum, "momentum", every, [](Attempt& a) { a.call.momentum = 1.5; }},
    {"a negative momentum", Code::bad_momentum, "momentum", every, [](Attempt& a) { a.call.momentum = -0.1; }},
    {"a momentum that is NaN", Code::bad_momentum, "momentum", every, [](Attempt& a) { a.call.momentum = nan; }},

    {"weight norm", Code::bad_parameter, "op", every, [](Attempt& a) { a.call.op = Op::weight_norm; }},
    {"an op there is not", Code::bad_parameter, "op", every, [](Attempt& a) { a.call.op = static_cast<Op>(99); }},
    {"an accuracy there is not", Code::bad_parameter, "accuracy", every, [](Attempt& a) { a.call.accuracy = static_cast<Accuracy>(7); }},
    {"a layout there is not", Code::bad_parameter, "layout", by_channels, [](Attempt& a) { a.call.layout = static_cast<Layout>(7); }},
    {"fp8", Code::bad_parameter, "format", every, [](Attempt& a) { a.call.format = Format::f8_e4m3; }},
    {"fp8 throughout", Code::bad_parameter, "format", every,
     [](Attempt& a) { a.call.format = a.call.params = a.call.statistics = Format::f8_e5m2; }},
    {"a format there is not", Code::bad_parameter, "format", every, [](Attempt& a) { a.call.format = static_cast<Format>(77); }},
    {"parameters in a third format", Code::bad_parameter, "params", every, [](Attempt& a) { a.call.params = Format::f16; }},
    {"parameters in f64", Code::bad_parameter, "params", every,
     [](Attempt& a) { a.call.format = Format::bf16, a.call.params = Format::f64; }},
    {"statistics in a third format", Code::bad_parameter, "statistics", every, [](Attempt& a) { a.call.statistics = Format::bf16; }},
    {"epsilon outside the root", Code::bad_parameter, "profile", every,
     [](Attempt& a) { a.call.profile.epsilon_placement = EpsilonPlacement::outside; }},
    {"an unbiased variance", Code::bad_parameter, "profile", every, [](Attempt& a) { a.call.profile.variance = Estimator::unbiased; }},
    {"a momentum there is not", Code::bad_parameter, "momentum", every,
     [](Attempt& a) { a.call.profile.momentum = static_cast<Momentum>(7); }},
    {"an estimator there is not", Code::bad_parameter, "running variance", every,
     [](Attempt& a) { a.call.profile.running_variance = static_cast<Estimator>(7); }},
    {"a cast before the gain", Code::bad_parameter, "profile", every, [](Attempt& a) { a.call.profile.cast_before_gain = true; }},
    {"an exact residual sum", Code::bad_parameter, "profile", by_rows,
     [](Attempt& a) { a.call.profile.residual_sum = ResidualSum::exact; }},

    {"no groups", Code::bad_groups, "groups", {Op::group_norm}, [](Attempt& a) { a.call.groups = 0; }},
    {"groups that do not divide", Code::bad_groups, "groups", {Op::group_norm}, [](Attempt& a) { a.call.groups = 4; }},
    {"more groups than channels", Code::bad_groups, "groups", {Op::group_norm}, [](Attempt& a) { a.call.groups = 12; }},

    {"too large a row", Code::bad_shape, "cols", by_rows, [](Attempt& a) { a.call.rows = 1, a.call.cols = largest_group + 1; }},
    {"more rows than memory", Code::bad_shape, "rows", by_rows, [](Attempt& a) { a.call.rows = huge, a.call.cols = 16; }},
    {"a product that wraps to nothing", Code::bad_shape, "rows", by_rows, [](Attempt& a) { a.call.rows = huge, a.call.cols = 4; }},
    {"too large a channel",
     Code::bad_shape,
     "group",
     {Op::batch_norm_training, Op::instance_norm, Op::group_norm},
     [](Attempt& a) { a.call.positions = largest_group + 1; }},
    {"too many cases of a channel",
     Code::bad_shape,
     "group",
     {Op::batch_norm_training},
     [](Attempt& a) { a.call.cases = largest_group / 2, a.call.positions = 3, a.call.channels = 1; }},
    {"channels that make too large a group",
     Code::bad_shape,
     "group",
     {Op::group_norm},
     [](Attempt& a) { a.call.channels = 6 << 20, a.call.groups = 1, a.call.positions = 1 << 12; }},
    {"more elements than memory", Code::bad_shape, "cases x channels x positions", by_channels,
     [](Attempt& a) { a.call.cases = 1 << 22, a.call.channels = huge >> 20, a.call.groups = 1; }},
    {"a product of three that wraps to nothing", Code::bad_shape, "cases x channels x positions", by_channels,
     [](Attempt& a) {
       a.call.cases = std::size_t{1} << 22, a.call.channels = std::size_t{1} << 22, a.call.positions = std::size_t{1} << 20,
       a.call.groups = 1;
     }},

    {"an unbiased running variance of a single value",
     Code::bad_shape,
     "running",
     {Op::batch_norm_training},
     [](Attempt& a) { a.call.cases = a.call.positions = 1; }},

    {"rows of y that overlap", Code::bad_stride, "y_stride", every, [](Attempt& a) { a.call.y_stride = 4, a.call.positions = 1; }},
    {"rows of y that overlap backwards", Code::bad_stride, "y_stride", every,
     [](Attempt& a) { a.call.y_stride = -4, a.call.positions = 1; }},
    {"rows of the sum that overlap", Code::bad_stride, "sum_stride", by_rows, [](Attempt& a) { a.call.sum_stride = 1; }},
    {"a stride beyond memory", Code::bad_stride, "x_stride", every,
     [](Attempt& a) { a.call.x_stride = static_cast<std::ptrdiff_t>(huge); }},
    {"y on x with another stride", Code::bad_stride, "in place", every,
     [](Attempt& a) { a.call.y = const_cast<void*>(a.call.x = a.output(0)), a.call.y_stride = 40; }},
};

TEST(SimdRefusals, EachIsOneLineAndTouchesNothing) {
  std::set<const char*> seen;
  for (const Refusal& refusal : refusals) {
    for (const Op op : refusal.ops) {
      SCOPED_TRACE(std::string(refusal.what) + ", " + std::string(info(op).name));
      Attempt valid(op);
      {
        const Status status = normalize(valid.call);
        ASSERT_TRUE(status.ok()) << "unspoilt, but " << status.message;
      }
      for (const Accuracy accuracy : {Accuracy::correctly_rounded, Accuracy::fast}) {
        Attempt a(op);
        a.call.accuracy = accuracy;
        Counters counters;
        a.call.counters = &counters;
        refusal.spoil(a);
        const Status status = normalize(a.call);
        EXPECT_EQ(static_cast<int>(status.code), static_cast<int>(refusal.code)) << status.message;
        EXPECT_NE(status.message.find(refusal.word), std::string::npos) << status.message;
        EXPECT_FALSE(status.message.empty());
        EXPECT_EQ(status.message.find('\n'), std::string::npos) << status.message;
        EXPECT_TRUE(std::all_of(a.out.begin(), a.out.end(), [](std::byte b) { return b == Slab::canary; })) << "an output was touched";
        EXPECT_EQ(counters.vector + counters.double_double + counters.exact, 0U);
      }
      seen.insert(refusal.what);
    }
  }
  EXPECT_EQ(seen.size(), std::size(refusals));
}

// What looks strange and is fine.
TEST(SimdRefusals, NotWhatMakesSense) {
  struct Fine {
    const char* what;
    std::vector<Op> ops;
    void (*change)(Attempt&);
  };
  const Fine calls[] = {
      {"epsilon 0", every, [](Attempt& a) { a.call.epsilon = 0; }},
      {"the largest epsilon", every, [](Attempt& a) { a.call.epsilon = std::numeric_limits<double>::max(); }},
      {"windows on a signal", every, [](Attempt& a) { a.call.x_stride = 1; }},
      {"one row again and again, spelt as a stride of its own", by_rows, [](Attempt& a) { a.call.rows = 1, a.call.y_stride = 1; }},
      {"a profile of running statistics where there are none", by_rows,
       [](Attempt& a) { a.call.profile.running_variance = Estimator::biased, a.call.profile.momentum = Momentum::weight_of_old; }},
      {"gain offset without a gain", every, [](Attempt& a) { a.call.profile.gain_offset = true, a.call.gamma = nullptr; }},
  };
  for (const Fine& fine : calls) {
    for (const Op op : fine.ops) {
      Attempt a(op);
      fine.change(a);
      const Status status = normalize(a.call);
      EXPECT_TRUE(status.ok()) << fine.what << ", " << info(op).name << ": " << status.message;
    }
  }
}

}  // namespace
}  // namespace norma::simd
