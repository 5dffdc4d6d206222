// Reports of wrong normalization from public trackers, on the reference: what the reporter should have seen. Each names its thread
// (owner/repository#number on GitHub). The expected values are the reports', or follow from the definition by hand.
#include <gtest/gtest.h>

#include <functional>

#include "testing.h"

namespace norma {
namespace {

using testing::Call;
using testing::spec_of;
using testing::Tensor;

std::vector<double> full(std::size_t n, double value) { return std::vector<double>(n, value); }

std::vector<double> made(std::size_t n, const std::function<double(double)>& f) {
  std::vector<double> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(f(static_cast<double>(i)));
  return result;
}

struct Report {
  const char* id;
  const char* source;
  Op op;
  Format format;
  std::vector<double> x;
  double epsilon;
  std::vector<double> expected;  // of the first elements of y
  double tolerance;              // of the report's digits; 0: exactly, after rounding to the format
  bool all = false;              // expected[0] is every element's
};

constexpr Op ln = Op::layer_norm;
constexpr Op rms = Op::rms_norm;
constexpr Format f32 = Format::f32;
constexpr Format f16 = Format::f16;
constexpr Format bf16 = Format::bf16;
const std::vector<double> ramp{-1.3416, -0.4472, 0.4472, 1.3416};

const Report reports[] = {
    // A variance formed as the difference of two large numbers.
    {"NB001", "microsoft/onnxruntime#28463", ln, f32, {40000, 40001, 40002, 40003}, 1e-5, ramp, 5e-5},
    {"NB001", "microsoft/onnxruntime#28463", ln, f32, {80000, 80001, 80002, 80003}, 1e-5, ramp, 5e-5},
    {"NB002", "apache/tvm#19592", ln, f32, {80000, 80001, 80002, 80003}, 1e-5, ramp, 5e-5},
    {"NB003", "microsoft/onnxruntime#21935", ln, f32, full(256, 1234), 1e-5, {0}, 0, true},
    {"NB006", "tracel-ai/burn#5607", ln, f32, made(16, [](double i) { return i * 1e-3; }), 1e-5, {-1.3416}, 5e-5},
    {"NB006", "tracel-ai/burn#5607", ln, f32, made(16, [](double i) { return 100 + i * 1e-3; }), 1e-5, {-1.3416}, 5e-4},
    {"NB006", "tracel-ai/burn#5607", ln, f32, made(16, [](double i) { return 1000 + i * 1e-3; }), 1e-5, {-1.3416}, 5e-3},  // x is rounded
    {"NB006", "tracel-ai/burn#5607", ln, f32, made(16, [](double i) { return 10000 + i * 1e-3; }), 1e-5, {-1.3313}, 5e-5},
    {"NB007", "tenstorrent/tt-metal#45968", ln, bf16, made(8, [](double i) { return 5 + 0.1 * (i - 3.5); }), 1e-5, {-1.504}, 5e-3},
    {"NB008", "google/flax#1491", ln, f32, full(4096, 1000.1), 1e-5, {0}, 0, true},
    // Variances clamped, folded, or of a rounded mean.
    {"NB011", "pytorch/pytorch#190491", ln, f32, {-9.9e-4, -9.9e-4, 9.9e-4, 9.9e-4}, 1e-12, {-1, -1, 1, 1}, 1e-6},
    {"NB013", "pytorch/pytorch#108072", ln, f32, {14, 14}, 1e-6, {0}, 0, true},
    {"NB015", "intel/torch-xpu-ops#1374", ln, f32, made(5, [](double i) { return 1e15 + i; }), 1e-5, {0}, 0, true},
    // Sums in the storage format.
    {"NB023",
     "openvinotoolkit/openvino#35942",
     ln,
     f16,
     made(66048, [](double i) { return std::fmod(i, 2) == 0 ? 1 : -1; }),
     1e-6,
     {1, -1},
     0},
    {"NB027", "pytorch/pytorch#133085", rms, f16, {300, -300, 150, -150}, 1e-6, {1.2649, -1.2649, 0.6325, -0.6325}, 1e-3},
    {"NB028", "microsoft/onnxruntime#29034", rms, f16, full(1024, 300), 1e-6, {1}, 0, true},
    {"NB028",
     "microsoft/onnxruntime#29034",
     rms,
     f16,
     made(1024, [](double i) { return i == 0 ? 9000 : 1; }),
     1e-6,
     {31.9998, 0.003556},
     2e-2},
    {"NB030", "nntrainer/nntrainer#3935", rms, f32, {300, -300, 150, -150}, 1e-6, {1.2649, -1.2649, 0.6325, -0.6325}, 5e-5},
    {"NB030", "nntrainer/nntrainer#3935", rms, f32, full(4096, 5), 1e-6, {1}, 1e-6, true},
    {"NB031", "tenstorrent/tt-metal#55159", rms, f32, {2e19, -2e19, 1e19, 1e19}, 1e-6, {1.2649, -1.2649, 0.6325, 0.6325}, 5e-5},
    {"NB033", "Tencent/ncnn#6903", ln, f32, {1, 2, 3, 4}, 1e-5, {-1.34163542, -0.44721181, 0.44721181, 1.34163542}, 1.3e-6},
    // Epsilon in the wrong place, lost, ignored, or raised.
    {"NB035", "tracel-ai/burn#2185", ln, f32, {0, 1e-3}, 1e-5, {-0.15617, 0.15617}, 5e-6},
    {"NB039", "pytorch/pytorch#41527", ln, f16, full(10, 0), 1e-12, {0}, 0, true},
    {"NB040", "deepspeedai/DeepSpeed#581", ln, f16, full(10, 3), 1e-12, {0}, 0, true},
    {"NB041", "pytorch/pytorch#142848", rms, f16, full(8, 1e-2), 1.1920929e-7, {0.9994}, 5e-4, true},
    {"NB042", "nntrainer/nntrainer#4318", rms, f16, {std::sqrt(2e-4), -std::sqrt(2e-4)}, 1e-6, {0.9975, -0.9975}, 5e-4},
    {"NB044", "tensorflow/tensorflow#58863", ln, f32, {0, 1e-3}, 1e-3, {-0.015809, 0.015809}, 5e-7},
    // The wrong estimator, lost elements, rounded counts.
    {"NB052", "FluxML/Flux.jl#529", ln, f32, {1, 3}, 1e-5, {-0.999995, 0.999995}, 1e-6},
    {"NB065", "ggml-org/llama.cpp#26708", rms, f32, full(33, 1), 0, {1}, 0, true},
    {"NB077", "web-platform-tests/wpt#43893", ln, f32, {-1.5}, 1e-5, {0}, 0, true},
};

TEST(Reports, WhatTheReporterShouldHaveSeen) {
  int checked = 0;
  for (const Report& r : reports) {
    Call call{spec_of(r.op, r.epsilon), {}};
    call.inputs[Role::x] = Tensor::row(r.format, r.x);
    const Tensor y = call.get(Role::y, r.format);
    ASSERT_EQ(y.size(), r.x.size()) << r.id;
    const std::size_t count = r.all ? y.size() : r.expected.size();
    for (std::size_t i = 0; i < count; ++i, ++checked) {
      const double expected = r.expected[r.all ? 0 : i];
      if (r.tolerance == 0) {
        ASSERT_EQ(y[i], testing::value(r.format, testing::nearest(r.format, expected))) << r.id << " " << r.source << " [" << i << "]";
      } else {
        ASSERT_NEAR(y[i], expected, r.tolerance) << r.id << " " << r.source << " [" << i << "]";
      }
    }
  }
  EXPECT_GT(checked, 9'000);
}

// NB004 NVIDIA/trt-samples-for-hackathon-cn#88: one element of 10240 is another.
TEST(Reports, OneElementOfAVeryWideRow) {
  Call call{spec_of(ln, 1e-5), {}};
  call.inputs[Role::x] = Tensor::row(f32, made(10240, [](double i) { return i == 10239 ? 255 : 256; }));
  EXPECT_NEAR(call.get(Role::variance, f32)[0], 9.7647e-5, 5e-10);
  const Tensor y = call.get(Role::y, f32);
  EXPECT_NEAR(y[10239], -96.37, 5e-3);
  for (std::size_t i = 0; i < 10239; ++i) ASSERT_NEAR(y[i], 0.00942, 1e-5) << i;  // 0.009412; the report is rough
}

// NB014 pytorch/pytorch#188372: one element, far from zero, is exactly the bias.
TEST(Reports, OneElementIsTheBias) {
  Call call{spec_of(ln, 1e-5), {}};
  call.inputs[Role::x] = Tensor::row(f32, {1e6});
  call.inputs[Role::gamma] = Tensor::row(f32, {2});
  call.inputs[Role::beta] = Tensor::row(f32, {3});
  EXPECT_EQ(call.get(Role::y, f32)[0], 3);
}

// NB019 pytorch/pytorch#22192: six 0s here and two 8s there are one batch.
TEST(Reports, MomentsOfUnequalParts) {
  Call call{spec_of(Op::batch_norm_training), {}};
  call.inputs[Role::x] = Tensor::of(f32, {8, 1}, {0, 0, 0, 0, 0, 0, 8, 8});
  EXPECT_EQ(call.get(Role::mean, f32)[0], 2);
  EXPECT_EQ(call.get(Role::variance, f32)[0], 12);
}

// NB022 pytorch/executorch#16727: a count that f16 cannot hold is a count all the same.
TEST(Reports, CountsBeyondTheStorageFormat) {
  for (const std::size_t n : {std::size_t{2049}, std::size_t{65520}}) {
    Call call{spec_of(ln), {}};
    call.inputs[Role::x] = Tensor::row(f16, made(n, [](double i) { return 1 + std::fmod(i, 3); }));
    const Tensor y = call.get(Role::y, f16);
    EXPECT_EQ(y[1], 0) << n;  // 2, the mean, as n is a multiple of 3
    EXPECT_NEAR(y[2], std::sqrt(1.5), 1e-3);
    EXPECT_EQ(y[0], -y[2]);
  }
}

// NB050 ml-explore/mlx#3817, NB053 PaddlePaddle/Paddle#51120: what goes into the running statistics, and with which weight.
TEST(Reports, RunningStatistics) {
  Call call{spec_of(Op::batch_norm_training), {}};
  call.inputs[Role::x] = Tensor::of(f32, {4, 1}, {1, 2, 3, 4});
  call.inputs[Role::running_mean] = Tensor::row(f32, {0});
  call.inputs[Role::running_variance] = Tensor::row(f32, {1});
  EXPECT_NEAR(call.get(Role::running_variance, f32)[0], 1.0667, 5e-5);
  EXPECT_EQ(call.get(Role::running_mean, f32).bits(0), testing::nearest(f32, 0.25));
  EXPECT_EQ(call.get(Role::variance, f32)[0], 1.25);
  call.spec.profile.momentum = Momentum::weight_of_old;
  call.spec.momentum = 0.9;
  EXPECT_EQ(call.get(Role::running_mean, f32).bits(0), testing::nearest(f32, 0.25));
  call.spec.profile.running_variance = Estimator::biased;
  EXPECT_NEAR(call.get(Role::running_variance, f32)[0], 1.025, 5e-7);
}

// NB054 microsoft/onnxruntime#29790: y does not depend on momentum or running statistics, whose memory inputs may share.
TEST(Reports, RunningStatisticsStayOutOfY) {
  Call call{spec_of(Op::batch_norm_training), {}};
  call.inputs[Role::x] = Tensor::of(f32, {2, 4, 3}, made(24, [](double i) { return std::fmod(7 * i, 11); }));
  const Tensor ones = Tensor::row(f32, full(4, 1));
  const Tensor zeros = Tensor::row(f32, full(4, 0));
  const Tensor alone = call.get(Role::y, f32);
  ByRole<ConstView> in;
  ByRole<View> out;
  in[Role::x] = call.inputs[Role::x]->in();
  in[Role::gamma] = in[Role::running_variance] = ones.in();
  in[Role::beta] = in[Role::running_mean] = zeros.in();
  Tensor y(f32, {2, 4, 3});
  Tensor mean(f32, {4});
  Tensor variance(f32, {4});
  out[Role::y] = y.out();
  out[Role::running_mean] = mean.out();
  out[Role::running_variance] = variance.out();
  call.spec.momentum = 0.5;
  ASSERT_TRUE(compute(call.spec, in, out).ok());
  EXPECT_EQ(y.bytes(), alone.bytes());
}

// NB058 torch/nn#1271, NB059 pytorch/pytorch#12013: a batch of one value is refused where n - 1 divides, an empty one leaves things alone.
TEST(Reports, OneValueAndNone) {
  Call call{spec_of(Op::batch_norm_training), {}};
  call.inputs[Role::x] = Tensor::of(f32, {1, 1, 1, 1}, {7});
  call.inputs[Role::running_variance] = Tensor::row(f32, {1});
  ByRole<Tensor> results;
  results[Role::running_variance] = Tensor(f32, {1});
  EXPECT_EQ(call.run(results).code, Code::bad_shape);
  EXPECT_EQ(call.get(Role::y, f32)[0], 0);
}

// NB064 ROCm/aiter#5044, NB068 vllm-project/vllm#44692, NB112 vllm-project/vllm#48997, NB070 pytorch/pytorch#181555: a row of a batch is
// the row alone, whatever the width.
TEST(Reports, ARowOfABatchIsTheRowAlone) {
  testing::Random random(64);
  for (const std::int64_t width : {1, 2, 31, 33, 257, 512, 769, 1030}) {
    Call batch{spec_of(rms), {}};
    Tensor x(bf16, {7, width});
    for (std::size_t i = 0; i < x.size(); ++i) x.set(i, testing::nearest(bf16, static_cast<double>(random.between(-999, 999)) / 128));
    batch.inputs[Role::x] = x;
    const Tensor y = batch.get(Role::y, bf16);
    for (std::size_t row = 0; row < 7; ++row) {
      Call alone{spec_of(rms), {}};
      Tensor one(bf16, {width});
      for (std::size_t i = 0; i < one.size(); ++i) one.set(i, x.bits(row * one.size() + i));
      alone.inputs[Role::x] = one;
      const Tensor expected = alone.get(Role::y, bf16);
      for (std::size_t i = 0; i < one.size(); ++i)
        ASSERT_EQ(y.bits(row * one.size() + i), expected.bits(i)) << width << " " << row << " " << i;
    }
  }
}

// NB084 microsoft/onnxruntime#12917: gamma of the last axis alone, under two normalized axes.
TEST(Reports, ParametersOfTheLastAxisAlone) {
  Call call{spec_of(ln, std::nullopt, 1), {}};
  call.inputs[Role::x] = Tensor::of(f32, {1, 3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor plain = call.get(Role::y, f32);
  call.inputs[Role::gamma] = Tensor::row(f32, {1, 2});
  const Tensor scaled = call.get(Role::y, f32);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(scaled[i], plain[i] * (i % 2 == 0 ? 1 : 2));
}

// NB087 vllm-project/vllm#42379: a standardized value of 1.00390625 ties to 1 in bf16 if it is cast before the gain of 1.0078125; the
// product alone is past the middle between 1.0078125 and 1.015625. Inference with mean 0 and variance 1 makes it exactly that.
TEST(Reports, CastBeforeOrAfterTheGain) {
  Call call{spec_of(Op::batch_norm_inference, 0), {}};
  call.inputs[Role::x] = Tensor::of(f32, {1, 1}, {1.00390625});
  call.inputs[Role::mean] = Tensor::row(f32, {0});
  call.inputs[Role::variance] = Tensor::row(f32, {1});
  call.inputs[Role::gamma] = Tensor::row(bf16, {1.0078125});
  EXPECT_EQ(call.get(Role::y, bf16)[0], 1.015625);
  call.spec.profile.cast_before_gain = true;
  EXPECT_EQ(call.get(Role::y, bf16)[0], 1.0078125);
}

// NB088 linkedin/Liger-Kernel#1462: 1 + γ is formed exactly, not in the format of γ.
TEST(Reports, UnitOffset) {
  for (const auto& [gamma, gain] : {std::pair{0.00390625, 1.00390625}, {15.8125, 16.8125}}) {
    Call call{spec_of(rms, 0), {}};
    call.spec.profile.gain_offset = true;
    call.inputs[Role::x] = Tensor::row(bf16, {1});
    call.inputs[Role::gamma] = Tensor::row(bf16, {gamma});
    EXPECT_EQ(call.get(Role::y, f32)[0], gain);
  }
}

// NB093 apple/coreai-torch#54: statistics keep their own format.
TEST(Reports, StatisticsBeyondTheFormatOfX) {
  Call call{spec_of(Op::batch_norm_inference), {}};
  call.inputs[Role::x] = Tensor::of(f16, {1, 1}, {1000});
  call.inputs[Role::mean] = Tensor::row(f32, {0});
  call.inputs[Role::variance] = Tensor::row(f32, {70000});
  EXPECT_NEAR(call.get(Role::y, f16)[0], 3.7796, 1e-3);
}

}  // namespace
}  // namespace norma
