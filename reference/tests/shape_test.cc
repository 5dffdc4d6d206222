// Layouts, views and broadcasting: the same numbers wherever they lie. Every test compares bits with a call whose tensors are contiguous.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "testing.h"

namespace norma {
namespace {

using testing::Call;
using testing::Random;
using testing::spec_of;
using testing::Tensor;

Tensor random_tensor(Random& random, Shape shape, Format format = Format::f32) {
  Tensor t(format, std::move(shape));
  for (std::size_t i = 0; i < t.size(); ++i) t.set(i, testing::nearest(format, static_cast<double>(random.between(-1000, 1000)) / 64));
  return t;
}

// The tensor with its axes in another order, contiguous.
Tensor permuted(const Tensor& t, const std::vector<int>& order) {
  Shape shape;
  for (const int axis : order) shape.push_back(t.shape()[static_cast<std::size_t>(axis)]);
  Tensor result(t.format(), shape);
  std::vector<std::int64_t> at(order.size(), 0);
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::vector<std::int64_t> source(order.size());
    for (std::size_t a = 0; a < order.size(); ++a) source[static_cast<std::size_t>(order[a])] = at[a];
    std::int64_t index = 0;
    for (std::size_t a = 0; a < source.size(); ++a) index = index * t.shape()[a] + source[a];
    result.set(i, t.bits(static_cast<std::size_t>(index)));
    for (std::size_t a = order.size(); a-- > 0 && ++at[a] == shape[a];) at[a] = 0;
  }
  return result;
}

Call call_of(Op op, Tensor x, std::optional<int> axis = std::nullopt) {
  Call call{spec_of(op, std::nullopt, axis), {}};
  call.inputs[Role::x] = std::move(x);
  return call;
}

Tensor reshaped(const Tensor& t, Shape shape) {
  Tensor result(t.format(), std::move(shape));
  for (std::size_t i = 0; i < t.size(); ++i) result.set(i, t.bits(i));
  return result;
}

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_GT(a.size(), 0U);
  EXPECT_EQ(a.bytes(), b.bytes());
}

TEST(Shape, NegativeAxesCountFromTheEnd) {
  Random random(1);
  const Tensor x = random_tensor(random, {4, 6, 5});
  for (const Op op : testing::all_ops) {
    if (info(op).given_statistics) continue;
    for (int axis = info(op).grouping == Grouping::channel_groups ? 1 : 0; axis < 3; ++axis) {
      Call positive = call_of(op, x, axis);
      Call negative = call_of(op, x, axis - 3);
      if (op == Op::group_norm) positive.spec.groups = negative.spec.groups = 1;
      for (const Role role : {Role::y, Role::rstd}) expect_same(positive.get(role, Format::f32), negative.get(role, Format::f32));
    }
  }
}

TEST(Shape, SeveralNormalizedAxesAreOneRow) {
  Random random(2);
  const Tensor x = random_tensor(random, {3, 4, 5});
  for (const Op op : {Op::layer_norm, Op::rms_norm}) {
    Call deep = call_of(op, x, 1);
    Call flat = call_of(op, reshaped(x, {3, 20}));
    const Tensor gamma = random_tensor(random, {4, 5});
    deep.inputs[Role::gamma] = gamma;
    flat.inputs[Role::gamma] = reshaped(gamma, {20});
    expect_same(deep.get(Role::y, Format::f64), flat.get(Role::y, Format::f64));
    EXPECT_EQ(deep.get(Role::rstd, Format::f32).shape(), (Shape{3}));
    expect_same(call_of(op, x, 0).get(Role::y, Format::f64), call_of(op, reshaped(x, {60})).get(Role::y, Format::f64));
    EXPECT_EQ(call_of(op, x, 0).get(Role::rstd, Format::f32).shape(), Shape{});
  }
}

