// How much of a random test to run. NORMA_TEST_SCALE multiplies the number of random cases: 1 (the default) is what every change runs,
// 10 and more are the long tiers, and less than 1 is for builds in which everything is slow. Nothing else in the tests reads the
// environment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace norma::testing {

inline std::int64_t scaled(std::int64_t cases) {
  static const double scale = [] {
    const char* text = std::getenv("NORMA_TEST_SCALE");
    return text == nullptr ? 1 : std::stod(text);
  }();
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(cases) * scale));
}

}  // namespace norma::testing
