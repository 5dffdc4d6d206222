// The instruction sets that the production path can use on this machine.
#pragma once

#include <string>
#include <vector>

namespace norma::simd {

// Highway's names of the targets this build contains code for and this processor can run, best first: AVX3_ZEN4, AVX2, SSE4, NEON ...
[[nodiscard]] std::vector<std::string> targets();

}  // namespace norma::simd
