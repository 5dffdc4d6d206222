// An op as a rule that makes groups: two nests of loops, one over the groups and one over the elements of a group, with a stride per
// tensor and loop. Broadcasting, layouts, groups of channels and views are nothing but strides.
#pragma once

#include <array>
#include <vector>

#include "norma/spec.h"
#include "norma/status.h"

namespace norma {

// An offset in elements, by role, into each input and each output.
struct Offsets {
  std::array<std::int64_t, role_count> in{};
  std::array<std::int64_t, role_count> out{};
};

struct Loop {
  std::int64_t extent;
  Offsets stride;
};

struct Nest {
  std::vector<Loop> over_groups;
  std::vector<Loop> in_group;
  std::int64_t groups;
  std::int64_t n;  // elements of a group
};

// Validates everything about a call but the numbers in its tensors. `outputs` need no memory where `memory` is false.
Result<Nest> make_nest(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, bool memory);

// Calls visit(offsets) at every point of the nest, last loop fastest, from `offsets` on.
template <class Visit>
void walk(const std::vector<Loop>& loops, Offsets offsets, const Visit& visit, std::size_t depth = 0) {
  if (depth == loops.size()) return visit(offsets);
  const Loop& loop = loops[depth];
  const bool innermost = depth + 1 == loops.size();
  for (std::int64_t i = 0; i < loop.extent; ++i) {
    if (innermost) {
      visit(offsets);
    } else {
      walk(loops, offsets, visit, depth + 1);
    }
    for (std::size_t r = 0; r < role_count; ++r) {
      offsets.in[r] += loop.stride.in[r];
      offsets.out[r] += loop.stride.out[r];
    }
  }
}

}  // namespace norma
