// What the dispatching code knows of the kernels. Each is compiled once per instruction set.
#pragma once

#include <cstddef>

#include "ladder.h"

namespace norma::simd {

// Each returns false if there was no memory; then some of y may be missing. No stride of the call is 0.

// Rows [begin, end) of layer_norm or rms_norm.
bool rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters);
// Groups [begin, end) of the other ops in channels_first memory.
bool runs(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters);
// Units [begin, end) of the other ops in channels_last memory: rule.together adjacent groups of a case, or of the batch.
bool columns(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters);

// Of the ops other than layer_norm and rms_norm.
inline std::size_t channels_of_group(const Call& call) { return call.op == Op::group_norm ? call.channels / call.groups : 1; }

// As many groups as fit a slice of columns, so that a vector is full of them, and one if that is wider. Narrower where threads share them.
inline constexpr std::size_t slice_columns = 64;
inline std::size_t groups_of_unit(const Call& call) {
  const std::size_t width = call.executor != nullptr && call.executor->threads() > 1 ? slice_columns / 4 : slice_columns;
  const std::size_t channels = channels_of_group(call);
  return channels >= width ? 1 : width / channels;
}

// A buffer of this thread, kept until it ends; null if there is no memory.
std::byte* scratch(std::size_t bytes);

}  // namespace norma::simd
