#include <string>

#include "norma/generate.h"
#include "sources.h"

namespace norma::properties {
namespace {

// Around what a vector, a block or a counter in half precision holds.
constexpr std::int64_t sizes[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 2049};
constexpr std::uint64_t seed = 5;

// Cases of a family: plain ones, then those with statistics, a residual, parameters in another format, another profile.
constexpr int variants = 6;
Wish wish_of(Op op, Format format, const Family& family, int variant) {
  return {.ops = {op},
          .formats = {format},
          .finite = family.finite,
          .affine = variant == 0 ? Affine::none : Affine::both,
          .most_rows = variant == 5 ? 1 : 3,
          .least_n = 2,
          .most_n = variant == 5 ? 40 : 12,
          .plain_profile = variant < 3,
          .profiles = variant == 3,
          .statistics = variant == 4,
          .residual = variant == 1,
          .mixed = variant == 2,
          .epsilon_zero = true,
          .family = family.name};
}

// One group of so many elements.
Case of_size(Op op, Format format, std::int64_t n, const Family& family, std::uint64_t number) {
  const Grouping grouping = info(op).grouping;
  Written w(op, format, {1}, {0});
  w.c.inputs[Role::x] = tensor_of(Role::x, format,
                                  grouping == Grouping::trailing  ? Shape{1, n}
                                  : grouping == Grouping::channel ? Shape{n, 1}
                                                                  : Shape{1, 1, n});
  std::vector<Bits> bits(static_cast<std::size_t>(n));
  rc::Random random(rc::Random::Key{seed, number, 0x73697a65, 0});
  family.fill(random, format, bits);
  for (std::int64_t i = 0; i < n; ++i) set_bits(*w.c.inputs[Role::x], i, bits[static_cast<std::size_t>(i)]);
  if (op == Op::group_norm) w.c.spec.groups = 1;
  return info(op).given_statistics ? std::move(w).with(Role::mean, {0.5}).with(Role::variance, {2}).c : std::move(w.c);
}

}  // namespace

std::vector<Vector> generated_vectors() {
  std::vector<Vector> all;
  std::vector<const Family*> tame;
  for (const Family& family : families()) {
    if (family.tame) tame.push_back(&family);
  }
  std::uint64_t number = 0;
  for (const Op op : subject_ops()) {
    for (const Format format : formats_of_x) {
      for (const Family& family : families()) {
        for (int variant = 0; variant < variants; ++variant) {
          all.push_back({generate(wish_of(op, format, family, variant), seed, number++).value(),
                         std::string(family.name) + ": " + std::string(family.what)});
        }
      }
      for (const std::int64_t n : sizes) {
        const Family& family = *tame[number % tame.size()];
        all.push_back({of_size(op, format, n, family, number++), "groups of " + std::to_string(n) + ", " + std::string(family.name)});
      }
    }
  }
  return all;
}

}  // namespace norma::properties
