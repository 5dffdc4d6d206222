// Every call that makes no sense, the code it is refused with and a word of the sentence; and no refused call has touched an output.
#include <gtest/gtest.h>

#include <functional>

#include "testing.h"

namespace norma {
namespace {

using testing::spec_of;

// Tensors on one buffer: enough room, and every byte known.
struct Attempt {
  Spec spec;
  ByRole<ConstView> in;
  ByRole<View> out;
  std::vector<std::byte> inputs = std::vector<std::byte>(1 << 14, std::byte{0});
  std::vector<std::byte> outputs = std::vector<std::byte>(1 << 14, std::byte{0xA5});
  std::size_t next_in = 0;
  std::size_t next_out = 0;

  ConstView input(Shape shape, Format format = Format::f32) { return {format, inputs.data() + 1024 * next_in++, std::move(shape), {}}; }
  View output(Shape shape, Format format = Format::f32) { return {format, outputs.data() + 1024 * next_out++, std::move(shape), {}}; }
  void start(Op op, const Shape& x) {
    spec.op = op;
    in[Role::x] = input(x);
    out[Role::y] = output(x);
  }
};

struct Refusal {
  const char* what;
  Code code;
  const char* word;
  std::function<void(Attempt&)> build;
};

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const Refusal refusals[] = {
    {"a negative epsilon", Code::bad_epsilon, "epsilon",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.spec.epsilon = -1e-5;
     }},
    {"an infinite epsilon", Code::bad_epsilon, "inf",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.spec.epsilon = inf;
     }},
    {"an epsilon that is NaN", Code::bad_epsilon, "nan",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.spec.epsilon = nan;
     }},
    {"a momentum above 1", Code::bad_momentum, "momentum",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.spec.momentum = 1.5;
     }},
    {"a negative momentum", Code::bad_momentum, "0 to 1",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.spec.momentum = -0.1;
     }},
    {"a momentum that is NaN", Code::bad_momentum, "momentum",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.spec.momentum = nan;
     }},
    {"no x", Code::bad_tensor, "needs the input x",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::x].reset();
     }},
    {"no given variance", Code::bad_tensor, "needs the input variance",
     [](Attempt& a) {
       a.start(Op::batch_norm_inference, {2, 3}), a.in[Role::mean] = a.input({3});
     }},
    {"an input the op does not take", Code::bad_tensor, "takes no input mean",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::mean] = a.input({2});
     }},
    {"a bias for weight norm", Code::bad_tensor, "takes no input beta",
     [](Attempt& a) {
       a.start(Op::weight_norm, {2, 3}), a.in[Role::beta] = a.input({2});
     }},
    {"an output the op does not give", Code::bad_tensor, "has no output mean",
     [](Attempt& a) {
       a.start(Op::rms_norm, {2, 3}), a.out[Role::mean] = a.output({2});
     }},
    {"an input asked for as an output", Code::bad_tensor, "has no output x",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::x] = a.output({2, 3});
     }},
    {"running statistics without the old ones", Code::bad_tensor, "old value",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.out[Role::running_mean] = a.output({3});
     }},
    {"xhat cast to the format of a y that is not there", Code::bad_tensor, "cast_before_gain",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.spec.profile.cast_before_gain = true;
       a.out[Role::xhat] = a.out[Role::y], a.out[Role::y].reset();
     }},
    {"x without memory", Code::bad_tensor, "no memory",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::x]->data = nullptr;
     }},
    {"y without memory", Code::bad_tensor, "no memory",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::y]->data = nullptr;
     }},
    {"a negative extent", Code::bad_shape, "negative",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, -3});
     }},
    {"more elements than can be", Code::bad_shape, "2^58",
     [](Attempt& a) {
       a.start(Op::layer_norm, {1LL << 40, 1LL << 40});
     }},
    {"more elements than can be, and none", Code::bad_shape, "2^58",
     [](Attempt& a) {
       a.start(Op::layer_norm, {1LL << 40, 0, 1LL << 40});
     }},
    {"a y of another shape", Code::bad_shape, "shape of x",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::y]->shape = {3, 2};
     }},
    {"a residual of another shape", Code::bad_shape, "residual",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::residual] = a.input({1, 3});
     }},
    {"a gamma that does not broadcast", Code::bad_shape, "gamma",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::gamma] = a.input({2});
     }},
    {"a gamma with more axes than x", Code::bad_shape, "gamma",
     [](Attempt& a) {
       a.start(Op::layer_norm, {3}), a.in[Role::gamma] = a.input({1, 3});
     }},
    {"a beta per batch", Code::bad_shape, "beta",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.in[Role::beta] = a.input({2});
     }},
    {"a beta per element for channels", Code::bad_shape, "expected [4]",
     [](Attempt& a) {
       a.start(Op::instance_norm, {2, 4, 5}), a.in[Role::beta] = a.input({4, 5});
     }},
    {"a mean per channel for rows", Code::bad_shape, "mean",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::mean] = a.output({3});
     }},
    {"statistics of group norm per channel", Code::bad_shape, "expected [2, 2]",
     [](Attempt& a) {
       a.start(Op::group_norm, {2, 4, 3}), a.spec.groups = 2, a.out[Role::rstd] = a.output({2, 4});
     }},
    {"a running mean of the wrong length", Code::bad_shape, "running_mean",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.in[Role::running_mean] = a.input({2});
     }},
    {"an unbiased variance of one value", Code::bad_shape, "unbiased",
     [](Attempt& a) {
       a.start(Op::layer_norm, {3, 1}), a.spec.profile.variance = Estimator::unbiased;
     }},
    {"an unbiased variance where none is estimated", Code::bad_parameter, "rms_norm",
     [](Attempt& a) {
       a.start(Op::rms_norm, {3, 2}), a.spec.profile.variance = Estimator::unbiased;
     }},
    {"an unbiased running variance of one value", Code::bad_shape, "needs two",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {1, 3}), a.in[Role::running_variance] = a.input({3}), a.out[Role::running_variance] = a.output({3});
     }},
    {"an axis past the end", Code::bad_axis, "axis 2",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.spec.axis = 2;
     }},
    {"an axis before the beginning", Code::bad_axis, "-2 to 1",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.spec.axis = -3;
     }},
    {"an axis of a scalar", Code::bad_axis, "scalar", [](Attempt& a) { a.start(Op::layer_norm, {}); }},
    {"no channel axis", Code::bad_axis, "axis 1", [](Attempt& a) { a.start(Op::batch_norm_training, {3}); }},
    {"the batch as channels", Code::bad_axis, "batch",
     [](Attempt& a) {
       a.start(Op::instance_norm, {2, 3}), a.spec.axis = 0;
     }},
    {"no number of groups", Code::bad_groups, "needs the number of groups",
     [](Attempt& a) {
       a.start(Op::group_norm, {2, 4});
     }},
    {"groups for layer norm", Code::bad_groups, "takes no number",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 4}), a.spec.groups = 2;
     }},
    {"groups that do not divide", Code::bad_groups, "evenly",
     [](Attempt& a) {
       a.start(Op::group_norm, {2, 4}), a.spec.groups = 3;
     }},
    {"no groups at all", Code::bad_groups, "0 groups",
     [](Attempt& a) {
       a.start(Op::group_norm, {2, 4}), a.spec.groups = 0;
     }},
    {"negative groups", Code::bad_groups, "-2 groups",
     [](Attempt& a) {
       a.start(Op::group_norm, {2, 4}), a.spec.groups = -2;
     }},
    {"strides of another rank", Code::bad_stride, "1 strides for 2 axes",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::x]->strides = {1};
     }},
    {"strides out of the world", Code::bad_stride, "2^58",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::x]->strides = {INT64_MIN, 1};
     }},
    {"strides that reach too far together", Code::bad_stride, "2^58",
     [](Attempt& a) {
       a.start(Op::layer_norm, {3, 3}), a.in[Role::x]->strides = {1LL << 56, 1LL << 57};
     }},
    {"an output of stride 0", Code::bad_stride, "may share memory",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::y]->strides = {0, 1};
     }},
    {"an output that overlaps itself", Code::bad_stride, "may share memory",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::y]->strides = {2, 1};
     }},
    {"a residual without its rank of strides", Code::bad_stride, "residual",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::residual] = a.input({2, 3}), a.in[Role::residual]->strides = {3, 1, 1};
     }},
    {"two outputs on one memory", Code::bad_tensor, "outputs y and xhat may share",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.out[Role::xhat] = a.out[Role::y];
     }},
    {"y over a part of x", Code::bad_tensor, "may share memory with the input x",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::x]->data = a.out[Role::y]->data + 4;
     }},
    {"y over x, transposed", Code::bad_tensor, "may share memory with the input x",
     [](Attempt& a) {
       a.start(Op::layer_norm, {3, 3}), a.in[Role::x]->data = a.out[Role::y]->data, a.out[Role::y]->strides = {1, 3};
     }},
    {"y over x in another format", Code::bad_tensor, "may share memory",
     [](Attempt& a) {
       a.start(Op::layer_norm, {2, 3}), a.in[Role::x]->data = a.out[Role::y]->data, a.out[Role::y]->format = Format::f16;
     }},
    {"y over gamma", Code::bad_tensor, "may share memory with the input gamma",
     [](Attempt& a) {
       a.start(Op::layer_norm, {1, 3}), a.in[Role::gamma] = a.input({1, 3}), a.in[Role::gamma]->data = a.out[Role::y]->data;
     }},
    {"the mean over the running mean", Code::bad_tensor, "may share memory with the input running_mean",
     [](Attempt& a) {
       a.start(Op::batch_norm_training, {2, 3}), a.out[Role::mean] = a.output({3}), a.in[Role::running_mean] = a.input({3});
       a.in[Role::running_mean]->data = a.out[Role::mean]->data;
     }},
};

