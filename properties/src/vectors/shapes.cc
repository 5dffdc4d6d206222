// Shapes that neither people's reports nor the generator have: rows along several axes, and more channels than a table on a chip holds.
#include <cmath>

#include "norma/generate.h"
#include "sources.h"

namespace norma::properties {
std::vector<Vector> shape_vectors() {
  constexpr std::int64_t cols = 5, channels = 130;
  std::vector<Vector> all;
  for (const Op op : subject_ops()) {
    for (const Format format : formats_of_x) {
      const bool by_row = info(op).grouping == Grouping::trailing;
      const std::int64_t parameters = by_row ? cols : channels;
      const Shape shape = by_row ? Shape{2, 3, cols} : Shape{1, channels, 3};
      Written w(op, format, shape, made(product(shape.begin(), shape.end()), [](double i) { return std::fmod(i * 7, 31) / 8 - 1; }));
      if (op == Op::group_norm) w.c.spec.groups = 2;
      Written affine = std::move(w)
                           .with(Role::gamma, made(parameters, [](double i) { return 1 + i / 128; }))
                           .with(Role::beta, made(parameters, [](double i) { return std::fmod(i, 9) / 4 - 1; }));
      const char* const comment = by_row ? "rows along two axes" : "130 channels, each with a gain of its own";
      if (!info(op).given_statistics) {
        all.push_back({std::move(affine.c), comment});
        continue;
      }
      Written given = std::move(affine)
                          .with(Role::mean, made(parameters, [](double i) { return std::fmod(i, 5) / 4; }))
                          .with(Role::variance, made(parameters, [](double i) { return 1 + std::fmod(i, 3); }));
      all.push_back({std::move(given.c), comment});
    }
  }
  return all;
}

}  // namespace norma::properties
