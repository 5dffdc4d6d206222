// The instruction sets that the production path can use on this machine.
#pragma once

#include <string>
#include <vector>

namespace norma::simd {

// Highway's names of the targets that it would compile code for here and that this processor runs, best first: AVX2, SSE4, NEON ...
[[nodiscard]] std::vector<std::string> targets();

}  // namespace norma::simd
