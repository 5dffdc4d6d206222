#include <array>
#include <string>

#include "norma/generate.h"
#include "sources.h"

namespace norma::properties {
namespace {

constexpr std::uint64_t seed = 9, looked_at = 1500;
constexpr int deepest = 24;  // 2^-24 ulp
constexpr std::size_t least = 5, of_a_depth = 1, exact_ones = 4;

}  // namespace

// The first cases of every depth: y is 2^-depth ulp from the middle between two numbers, where a computation in so many more bits does not
// know yet where it rounds to.
std::vector<Vector> tie_vectors() {
  std::vector<Vector> all;
  for (const Op op : subject_ops()) {
    for (const Format format : formats_of_x) {
      std::array<std::size_t, deepest + 1> seen{};
      std::size_t exact = 0;
      for (std::uint64_t i = 0; i < looked_at; ++i) {
        const Wish wish{.ops = {op},
                        .formats = {format},
                        .tame = true,
                        .most_rows = 2,
                        .least_n = 2,
                        .most_n = 9,
                        .plain_profile = true,
                        .epsilon_zero = true,
                        .family = i % 2 == 0 ? "small_integers" : "ordinary"};
        Case c = generate(wish, seed, i).value();
        const Tie tie = closest_tie(c);
        if (tie.exact) {
          if (exact++ < exact_ones) all.push_back({std::move(c), "an exact tie"});
          continue;
        }
        std::size_t depth = 0;
        for (double d = tie.distance; depth < deepest && d < 0.5; d *= 2) ++depth;
        if (depth < least || seen[depth]++ >= of_a_depth) continue;
        all.push_back({std::move(c), "2^-" + std::to_string(depth) + " ulp from a tie"});
      }
    }
  }
  return all;
}

}  // namespace norma::properties
