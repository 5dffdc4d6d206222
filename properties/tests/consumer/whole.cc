// Tensors through bytes and back, and what this machine can do, through the installed libraries.
#include <cstdio>

#include "norma/targets.h"
#include "norma/tensor_file.h"

int main() {
  const auto bytes = norma::serialize_npz({{{"x", norma::Format::f16, {2, 3}, std::vector<std::byte>(12)}}, {{"op", "layer_norm"}}, {}});
  if (!bytes.ok() || !norma::parse_npz(*bytes).ok() || norma::simd::targets().empty()) return 1;
  std::puts("whole");
}
