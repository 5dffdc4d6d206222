// What the dispatching code knows of the kernels. Each is compiled once per instruction set.
#pragma once

#include <cstddef>

#include "ladder.h"

namespace norma::simd {

// Rows [begin, end) of layer_norm or rms_norm, whose strides are not 0. False if there was no memory; then rows may be missing.
bool rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters);

// A buffer of this thread, kept until it ends; null if there is no memory.
std::byte* scratch(std::size_t bytes);

}  // namespace norma::simd
