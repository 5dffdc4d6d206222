// What others got wrong, by their public reports: the inputs, and the right outputs. What shows in no value (strides, aliases, races, the
// batch beside a row) is a law of norma check instead.
#include <cmath>
#include <limits>

#include "sources.h"

namespace norma::properties {
namespace {

using Values = std::vector<double>;

Values filled(std::size_t n, double value) { return Values(n, value); }
Values but_last(std::size_t n, double value, double last) {
  Values all(n, value);
  all.back() = last;
  return all;
}
Values steps(double from) { return {from, from + 1, from + 2, from + 3}; }
double step_of(double i) { return std::fmod(i * 7, 13) - 6; }  // neither constant nor of mean zero in any part

constexpr Op ln = Op::layer_norm, rms = Op::rms_norm, training = Op::batch_norm_training;
constexpr Format f32 = Format::f32, f16 = Format::f16, bf16 = Format::bf16;

Written row(Op op, Format format, const Values& x, double epsilon = 1e-5) {
  const auto n = static_cast<std::int64_t>(x.size());
  return {op, format, op == training ? Shape{n, 1} : Shape{1, n}, x, epsilon};
}
Profile offset_gain() {
  Profile p;
  p.gain_offset = true;
  return p;
}
Profile cast_first() {
  Profile p;
  p.cast_before_gain = true;
  return p;
}
Profile momentum_of_old() {
  Profile p;
  p.momentum = Momentum::weight_of_old;
  return p;
}

}  // namespace

std::vector<Vector> reported_vectors() {
  std::vector<Vector> all;
  const auto add = [&](const char* comment, Written w) { all.push_back({std::move(w.c), comment}); };
  for (const double mean : {40000.0, 80000.0, 10000.0, 4096.0}) {
    add("NB001 microsoft/onnxruntime#28463, NB002 apache/tvm#19592: E[x^2] - E[x]^2 cancels", row(ln, f32, steps(mean)));
  }
  add("NB003 microsoft/onnxruntime#21935: a flat row was NaN", row(ln, f32, filled(256, 1234)));
  add("NB004 NVIDIA/trt-samples-for-hackathon-cn#88: one element of 10240 is off by one", row(ln, f32, but_last(10240, 256, 255)));
  for (const double mean : {0.0, 100.0, 1000.0, 10000.0}) {
    add("NB006 tracel-ai/burn#5607: the same steps at a larger mean", row(ln, f32, made(16, [&](double i) { return mean + i * 1e-3; })));
  }
  add("NB007 tenstorrent/tt-metal#45968: a batch in bfloat16", row(training, bf16, made(8, [](double i) { return 5 + 0.1 * (i - 3.5); })));
  add("NB008 google/flax#1491: a flat channel", row(training, f32, filled(4096, 1000.1)));
  add("NB008 google/flax#1491: a variance clamped at 0 is still wrong", row(training, f32, steps(10000)));
  add("NB011 pytorch/pytorch#190491: a variance below a floor", row(ln, f32, {-9.9e-4, -9.9e-4, 9.9e-4, 9.9e-4}, 1e-12));
  add("NB013 pytorch/pytorch#108072: x*a - mean*a, each rounded", row(ln, f32, {14, 14}, 1e-6));
  add("NB013 pytorch/pytorch#108072: the same, amplified", row(ln, f32, {1e6, 1e6}));
  add("NB014 pytorch/pytorch#188372: a row of one is beta", row(ln, f32, {1e6}).with(Role::gamma, {2}).with(Role::beta, {3}));
  add("NB015 intel/torch-xpu-ops#1374: a large flat row", row(ln, f32, filled(5, 1e15)));
  add("NB015 intel/torch-xpu-ops#1374: a mean that rounds", row(ln, f32, filled(3, 12345.678)));
  add("NB019 pytorch/pytorch#22192: halves of unequal size", row(training, f32, {0, 0, 0, 0, 0, 0, 8, 8}));
  add("NB022 pytorch/executorch#16727: 2049 is no float16", row(ln, f16, made(2049, [](double i) { return 1 + std::fmod(i, 3); })));
  add("NB022 pytorch/executorch#16727: 257 is no bfloat16", row(ln, bf16, made(257, [](double i) { return 1 + std::fmod(i, 3); })));
  add("NB022 pytorch/executorch#16727: 769 is no bfloat16", row(ln, bf16, made(769, [](double i) { return 1 + std::fmod(i, 3); })));
  add("NB023 openvinotoolkit/openvino#35942: sums of ones in float16 stop at 2048",
      {Op::instance_norm, f16, {1, 1, 4112}, made(4112, [](double i) { return 1 - 2 * std::fmod(i, 2); }), 1e-6});
  for (const Format f : {f16, f32}) {
    add("NB027 pytorch/pytorch#133085, NB030 nntrainer/nntrainer#3935: 300 squared is no float16",
        row(rms, f, {300, -300, 150, -150}, 1e-6));
  }
  add("NB028 microsoft/onnxruntime#29034: a sum of squares that is no float16", row(rms, f16, filled(1024, 300), 1e-6));
  add("NB028 microsoft/onnxruntime#29034: one square that is no float16", row(rms, f16, but_last(1024, 1, 9000), 1e-6));
  add("NB030 nntrainer/nntrainer#3935: 4096 times 25 is no float16", row(rms, f32, filled(4096, 5), 1e-6));
  for (const Op op : {rms, ln}) {
    add("NB031 tenstorrent/tt-metal#55159: squares that are no float32", row(op, f32, {2e19, -2e19, 1e19, 1e19}, 1e-6));
    add("NB031 tenstorrent/tt-metal#55159: squares that underflow", row(op, f32, {2e-23, -2e-23, 1e-23, 1e-23}, 0));
  }
  add("NB033 Tencent/ncnn#6903: an approximate reciprocal root", row(ln, f32, {1, 2, 3, 4}));
  add("NB033 Tencent/ncnn#6903: an approximate reciprocal root", row(rms, f32, {1, 2, 3, 4}));
  add("NB035 tracel-ai/burn#2185: epsilon outside of the root", row(ln, f32, {0, 1e-3}));
  add("NB039 pytorch/pytorch#41527: epsilon is no float16", row(ln, f16, filled(10, 0), 1e-12));
  add("NB039 pytorch/pytorch#41527: epsilon is no float16", row(ln, f16, filled(10, 0), 1e-8));
  add("NB040 deepspeedai/DeepSpeed#581: a flat row, and epsilon is no float16", row(ln, f16, filled(10, 0.7), 1e-12));
  for (const Format f : {f16, bf16}) {
    add("NB041 pytorch/pytorch#142848: the default epsilon of another format", row(rms, f, filled(8, 1e-2), 0x1p-23));
  }
  add("NB042 nntrainer/nntrainer#4318: a floor in place of epsilon", row(rms, f16, {std::sqrt(2e-4), -std::sqrt(2e-4)}, 1e-6));
  for (const double epsilon : {1e-3, 1e-5, 1e-6}) {
    add("NB044 tensorflow/tensorflow#58863: epsilon is not looked at", row(ln, f32, {0, 1e-3}, epsilon));
    add("NB044 tensorflow/tensorflow#58863: epsilon is not looked at", row(rms, f32, {1e-3, -1e-3}, epsilon));
  }
  add("NB050 ml-explore/mlx#3817: the running variance is unbiased", row(training, f32, {1, 2, 3, 4}).running({0}, {1}, 0.1));
  add("NB050 ml-explore/mlx#3817: the running variance is unbiased", row(training, f32, {1, 2}).running({0}, {1}, 0.1));
  add("NB052 FluxML/Flux.jl#529: divided by n - 1", row(ln, f32, {1, 3}));
  for (const double momentum : {0.1, 0.0, 1.0}) {
    add("NB053 PaddlePaddle/Paddle#51120: what the momentum multiplies",
        row(training, f32, {1, 2, 3, 4}).with(momentum_of_old()).running({0.5}, {2}, momentum));
  }
  add("NB054 microsoft/onnxruntime#29790: y takes nothing from the running statistics", Written{training, f32, {2, 4, 3}, made(24, step_of)}
                                                                                            .with(Role::gamma, filled(4, 1))
                                                                                            .with(Role::beta, filled(4, 0))
                                                                                            .running(filled(4, 0), filled(4, 1), 0.5));
  add("NB058 torch/nn#1271: a batch of one value", Written{training, f32, {1, 1}, {3}}.with(Role::beta, {0.5}));
  add("NB059 pytorch/pytorch#12013: an empty batch", {training, f32, {0, 5, 9}, {}});
  add("NB059 pytorch/pytorch#12013: an empty batch leaves the running statistics as they are",
      Written{training, f32, {0, 2, 9}, {}}.running({0.5, -1}, {2, 3}, 0.1));
  add("NB064 ROCm/aiter#5044: 769 elements, in blocks",
      Written{rms, f16, {2, 769}, made(1538, step_of)}.with(Role::gamma, made(769, [](double i) { return 1 + std::fmod(i, 5) / 8; })));
  add("NB065 ggml-org/llama.cpp#26708: 33 ones", row(rms, f32, filled(33, 1)));
  add("NB066 ROCm/rocm-libraries#9030: 1030 elements, in blocks of 4", row(training, f32, made(1030, step_of)));
  for (const std::int64_t n : {257, 384, 512}) {
    for (const Format f : {f16, bf16}) {
      add("NB067 lablup/mlxcel#1033: rows of 257 to 512", {rms, f, {2, n}, made(2 * n, step_of), 1e-6});
    }
  }
  add("NB068 vllm-project/vllm#44692: a loop of three rounds", row(rms, bf16, made(3072, step_of), 1e-6));
  add("NB070 pytorch/pytorch#181555: an offset beyond what the index holds, here 15 bits",
      {ln, f16, {33, 1024}, made(33 * 1024, [](double i) { return std::fmod(i * 7, 1021) / 64; })});
  for (const int axis : {-1, 1}) {
    Written w{ln, f32, {2, 3}, {1, 2, 4, 8, 16, 64}};
    w.c.spec.axis = axis;
    add("NB074 microsoft/onnxruntime#26407: the axis from either end", std::move(w));
  }
  add("NB077 web-platform-tests/wpt#43893: a row of one", row(ln, f32, {-1.5}));
  Written two_axes{ln, f32, {1, 3, 2}, {3, 1, 4, 1, 5, 9}};
  two_axes.c.spec.axis = 1;
  add("NB084 microsoft/onnxruntime#12917: a gain of two axes",
      std::move(two_axes).with(Role::gamma, {1, 2, 1, 2, 1, 2}).with(Role::beta, {0, 1, 0, 1, 0, 1}));
  for (const Profile& profile : {Profile(), cast_first()}) {
    add("NB087 vllm-project/vllm#42379: rounded before the gain, or after",
        row(rms, bf16, made(32, [](double i) { return 1 + i / 16; })).with(profile).with(Role::gamma, filled(32, 1.0078125)));
  }
  add("NB088 linkedin/Liger-Kernel#1462: the gain is 1 + gamma",
      row(rms, bf16, {1, -1, 2, -2}).with(offset_gain()).with(Role::gamma, {0.00390625, 15.8125, 0.00390625, 15.8125}));
  add("NB093 apple/coreai-torch#54: statistics that are no float16",
      Written{Op::batch_norm_inference, f16, {1, 1, 2}, {1000, -3}}.with(Role::mean, {0}, f32).with(Role::variance, {70000}, f32));
  add("NB112 vllm-project/vllm#48997: a row of 2048", row(rms, bf16, made(2048, [](double i) { return step_of(i) / 8; }), 1e-6));
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  add("NB113 pytorch/pytorch#173885: rows that are not finite, beside one that is",
      {ln, f16, {3, 4}, {inf, 1, 2, 3, 1, 2, 3, 4, nan, 1, 2, 3}});
  add("NB114 tensorflow/tensorflow#46366: no rows", {ln, f32, {0, 10}, {}});
  add("NB114 tensorflow/tensorflow#46366: no rows", {ln, f32, {1, 0, 10}, {}});
  add("NB114 tensorflow/tensorflow#46366: rows without elements", {ln, f32, {3, 0}, {}});
  return all;
}

}  // namespace norma::properties