TEST(Refusals, NameWhatIsWrongAndTouchNothing) {
  int checked = 0;
  for (const Refusal& r : refusals) {
    Attempt a;
    r.build(a);
    const std::vector<std::byte> before = a.outputs;
    const Status status = compute(a.spec, a.in, a.out);
    EXPECT_EQ(status.code, r.code) << r.what << ": " << status.message;
    EXPECT_NE(status.message.find(r.word), std::string::npos) << r.what << ": " << status.message;
    EXPECT_EQ(a.outputs, before) << r.what;
    ++checked;
  }
  EXPECT_GE(checked, 50);
}

TEST(Refusals, OutputShapeRefusesTheSame) {
  EXPECT_EQ(tensor_shape(spec_of(Op::layer_norm), {2, -1}, Role::y).status().code, Code::bad_shape);
  EXPECT_EQ(tensor_shape(spec_of(Op::layer_norm, std::nullopt, 5), {2, 3}, Role::y).status().code, Code::bad_axis);
  EXPECT_EQ(tensor_shape(spec_of(Op::rms_norm), {2, 3}, Role::mean).status().code, Code::bad_tensor);
  EXPECT_EQ(tensor_shape(spec_of(Op::group_norm), {2, 3}, Role::y).status().code, Code::bad_groups);
  EXPECT_EQ(*tensor_shape(spec_of(Op::layer_norm, std::nullopt, -2), {2, 3, 4}, Role::rstd), (Shape{2}));
  EXPECT_EQ(*tensor_shape(spec_of(Op::batch_norm_training), {2, 3, 4}, Role::running_mean), (Shape{3}));
  EXPECT_EQ(*tensor_shape(spec_of(Op::instance_norm), {2, 3, 4}, Role::mean), (Shape{2, 3}));
  EXPECT_EQ(*tensor_shape(spec_of(Op::weight_norm), {2, 3, 4}, Role::rstd), (Shape{2}));
}

