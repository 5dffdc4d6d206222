// The numbers of the annotated paper (Ba, Kiros and Hinton 2016) and of the visual walkthrough, computed by the reference in f64 and
// printed with as many decimals as there. Sections are those of the paper; "walkthrough N" is its N-th picture.
#include <gtest/gtest.h>

#include <cstdio>

#include "testing.h"

namespace norma {
namespace {

using testing::Call;
using testing::spec_of;
using testing::Tensor;

std::string printed(double x, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, x);
  return text;
}

std::string printed(const std::vector<double>& values, int decimals) {
  std::string text;
  for (const double x : values) text += (text.empty() ? "" : ", ") + printed(x, decimals);
  return text;
}

struct Row {
  Op op = Op::layer_norm;
  std::vector<double> x;
  double epsilon = 0;
  std::vector<double> gamma = {};
  std::vector<double> beta = {};

  [[nodiscard]] std::vector<double> get(Role role) const {
    Call call{spec_of(op, epsilon), {}};
    const auto n = static_cast<std::int64_t>(x.size());
    call.inputs[Role::x] = Tensor::of(Format::f64, op == Op::batch_norm_training ? Shape{n, 1} : Shape{n}, x);
    if (!gamma.empty()) call.inputs[Role::gamma] = Tensor::row(Format::f64, gamma);
    if (!beta.empty()) call.inputs[Role::beta] = Tensor::row(Format::f64, beta);
    return call.get(role, Format::f64).values();
  }
  [[nodiscard]] std::string print(Role role, int decimals) const { return printed(get(role), decimals); }
  [[nodiscard]] std::string sigma(int decimals) const { return printed(std::sqrt(get(Role::variance).at(0)), decimals); }
};

TEST(Paper, Section2BatchOfThree) {
  const Row batch{Op::batch_norm_training, {1, 5, 9}};
  EXPECT_EQ(batch.print(Role::mean, 0), "5");
  EXPECT_EQ(batch.print(Role::variance, 3), printed((16.0 + 0 + 16) / 3, 3));
  EXPECT_EQ(batch.sigma(3), "3.266");
  EXPECT_EQ(batch.print(Role::y, 3), "-1.225, 0.000, 1.225");
}

TEST(Paper, Section3OneCaseOfFourUnits) {
  const Row layer{Op::layer_norm, {2, 4, 6, 8}};
  EXPECT_EQ(layer.print(Role::mean, 0), "5");
  EXPECT_EQ(layer.print(Role::variance, 0), "5");
  EXPECT_EQ(layer.sigma(3), "2.236");
  EXPECT_EQ(layer.print(Role::y, 3), "-1.342, -0.447, 0.447, 1.342");
}

// "The one picture to remember": 4 cases of 5 neurons. A row's result is its own business; a column's depends on who else is there.
TEST(Paper, Section3RowsAndColumnsOfOneTable) {
  std::vector<double> table{2, 4, 6, 8, 5, 1, 9, 3, 7, 0, 5, 5, 5, 6, 4, 8, 2, 7, 3, 6};
  const auto cell = [&](Op op, std::size_t i) {
    Call call{spec_of(op, 0), {}};
    call.inputs[Role::x] = Tensor::of(Format::f64, {4, 5}, table);
    return call.get(Role::y, Format::f64)[i];
  };
  // The nearly flat case (5, 5, 5, 6, 4) has variance 2/5: its ones become √2.5.
  EXPECT_EQ(cell(Op::layer_norm, 13), std::sqrt(2.5));
  EXPECT_EQ(cell(Op::layer_norm, 14), -std::sqrt(2.5));
  EXPECT_EQ(cell(Op::layer_norm, 10), 0);
  const double column = cell(Op::batch_norm_training, 13);
  EXPECT_LT(std::fabs(column), 0.01);  // in its column (8, 7, 6, 3) it is the average
  table[3] = 100;                      // another case changes
  EXPECT_EQ(cell(Op::layer_norm, 13), std::sqrt(2.5));
  EXPECT_NE(cell(Op::batch_norm_training, 13), column);
}

// Summed inputs that grow 1.2 times a step are normalized to the same values after any number of steps.
TEST(Paper, Section31GrowthIsInvisible) {
  double growth = 1;
  for (int step = 0; step < 50; ++step) growth *= 1.2;
  EXPECT_EQ(printed(std::round(growth / 100) * 100, 0), "9100");
  const Row grown{Op::layer_norm, {2 * growth, 4 * growth, 6 * growth, 8 * growth}};
  EXPECT_EQ(grown.print(Role::y, 3), "-1.342, -0.447, 0.447, 1.342");
}

TEST(Paper, Section5ScalingByThree) {
  const Row tripled{Op::layer_norm, {6, 12, 18, 24}};
  EXPECT_EQ(tripled.print(Role::mean, 0), "15");
  EXPECT_EQ(tripled.sigma(3), "6.708");
  EXPECT_EQ(tripled.print(Role::y, 3), "-1.342, -0.447, 0.447, 1.342");
  EXPECT_EQ(tripled.get(Role::y), (Row{Op::layer_norm, {2, 4, 6, 8}}.get(Role::y)));  // with ε = 0, to the last bit
}

// Table 1, as far as it concerns one row: what δ·x and x + δ do to the three methods with ε = 0.
TEST(Paper, Section5Table1) {
  const std::vector<double> x{2, 4, 6, 9};
  std::vector<double> scaled;
  std::vector<double> shifted;
  for (const double v : x) scaled.push_back(3 * v), shifted.push_back(v + 7);
  for (const Op op : {Op::layer_norm, Op::batch_norm_training, Op::rms_norm}) {
    EXPECT_EQ((Row{op, scaled}.get(Role::y)), (Row{op, x}.get(Role::y))) << info(op).name;
    EXPECT_EQ((Row{op, shifted}.get(Role::y) == Row{op, x}.get(Role::y)), op != Op::rms_norm) << info(op).name;
  }
  // Weight norm: a longer weight vector is the same one, a shifted one is not.
  const auto weights = [](const std::vector<double>& v) {
    Call call{spec_of(Op::weight_norm), {}};
    call.inputs[Role::x] = Tensor::of(Format::f64, {1, 4}, v);
    return call.get(Role::y, Format::f64).values();
  };
  EXPECT_EQ(weights(scaled), weights(x));
  EXPECT_NE(weights(shifted), weights(x));
}

// Scale invariance is exact only for ε = 0, or where ε scales by δ²; a negative δ flips the sign.
TEST(Paper, Section5ScaleInvarianceAndEpsilon) {
  const double epsilon = 1e-5;
  const Row original{Op::layer_norm, {2, 4, 6, 8}, epsilon};
  const Row scaled{Op::layer_norm, {6, 12, 18, 24}, epsilon};
  const double factor = std::sqrt((5 + epsilon) / (5 + epsilon / 9));
  EXPECT_NEAR(scaled.get(Role::y)[3] / original.get(Role::y)[3], factor, 1e-15);
  EXPECT_NE(scaled.get(Role::y), original.get(Role::y));
  EXPECT_EQ((Row{Op::layer_norm, {4, 8, 12, 16}, 4 * epsilon}.get(Role::y)), original.get(Role::y));
  EXPECT_EQ((Row{Op::layer_norm, {-2, -4, -6, -8}}.print(Role::y, 3)), "1.342, 0.447, -0.447, -1.342");
}

TEST(Paper, After2016RootMeanSquare) {
  const Row rms{Op::rms_norm, {2, 4, 6, 8}};
  EXPECT_EQ(rms.print(Role::variance, 0), "30");
  EXPECT_EQ(rms.sigma(3), "5.477");
  EXPECT_EQ(rms.print(Role::y, 3), "0.365, 0.730, 1.095, 1.461");
}

// A batch of one: 0/0 without ε, the bias with it.
TEST(Paper, Section1BatchOfOne) {
  EXPECT_TRUE(std::isnan((Row{Op::batch_norm_training, {7}}.get(Role::y)[0])));
  EXPECT_EQ((Row{Op::batch_norm_training, {7}, 1e-5, {2}, {0.5}}.get(Role::y)), std::vector<double>{0.5});
}

TEST(Walkthrough, CentreSqueezeGuardRestyle) {
  const Row row{Op::layer_norm, {1, 2, 3, 4}};
  EXPECT_EQ(row.print(Role::mean, 1), "2.5");                        // 2
  EXPECT_EQ(row.print(Role::deviation, 1), "-1.5, -0.5, 0.5, 1.5");  // 3
  std::vector<double> squares;
  for (const double d : row.get(Role::deviation)) squares.push_back(d * d);
  EXPECT_EQ(printed(squares, 2), "2.25, 0.25, 0.25, 2.25");  // 4
  EXPECT_EQ(row.print(Role::variance, 2), "1.25");
  EXPECT_EQ(row.sigma(3), "1.118");
  EXPECT_EQ(row.print(Role::xhat, 3), "-1.342, -0.447, 0.447, 1.342");  // 5
  const Row guarded{Op::layer_norm, {1, 2, 3, 4}, 1e-5};
  EXPECT_GT(1 / guarded.get(Role::rstd)[0], 1 / row.get(Role::rstd)[0]);  // 6: a whisker wider
  EXPECT_EQ(printed(1 / guarded.get(Role::rstd)[0], 3), "1.118");
  EXPECT_EQ(guarded.print(Role::xhat, 3), "-1.342, -0.447, 0.447, 1.342");
  const Row restyled{Op::layer_norm, {1, 2, 3, 4}, 1e-5, std::vector<double>(4, 2), std::vector<double>(4, 1)};
  // 9. The walkthrough prints (-1.684, 0.106, 1.894, 3.684), twice the rounded ∓1.342 plus 1. Rounded once, the ends are -1.683 and 3.683.
  EXPECT_EQ(restyled.print(Role::y, 3), "-1.683, 0.106, 1.894, 3.683");
  std::vector<double> by_hand;
  for (const double xhat : guarded.get(Role::xhat)) by_hand.push_back(2 * std::stod(printed(xhat, 3)) + 1);
  EXPECT_EQ(printed(by_hand, 3), "-1.684, 0.106, 1.894, 3.684");
}

// 7: variance exactly 1 for ε = 0, σ²/(σ² + ε) with it; the mean exactly 0 in both.
TEST(Walkthrough, WhatTheStandardizedRowAddsUpTo) {
  for (const double epsilon : {0.0, 1e-5, 0.25}) {
    const std::vector<double> y = Row{Op::layer_norm, {1, 2, 3, 4}, epsilon}.get(Role::y);
    EXPECT_EQ(y[0] + y[3], 0);
    EXPECT_EQ(y[1] + y[2], 0);
    double squares = 0;
    for (const double v : y) squares += v * v;
    EXPECT_NEAR(squares / 4, 1.25 / (1.25 + epsilon), 1e-15);
  }
}

TEST(Walkthrough, TheFlatRow) {
  for (const double y : Row{Op::layer_norm, {5, 5, 5, 5}}.get(Role::y)) EXPECT_TRUE(std::isnan(y));
  const Row guarded{Op::layer_norm, {5, 5, 5, 5}, 1e-5};
  EXPECT_EQ(printed(1 / guarded.get(Role::rstd)[0], 5), "0.00316");
  EXPECT_EQ(guarded.get(Role::y), std::vector<double>(4, 0.0));
}

// γ = √(σ² + ε) and β = μ undo steps 3 to 6.
TEST(Walkthrough, Undo) {
  const double root = std::sqrt(1.25 + 1e-5);
  const Row undone{Op::layer_norm, {1, 2, 3, 4}, 1e-5, std::vector<double>(4, root), std::vector<double>(4, 2.5)};
  EXPECT_EQ(undone.print(Role::y, 12), "1.000000000000, 2.000000000000, 3.000000000000, 4.000000000000");
}

}  // namespace
}  // namespace norma
