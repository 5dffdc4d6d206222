// A plain implementation of every op, with places where it can be broken.
#pragma once

#include "norma/harness.h"

namespace norma::properties {

// What is wrong with a mutant: one thing. What each is about, and who was bitten by it, is said in the table of mutants.cc.
enum class Fault : std::uint8_t {
  none,
  // which elements
  stride_ignored,
  y_stride_ignored,
  wrong_axis,
  groups_swapped,
  whole_batch,
  row_leak,
  stale_mean,
  tail_dropped,
  tail_dropped_in_variance,
  tail_counted_twice,
  padded_count,
  partials_dropped,
  size_band,
  index_overflow,
  // which parameter
  parameter_off_by_one,
  parameter_not_broadcast,
  gamma_ignored,
  beta_ignored,
  beta_before_gain,
  unit_offset_added,
  unit_offset_rounded,
  // which formula
  epsilon_outside,
  epsilon_maximum,
  epsilon_floored,
  epsilon_fixed,
  epsilon_lost,
  variance_unbiased,
  variance_cut,
  folded_offset,
  blocks_merged_plainly,
  no_root,
  mean_not_subtracted,
  mean_subtracted,
  cast_before_gain,
  clipped,
  running_ignored_estimator,
  momentum_swapped,
  running_in_one_buffer,
  normalizes_by_running,
  rstd_is_variance,
  mean_without_last,
  one_value_unguarded,
  one_value_running_unguarded,
  empty_unguarded,
  // which arithmetic
  count_f16,
  epsilon_f16,
  single_pass,
  accumulates_f16,
  accumulates_bf16,
  squares_f16,
  rstd_bf16,
  rstd_approximate,
  mean_rounded,
  variance_f16,
  flushes_subnormals,
  zero_unsigned,
  nan_swallowed,
  order_of_rows,
  order_of_address,
  order_of_calls,
  // which memory
  writes_beyond,
  writes_before,
  writes_input,
  leaves_last,
  reads_after_writing,
  crashes_at_one,
};

// How the honest part computes.
struct Recipe {
  Arithmetic::Algorithm algorithm = Arithmetic::Algorithm::two_pass;
  int lanes = 1;  // partial sums
  Fault fault = Fault::none;
};

// The outputs of BuiltIn::normalize, computed in f32 (f64 where x is).
Status normalize_plainly(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, const Recipe& recipe);

}  // namespace norma::properties