TEST(Shape, ChannelsLastIsChannelsFirst) {
  Random random(3);
  const Tensor nchw = random_tensor(random, {2, 6, 3, 5});
  const Tensor nhwc = permuted(nchw, {0, 2, 3, 1});
  for (const Op op : {Op::batch_norm_training, Op::batch_norm_inference, Op::group_norm, Op::instance_norm}) {
    Call first = call_of(op, nchw);
    Call last = call_of(op, nhwc, -1);
    if (op == Op::group_norm) first.spec.groups = last.spec.groups = 3;
    for (const Role role : {Role::gamma, Role::beta, Role::mean, Role::variance}) {
      if (!info(op).inputs.contain(role)) continue;
      Tensor t = random_tensor(random, {6});
      if (role == Role::variance) {
        for (std::size_t i = 0; i < 6; ++i) t.set(i, t.bits(i) & 0x7FFFFFFF);
      }
      first.inputs[role] = last.inputs[role] = t;
    }
    expect_same(permuted(first.get(Role::y, Format::f32), {0, 2, 3, 1}), last.get(Role::y, Format::f32));
    expect_same(first.get(Role::rstd, Format::f32), last.get(Role::rstd, Format::f32));
  }
}

TEST(Shape, GroupNormOfOneGroupIsLayerNormAndOfAllIsInstanceNorm) {
  Random random(4);
  const Tensor x = random_tensor(random, {3, 4, 2, 5});
  const Tensor gamma = random_tensor(random, {4});
  const Tensor beta = random_tensor(random, {4});
  Call group = call_of(Op::group_norm, x);
  Call layer = call_of(Op::layer_norm, x, 1);
  Call instance = call_of(Op::instance_norm, x);
  group.inputs[Role::gamma] = instance.inputs[Role::gamma] = gamma;
  group.inputs[Role::beta] = instance.inputs[Role::beta] = beta;
  layer.inputs[Role::gamma] = reshaped(gamma, {4, 1, 1});
  layer.inputs[Role::beta] = reshaped(beta, {4, 1, 1});
  group.spec.groups = 1;
  for (const Role role : {Role::y, Role::mean, Role::rstd, Role::xhat})
    expect_same(group.get(role, Format::f32), layer.get(role, Format::f32));
  group.spec.groups = 4;
  for (const Role role : {Role::y, Role::mean, Role::rstd, Role::xhat})
    expect_same(group.get(role, Format::f32), instance.get(role, Format::f32));
  // And of one case, instance norm is batch norm.
  Call batch = call_of(Op::batch_norm_training, random_tensor(random, {1, 4, 9}));
  Call single = call_of(Op::instance_norm, *batch.inputs[Role::x]);
  expect_same(batch.get(Role::y, Format::f32), single.get(Role::y, Format::f32));
}

TEST(Shape, BatchNormIsLayerNormTransposed) {
  Random random(5);
  const Tensor x = random_tensor(random, {7, 5});
  Call batch = call_of(Op::batch_norm_training, x);
  Call layer = call_of(Op::layer_norm, permuted(x, {1, 0}));
  for (const Role role : {Role::mean, Role::variance, Role::rstd}) expect_same(batch.get(role, Format::f32), layer.get(role, Format::f32));
  expect_same(permuted(batch.get(Role::y, Format::f32), {1, 0}), layer.get(Role::y, Format::f32));
}

// Lays a tensor out anew, with any strides, in memory of its own.
struct Strided {
  std::vector<std::byte> memory;
  ConstView view;

  Strided(const Tensor& t, std::vector<std::int64_t> strides) : view(t.in()) {
    const std::size_t size = static_cast<std::size_t>(info(t.format()).bytes());
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (std::size_t a = 0; a < strides.size(); ++a) (strides[a] < 0 ? low : high) += strides[a] * (t.shape()[a] - 1);
    memory.resize(static_cast<std::size_t>(high - low + 1) * size, std::byte{0xA5});
    view.data = memory.data() - low * static_cast<std::int64_t>(size);
    view.strides = std::move(strides);
    for (std::size_t i = 0; i < t.size(); ++i)
      std::copy_n(t.bytes().data() + i * size, size, memory.data() + (offset(i) - low) * static_cast<std::int64_t>(size));
  }
  [[nodiscard]] std::int64_t offset(std::size_t flat) const {
    std::int64_t result = 0;
    for (std::size_t a = view.shape.size(); a-- > 0;) {
      result += view.strides[a] * (static_cast<std::int64_t>(flat) % view.shape[a]);
      flat /= static_cast<std::size_t>(view.shape[a]);
    }
    return result;
  }
  [[nodiscard]] View out() { return {view.format, memory.data() + (view.data - memory.data()), view.shape, view.strides}; }
  [[nodiscard]] Bits bits(std::size_t flat) const { return load(view.format, view.data + offset(flat) * info(view.format).bytes()); }
};