// `evaluate` wants shapes only, and visits every element of every wanted output once.
TEST(Evaluate, VisitsEveryElementOnce) {
  const testing::Tensor x = testing::Tensor::of(Format::f32, {2, 3}, {1, 2, 3, 4, 5, 7});
  ByRole<ConstView> in;
  ByRole<View> wanted;
  in[Role::x] = x.in();
  wanted[Role::y] = View{Format::f16, nullptr, {2, 3}, {}};
  wanted[Role::mean] = View{Format::f32, nullptr, {2}, {}};
  std::vector<int> y(6);
  std::vector<int> mean(2);
  testing::Call call{spec_of(Op::layer_norm), {}};
  call.inputs[Role::x] = x;
  const testing::Tensor expected = call.get(Role::y, Format::bf16);
  const Status status = evaluate(call.spec, in, wanted, Mode::nearest_even, [&](Role role, std::int64_t offset, const Real& value) {
    if (role == Role::mean) return void(++mean.at(static_cast<std::size_t>(offset)));
    ASSERT_EQ(role, Role::y);
    ++y.at(static_cast<std::size_t>(offset));
    EXPECT_EQ(round(value, Format::bf16).bits, expected.bits(static_cast<std::size_t>(offset)));  // any format, of the exact value
  });
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(y, std::vector<int>(6, 1));
  EXPECT_EQ(mean, std::vector<int>(2, 1));
}

}  // namespace
}  // namespace norma
