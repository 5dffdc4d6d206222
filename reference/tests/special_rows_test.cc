// Single rows with NaN, infinities, zeros of both signs, no variance or no elements, with what has to come out written down.
#include <gtest/gtest.h>

#include "testing.h"

namespace norma {
namespace {

using testing::Tensor;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor layer_norm(Format format, const std::vector<double>& x, double epsilon, Format out) {
  testing::Call call{testing::spec_of(Op::layer_norm, epsilon), {}};
  call.inputs[Role::x] = Tensor::row(format, x);
  return call.get(Role::y, out);
}

TEST(SpecialValues, AFlatRowWithoutEpsilonIsNotANumber) {
  for (const Format format : testing::all_formats) {
    for (const double y : layer_norm(format, {5, 5, 5, 5}, 0, format).values()) EXPECT_TRUE(std::isnan(y));
    for (const double y : layer_norm(format, {5, 5, 5, 5}, 1e-300, format).values()) EXPECT_TRUE(y == 0 && !std::signbit(y));
    for (const double y : layer_norm(format, {-0.0, -0.0}, 1, format).values()) EXPECT_TRUE(y == 0 && !std::signbit(y));
  }
}

TEST(SpecialValues, StayInTheirRow) {
  testing::Call call{testing::spec_of(Op::layer_norm), {}};
  const std::vector<double> row{1, 2, 3, 4};
  call.inputs[Role::x] = Tensor::of(Format::f32, {4, 4}, {1, 2, 3, 4, inf, 1, 2, 3, 1, 2, 3, 4, nan, 1, 2, 3});
  const Tensor y = call.get(Role::y, Format::f32);
  const Tensor alone = layer_norm(Format::f32, row, 1e-5, Format::f32);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y.bits(i), alone.bits(i));
    EXPECT_EQ(y.bits(8 + i), alone.bits(i));
    EXPECT_EQ(y.bits(4 + i), 0x7FC00000U);
    EXPECT_EQ(y.bits(12 + i), 0x7FC00000U);
  }
}

TEST(SpecialValues, RmsNormOfARowWithInfinity) {
  testing::Call call{testing::spec_of(Op::rms_norm), {}};
  call.inputs[Role::x] = Tensor::row(Format::f16, {1, -2, inf, -0.0});
  call.inputs[Role::gamma] = Tensor::row(Format::f16, {-1, 1, 1, 1});
  const Tensor y = call.get(Role::y, Format::f16);
  EXPECT_EQ(y.bits(0), 0x8000U);
  EXPECT_EQ(y.bits(1), 0x8000U);
  EXPECT_EQ(y.bits(2), 0x7E00U);
  EXPECT_EQ(y.bits(3), 0x8000U);
  call.inputs[Role::beta] = Tensor::row(Format::f16, {1, 1, 1, 0});
  const Tensor shifted = call.get(Role::y, Format::f16);
  EXPECT_EQ(shifted[0], 1);
  EXPECT_EQ(shifted[1], 1);
  EXPECT_TRUE(std::isnan(shifted[2]));
  EXPECT_EQ(shifted.bits(3), 0U);
}

TEST(SpecialValues, EmptyShapesGiveEmptyResultsAndKeepRunningStatistics) {
  for (const Shape& shape : {Shape{0, 5, 9}, Shape{3, 5, 0}}) {
    ByRole<Tensor> results;
    testing::Call call{testing::spec_of(Op::batch_norm_training), {}};
    call.inputs[Role::x] = Tensor(Format::f32, shape);
    call.inputs[Role::running_mean] = Tensor::row(Format::f32, {1, -2, inf, nan, -0.0});
    call.inputs[Role::running_variance] = Tensor::row(Format::f32, {1, 2, 3, 4, 5});
    results[Role::y] = Tensor(Format::f32, shape);
    for (const Role role : {Role::mean, Role::variance, Role::rstd, Role::running_mean, Role::running_variance})
      results[role] = Tensor(Format::f32, {5});
    ASSERT_TRUE(call.run(results).ok());
    for (const Role role : {Role::running_mean, Role::running_variance}) EXPECT_EQ(results[role]->bytes(), call.inputs[role]->bytes());
    for (const Role role : {Role::mean, Role::variance, Role::rstd}) {
      for (const double value : results[role]->values()) EXPECT_TRUE(std::isnan(value)) << name(role);  // 0/0
    }
  }
  for (const Op op : testing::all_ops) {
    if (info(op).given_statistics) continue;
    for (const Shape& shape : {Shape{0, 10, 2}, Shape{1, 0, 10}, Shape{3, 2, 0}, Shape{0, 0, 0}}) {
      testing::Call call{testing::spec_of(op), {}};
      if (op == Op::group_norm) call.spec.groups = 1;
      call.inputs[Role::x] = Tensor(Format::f32, shape);
      ByRole<Tensor> results;
      results[Role::y] = Tensor(Format::f32, shape);
      results[Role::rstd] = Tensor(Format::f32, *tensor_shape(call.spec, shape, Role::rstd));
      EXPECT_EQ(call.run(results).message, "") << info(op).name;
    }
  }
}

TEST(SpecialValues, WhatE4M3CannotHoldIsNaN) {
  testing::Call call{testing::spec_of(Op::layer_norm, 0), {}};
  call.inputs[Role::x] = Tensor::row(Format::f32, {-1, 1});
  for (const double gain : {448.0, 464.0, 464.0001, 1e30, inf}) {
    call.inputs[Role::gamma] = Tensor::row(Format::f32, {gain, gain});
    const Tensor y = call.get(Role::y, Format::f8_e4m3);
    EXPECT_EQ(y.bits(1), gain <= 464 ? 0x7EU : 0x7FU) << gain;
    EXPECT_EQ(y.bits(0) & 0x7F, gain <= 464 ? 0x7EU : 0x7FU) << gain;
  }
}

}  // namespace
}  // namespace norma