TEST(Shape, StridesOfEveryKind) {
  Random random(6);
  const std::vector<std::vector<std::int64_t>> layouts{
      {20, 5, 1},     // contiguous
      {1, 3, 12},     // transposed
      {40, 10, 2},    // every other
      {-20, -5, -1},  // backwards
      {64, -8, 1},    // padded rows, the middle axis backwards
      {-2, 200, 6},   // anything else without overlap
  };
  int checked = 0;
  for (const Format format : testing::all_formats) {
    const Tensor x = random_tensor(random, {3, 4, 5}, format);
    for (const Op op : {Op::layer_norm, Op::batch_norm_training, Op::group_norm, Op::weight_norm}) {
      Call call = call_of(op, x);
      if (op == Op::group_norm) call.spec.groups = 2;
      const Tensor expected = call.get(Role::y, format);
      for (const auto& from : layouts) {
        for (const auto& to : layouts) {
          Strided source(x, from);
          Strided target(x, to);
          const std::vector<std::byte> before = target.memory;
          ByRole<ConstView> in;
          ByRole<View> out;
          in[Role::x] = source.view;
          out[Role::y] = target.out();
          ASSERT_EQ(compute(call.spec, in, out).message, "");
          std::vector<bool> written(target.memory.size());
          for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(target.bits(i), expected.bits(i)) << info(op).name << " " << i;
            const std::int64_t at = (target.view.data - target.memory.data()) + target.offset(i) * info(format).bytes();
            for (int b = 0; b < info(format).bytes(); ++b) written[static_cast<std::size_t>(at + b)] = true;
            ++checked;
          }
          for (std::size_t b = 0; b < written.size(); ++b) ASSERT_TRUE(written[b] || target.memory[b] == before[b]) << "byte " << b;
        }
      }
    }
  }
  EXPECT_EQ(checked, 6 * 4 * 36 * 60);
}

// As in numpy, a stride along an axis of one element says nothing.
TEST(Shape, AStrideThatIsNeverWalkedMayBeAnything) {
  const std::int64_t far = std::numeric_limits<std::int64_t>::max();
  testing::Tensor x(Format::f32, {1, 2, 1}, {testing::nearest(Format::f32, 1), testing::nearest(Format::f32, 3)});
  testing::Tensor y(Format::f32, {1, 2, 1});
  ByRole<ConstView> in;
  ByRole<View> out;
  in[Role::x] = x.in();
  out[Role::y] = y.out();
  in[Role::x]->strides = {far, 1, far};
  out[Role::y]->strides = {-far, 1, far};
  Spec spec = testing::spec_of(Op::layer_norm, 0);
  spec.axis = 1;
  ASSERT_TRUE(compute(spec, in, out).ok());
  EXPECT_EQ(y[0], -1);
  EXPECT_EQ(y[1], 1);
}

TEST(Shape, AStrideOfZeroRepeatsAnInput) {
  const Tensor row = Tensor::row(Format::f32, {1, 2, 4});
  const Tensor three = Tensor::of(Format::f32, {3, 3}, {1, 2, 4, 1, 2, 4, 1, 2, 4});
  ByRole<ConstView> in;
  ByRole<View> out;
  Tensor y(Format::f32, {3, 3});
  in[Role::x] = ConstView{Format::f32, row.bytes().data(), {3, 3}, {0, 1}};
  out[Role::y] = y.out();
  ASSERT_TRUE(compute(spec_of(Op::layer_norm), in, out).ok());
  expect_same(y, call_of(Op::layer_norm, three).get(Role::y, Format::f32));
}

