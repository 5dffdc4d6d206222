#include "norma/mutants.h"

#include <string>

#include "kernel.h"

namespace norma::properties {
namespace {

struct Entry {
  Mutant mutant;
  Fault fault;
};

constexpr Entry table[] = {
    {{"stride-ignored", "reads x as if it were contiguous", "microsoft/DirectML#588", "strides_honoured"}, Fault::stride_ignored},
    {{"y-stride-ignored", "writes y as if it were contiguous", "", "strides_honoured"}, Fault::y_stride_ignored},
    {{"wrong-axis", "normalizes the last axis, whichever was asked for", "microsoft/onnxruntime#26407", "agrees_with_reference"},
     Fault::wrong_axis},
    {{"groups-swapped", "channel modulo groups instead of runs of channels", "", "agrees_with_reference"}, Fault::groups_swapped},
    {{"whole-batch", "one mean and variance for all rows", "", "no_leak"}, Fault::whole_batch},
    {{"row-leak", "the last element of a row is read from the next row", "", "no_leak"}, Fault::row_leak},
    {{"stale-mean", "the mean is that of the row before: a missing barrier", "ml-explore/mlx#2340", "mean_zero"}, Fault::stale_mean},
    {{"tail-dropped", "sums leave out the last n mod 4 elements", "ROCm/aiter#5044", "tails"}, Fault::tail_dropped},
    {{"tail-dropped-in-variance", "the sum of squares leaves out the last n mod 4 elements", "", "tails"}, Fault::tail_dropped_in_variance},
    {{"tail-counted-twice", "the last element of an odd tail is added twice", "", "tails"}, Fault::tail_counted_twice},
    {{"padded-count", "sums are divided by n rounded up to a multiple of 4", "", "count_exact"}, Fault::padded_count},
    {{"partial-reduction-drop", "the second stage of a sum has as many lanes as the last block", "ggml-org/llama.cpp#26708", "tails"},
     Fault::partials_dropped},
    {{"size-band-dispatch", "lengths of 33 to 64 lose an element", "lablup/mlxcel#1033", "tails"}, Fault::size_band},
    {{"index-overflow", "offsets of 16 bits", "pytorch/pytorch#181555", "large_n"}, Fault::index_overflow},
    {{"parameter-off-by-one", "gamma and beta of the next column", "", "parameter_locality"}, Fault::parameter_off_by_one},
    {{"param-broadcast", "gamma and beta by the flat index of x", "microsoft/onnxruntime#12917", "parameter_locality"},
     Fault::parameter_not_broadcast},
    {{"gamma-ignored", "gamma is not looked at", "", "gain_zero_is_beta"}, Fault::gamma_ignored},
    {{"beta-ignored", "beta is not looked at", "", "gain_zero_is_beta"}, Fault::beta_ignored},
    {{"beta-before-gain", "(x̂ + β)·γ", "", "gain_zero_is_beta"}, Fault::beta_before_gain},
    {{"unit-offset-added", "1 + γ where γ was meant", "", "gain_zero_is_beta"}, Fault::unit_offset_added},
    {{"unit-offset-rounded", "1 + γ is rounded to the format of γ", "linkedin/Liger-Kernel#1462", "agrees_with_reference"},
     Fault::unit_offset_rounded},
    {{"epsilon-outside-root", "1/(σ + ε)", "tracel-ai/burn#2185", "epsilon_inside_root"}, Fault::epsilon_outside},
    {{"epsilon-as-maximum", "max(σ², ε) for σ² + ε", "", "variance_one"}, Fault::epsilon_maximum},
    {{"epsilon-floored", "no ε below 1e-5", "nntrainer/nntrainer#4318", "epsilon_zero"}, Fault::epsilon_floored},
    {{"epsilon-ignored", "ε is always 1e-5", "tensorflow/tensorflow#58863", "epsilon_inside_root"}, Fault::epsilon_fixed},
    {{"epsilon-lost", "ε is not added", "", "flat_row_finite"}, Fault::epsilon_lost},
    {{"epsilon-lost-in-half", "ε is rounded to f16", "pytorch/pytorch#41527", "epsilon_inside_root"}, Fault::epsilon_f16},
    {{"unbiased-variance", "divides by n − 1", "FluxML/Flux.jl#529", "variance_one"}, Fault::variance_unbiased},
    {{"variance-clamp-floor", "a variance below 1e-6 is 0", "pytorch/pytorch#190491", "variance_one"}, Fault::variance_cut},
    {{"variance-for-deviation", "divides by σ² + ε", "", "variance_one"}, Fault::no_root},
    {{"mean-not-subtracted", "x·rstd", "", "mean_zero"}, Fault::mean_not_subtracted},
    {{"mean-subtracted", "rms_norm subtracts the mean", "", "rms_norm_feels_shift"}, Fault::mean_subtracted},
    {{"folded-affine-cancellation", "x·rstd − mean·rstd", "pytorch/pytorch#108072", "shift_invariance"}, Fault::folded_offset},
    {{"moment-merge-weights", "the mean of two blocks is the average of their means", "pytorch/pytorch#22192", "mean_zero"},
     Fault::blocks_merged_plainly},
    {{"cast-order", "x̂ is rounded to the format of y before the gain, unasked", "vllm-project/vllm#42379", "agrees_with_reference"},
     Fault::cast_before_gain},
    {{"clipped", "x̂ is kept within ±4", "", "variance_one"}, Fault::clipped},
    {{"bessel-running-variance", "running_variance takes the other estimator", "ml-explore/mlx#3817", "running_update"},
     Fault::running_ignored_estimator},
    {{"momentum-swapped", "momentum weighs the other one", "PaddlePaddle/Paddle#51120", "running_update"}, Fault::momentum_swapped},
    {{"running-in-one-buffer", "running_mean takes the variance", "", "running_update"}, Fault::running_in_one_buffer},
    {{"aliased-params-running-stats", "normalizes by the running statistics", "microsoft/onnxruntime#29790", "agrees_with_reference"},
     Fault::normalizes_by_running},
    {{"rstd-is-variance", "gives the variance for rstd", "", "auxiliary_outputs"}, Fault::rstd_is_variance},
    {{"mean-output-wrong", "gives 7/8 of the mean", "", "auxiliary_outputs"}, Fault::mean_without_last},
    {{"single-element-axis", "leaves out ε where n = 1", "web-platform-tests/wpt#43893", "batch_of_one"}, Fault::one_value_unguarded},
    {{"bn-one-value", "n/(n − 1) for n = 1", "torch/nn#1271", "batch_of_one"}, Fault::one_value_running_unguarded},
    {{"empty-input", "the statistics of an empty batch go into the running ones", "pytorch/pytorch#12013", "empty_and_single"},
     Fault::empty_unguarded},
    {{"count-in-lowprec", "n is rounded to f16", "pytorch/executorch#16727", "count_exact"}, Fault::count_f16},
    {{"cancellation-single-pass", "σ² = Σx²/n − μ²", "microsoft/onnxruntime#28463", "agrees_with_reference"}, Fault::single_pass},
    {{"lowprec-accumulate", "sums in f16", "openvinotoolkit/openvino#35942", "agrees_with_reference"}, Fault::accumulates_f16},
    {{"accumulates-bf16", "sums in bf16", "", "agrees_with_reference"}, Fault::accumulates_bf16},
    {{"square-overflow-half", "squares in f16", "pytorch/pytorch#133085", "agrees_with_reference"}, Fault::squares_f16},
    {{"rstd-in-bf16", "rstd is rounded to bf16", "", "agrees_with_reference"}, Fault::rstd_bf16},
    {{"rsqrt-approx", "rstd to 12 bits", "Tencent/ncnn#6903", "variance_one"}, Fault::rstd_approximate},
    {{"two-pass-mean-rounding", "the mean is rounded to bf16", "intel/torch-xpu-ops#1374", "mean_zero"}, Fault::mean_rounded},
    {{"mixed-dtype-params", "the given variance is rounded to f16", "apple/coreai-torch#54", "mixed_formats"}, Fault::variance_f16},
    {{"flushes-subnormals", "subnormal inputs and outputs are zeros", "", "subnormals_kept"}, Fault::flushes_subnormals},
    {{"zero-unsigned", "every zero is +0", "", "signed_zero"}, Fault::zero_unsigned},
    {{"nonfinite-handling", "a row with NaN or infinity is normalized as if it were not there", "pytorch/pytorch#173885",
      "non_finite_contained"},
     Fault::nan_swallowed},
    {{"batch-variance", "the order of sums depends on the number of rows", "vllm-project/vllm#48997", "batch_independence"},
     Fault::order_of_rows},
    {{"alignment-order", "the order of sums depends on the address of x", "", "alignment"}, Fault::order_of_address},
    {{"nondeterministic", "the order of sums changes from call to call", "", "deterministic"}, Fault::order_of_calls},
    {{"writes-beyond", "stores whole vectors of four", "", "no_overrun"}, Fault::writes_beyond},
    {{"writes-before", "writes before y", "", "no_overrun"}, Fault::writes_before},
    {{"writes-input", "writes to x", "", "input_unchanged"}, Fault::writes_input},
    {{"leaves-last", "leaves the last element unwritten", "", "no_overrun"}, Fault::leaves_last},
    {{"reads-after-writing", "reads x again after y is written", "", "in_place"}, Fault::reads_after_writing},
    {{"crashes-at-one", "dies where n = 1", "", "empty_and_single"}, Fault::crashes_at_one},
};

Status plainly(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return normalize_plainly(spec, inputs, outputs, {});
}

constexpr std::string_view by_design = "bitwise=batch_independence,alignment,scale_invariance";

}  // namespace

const std::vector<BuiltIn>& honest_kernels() {
  static const std::vector<BuiltIn> kernels{
      {"plain", "two passes, one loop a sum", "algorithm=two_pass depth=n-1 " + std::string(by_design), plainly},
      {"blocked", "two passes, 16 sums side by side", "algorithm=two_pass depth=n/16 " + std::string(by_design),
       [](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
         return normalize_plainly(spec, inputs, outputs, {Arithmetic::Algorithm::two_pass, 16, Fault::none});
       }},
      {"welford", "one pass, Welford's update", "algorithm=welford depth=n-1 " + std::string(by_design),
       [](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
         return normalize_plainly(spec, inputs, outputs, {Arithmetic::Algorithm::welford, 1, Fault::none});
       }},
  };
  return kernels;
}

std::span<const Mutant> mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> list;
    for (const Entry& entry : table) list.push_back(entry.mutant);
    return list;
  }();
  return all;
}

BuiltIn built_in(const Mutant& mutant) {
  Recipe recipe;
  for (const Entry& entry : table) {
    if (entry.mutant.name == mutant.name) recipe.fault = entry.fault;
  }
  return {"mutant:" + std::string(mutant.name), std::string(mutant.fault), "algorithm=two_pass depth=n-1 " + std::string(by_design),
          [recipe](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
            return normalize_plainly(spec, inputs, outputs, recipe);
          }};
}

}  // namespace norma::properties
