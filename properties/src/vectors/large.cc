#include <array>
#include <iterator>

#include "norma/generate.h"
#include "norma/reference.h"
#include "sources.h"

namespace norma::properties {
namespace {

// Rows and columns as language models have them, and around where kernels cut a row into pieces.
const Shape row_shapes[] = {{3, 5, 2049}, {64, 16384}, {512, 1024}, {33, 5120}, {64, 8192},
                            {4096, 64},   {7, 12289},  {128, 4096}, {1, 65537}, {256, 768}};
// Maps as image models have them, and channels without one.
const Shape map_shapes[] = {{64, 1024, 1},   {16, 64, 32, 32}, {2, 64, 56, 56}, {8, 128, 28, 28},  {1, 32, 127, 129},
                            {32, 256, 7, 7}, {3, 6, 211, 211}, {2, 64, 8191},   {4, 32, 8, 32, 8}, {128, 96, 9}};
static_assert(std::size(row_shapes) == std::size(map_shapes));

}  // namespace

Vector large_vector(std::uint64_t seed, std::int64_t number) {
  // Ops first, then formats, then shapes: numbers in a row have some of all.
  auto pick = [rest = static_cast<std::size_t>(number)](std::size_t of) mutable {
    const std::size_t picked = rest % of;
    rest /= of;
    return picked;
  };
  const Op op = subject_ops()[pick(subject_ops().size())];
  const Format format = formats_of_x[pick(std::size(formats_of_x))];
  const bool rows = info(op).grouping == Grouping::trailing;
  const Shape& shape = (rows ? row_shapes : map_shapes)[pick(std::size(row_shapes))];

  rc::Random random(rc::Random::Key{seed, static_cast<std::uint64_t>(number), 0x6c61726765, 0});
  const Family& family = families()[random.next() % families().size()];
  const Family& ordinary = family_named("ordinary");
  Case c;
  c.spec.op = op;
  c.format = format;
  if (op == Op::group_norm) c.spec.groups = shape[1] % 32 == 0 ? 32 : 3;
  const auto fill = [&](Role role, const Family& with) {
    const Shape of = role == Role::x ? shape : *tensor_shape(c.spec, shape, role);
    Tensor t = tensor_of(role, format, of);
    std::vector<Bits> bits(static_cast<std::size_t>(size_of(t)));
    with.fill(random, format, bits);
    // A variance is no less than 0.
    for (std::size_t i = 0; i < bits.size(); ++i)
      set_bits(t, static_cast<std::int64_t>(i), role == Role::variance ? bits[i] & ~info(format).sign_bit() : bits[i]);
    c.inputs[role] = std::move(t);
  };
  fill(Role::x, family);
  if (info(op).given_statistics) {
    fill(Role::mean, ordinary);
    fill(Role::variance, ordinary);
  }
  if (random.next() % 4 != 0) {
    fill(Role::gamma, ordinary);
    fill(Role::beta, ordinary);
  }
  return {std::move(c),
          "large tier, seed " + std::to_string(seed) + ", number " + std::to_string(number) + ": " + std::string(family.name)};
}

}  // namespace norma::properties