TEST(Shape, ParametersBroadcastAsInNumpy) {
  Random random(7);
  const Tensor x = random_tensor(random, {2, 3, 4});
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{4}, Shape{1, 4}, Shape{3, 1}, Shape{3, 4}, Shape{2, 1, 1}, Shape{2, 3, 1},
                             Shape{1, 3, 4}, Shape{2, 3, 4}}) {
    const Tensor parameter = random_tensor(random, shape);
    Tensor expanded(Format::f32, {2, 3, 4});
    for (std::size_t i = 0; i < 24; ++i) {
      const std::size_t at[3] = {i / 12, i / 4 % 3, i % 4};
      std::size_t index = 0;
      for (std::size_t a = 0; a < shape.size(); ++a) {
        const auto extent = static_cast<std::size_t>(shape[a]);
        index = index * extent + (extent == 1 ? 0 : at[3 - shape.size() + a]);
      }
      expanded.set(i, parameter.bits(index));
    }
    for (const Role role : {Role::gamma, Role::beta}) {
      Call broadcast = call_of(Op::layer_norm, x, 1);
      Call full = broadcast;
      broadcast.inputs[role] = parameter;
      full.inputs[role] = expanded;
      expect_same(broadcast.get(Role::y, Format::f32), full.get(Role::y, Format::f32));
    }
  }
}

TEST(Shape, StatisticsMayHaveMoreAxesOfExtentOne) {
  Random random(8);
  Call call = call_of(Op::batch_norm_training, random_tensor(random, {2, 3, 4}));
  call.inputs[Role::gamma] = random_tensor(random, {3});
  const Tensor mean = call.get(Role::mean, Format::f32);
  const Tensor y = call.get(Role::y, Format::f32);
  for (const Shape& shape : {Shape{3}, Shape{3, 1}, Shape{1, 3}, Shape{1, 3, 1, 1}}) {
    ByRole<Tensor> results;
    results[Role::mean] = Tensor(Format::f32, shape);
    results[Role::y] = Tensor(Format::f32, {2, 3, 4});
    call.inputs[Role::gamma] = reshaped(*call.inputs[Role::gamma], shape);
    ASSERT_EQ(call.run(results).message, "");
    expect_same(*results[Role::mean], mean);
    expect_same(*results[Role::y], y);
  }
}

TEST(Shape, InPlace) {
  Random random(9);
  for (const Op op : testing::all_ops) {
    if (info(op).given_statistics) continue;
    Call call = call_of(op, random_tensor(random, {2, 4, 3}));
    if (op == Op::group_norm) call.spec.groups = 2;
    if (info(op).inputs.contain(Role::residual)) call.inputs[Role::residual] = random_tensor(random, {2, 4, 3});
    const Tensor y = call.get(Role::y, Format::f32);
    for (const Role over : {Role::x, Role::residual}) {
      if (!call.inputs[over]) continue;
      Call copy = call;
      ByRole<ConstView> in;
      ByRole<View> out;
      for (const Role role : {Role::x, Role::residual}) {
        if (copy.inputs[role]) in[role] = copy.inputs[role]->in();
      }
      out[Role::y] = copy.inputs[over]->out();
      ASSERT_EQ(compute(copy.spec, in, out).message, "") << info(op).name;
      expect_same(*copy.inputs[over], y);
    }
  }
  // Running statistics in place, y over x at the same time.
  Call call = call_of(Op::batch_norm_training, random_tensor(random, {4, 3}));
  call.inputs[Role::running_mean] = random_tensor(random, {3});
  call.inputs[Role::running_variance] = random_tensor(random, {3});
  ByRole<Tensor> expected;
  expected[Role::y] = Tensor(Format::f32, {4, 3});
  expected[Role::running_mean] = expected[Role::running_variance] = Tensor(Format::f32, {3});
  ASSERT_TRUE(call.run(expected).ok());
  ByRole<ConstView> in;
  ByRole<View> out;
  for (const auto& [input, output] :
       {std::pair{Role::x, Role::y}, {Role::running_mean, Role::running_mean}, {Role::running_variance, Role::running_variance}}) {
    in[input] = call.inputs[input]->in();
    out[output] = call.inputs[input]->out();
  }
  ASSERT_TRUE(compute(call.spec, in, out).ok());
  expect_same(*call.inputs[Role::x], *expected[Role::y]);
  expect_same(*call.inputs[Role::running_mean], *expected[Role::running_mean]);
  expect_same(*call.inputs[Role::running_variance], *expected[Role::running_variance]);
}

}  // namespace
}  // namespace norma
