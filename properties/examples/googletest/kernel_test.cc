#include <cmath>

#include "norma/suite.h"

namespace {

void layer_norm(const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows, std::int64_t cols, float epsilon) {
  for (; rows > 0; --rows, x += cols, y += cols) {
    float mean = 0, variance = 0;
    for (std::int64_t i = 0; i < cols; ++i) mean += x[i];
    mean /= static_cast<float>(cols);
    for (std::int64_t i = 0; i < cols; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const float rstd = 1 / std::sqrt(variance / static_cast<float>(cols) + epsilon);
    for (std::int64_t i = 0; i < cols; ++i) {
      const float gain = gamma == nullptr ? 1 : gamma[i], bias = beta == nullptr ? 0 : beta[i];
      y[i] = (x[i] - mean) * rstd * gain + bias;
    }
  }
}

NORMA_SUITE(LayerNorm, norma::properties::row_kernel("layer_norm", norma::Op::layer_norm, layer_norm));

}  // namespace
