// How much of a random test to run. NORMA_TEST_SCALE multiplies the number of random cases: 1 (the default) is what every change runs,
// 10 and more are the long tiers. Nothing else in the tests reads the environment.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace norma::testing {

inline std::int64_t scaled(std::int64_t cases) {
  static const std::int64_t scale = [] {
    const char* text = std::getenv("NORMA_TEST_SCALE");
    return text == nullptr ? std::int64_t{1} : std::stoll(text);
  }();
  return cases * scale;
}

}  // namespace norma::testing
