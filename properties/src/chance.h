// What generators draw from a random stream. No two draws are in one expression, unless it says which is first: compilers differ.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <vector>

namespace norma::properties {

inline std::int64_t between(rc::Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(high - low + 1));
}
inline bool one_in(rc::Random& random, int n) { return random.next() % static_cast<unsigned>(n) == 0; }
template <class T>
const T& one_of(rc::Random& random, const std::vector<T>& values) {
  return values[random.next() % values.size()];
}
inline double uniform(rc::Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }  // [0, 1)
inline double bell(rc::Random& random) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += uniform(random);
  return (sum - 2) * 1.7320508;
}

}  // namespace norma::properties
