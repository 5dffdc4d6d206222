// Outputs in the memory of inputs, and the sum of a residual stream: every combination that the header allows.
#include "values.h"

namespace norma::simd {
namespace {

struct Sharing {
  const char* what;
  std::optional<Role> y, sum;  // the input whose memory it is written to
  bool sum_wanted;
  bool residual;
};
constexpr Sharing sharings[] = {
    {"all apart", std::nullopt, std::nullopt, true, true},
    {"no sum wanted", std::nullopt, std::nullopt, false, true},
    {"y on x", Role::x, std::nullopt, false, false},
    {"y on x, with a residual", Role::x, std::nullopt, false, true},
    {"y on x, sum apart", Role::x, std::nullopt, true, true},
    {"y on the residual", Role::residual, std::nullopt, false, true},
    {"y on the residual, sum apart", Role::residual, std::nullopt, true, true},
    {"sum on x", std::nullopt, Role::x, true, true},
    {"sum on the residual", std::nullopt, Role::residual, true, true},  // the residual stream of a transformer
    {"y on x, sum on the residual", Role::x, Role::residual, true, true},
    {"y on the residual, sum on x", Role::residual, Role::x, true, true},
};

class SimdInPlace : public ::testing::TestWithParam<Op> {};
INSTANTIATE_TEST_SUITE_P(Ops, SimdInPlace, ::testing::ValuesIn(offered_ops), testing::ByName());

TEST_P(SimdInPlace, EveryCombination) {
  Random random(20260203 + static_cast<std::uint64_t>(GetParam()));
  int tried = 0;
  for (const Format format : offered_formats) {
    for (const Sharing& s : sharings) {
      if (s.residual && !info(GetParam()).inputs.contain(Role::residual)) continue;
      for (int trial = 0; trial < 20; ++trial) {
        Trial t = random_trial(random, GetParam(), format, random.one_in(2) ? format : Format::f32);
        if (s.residual && !by_row(t.call)) continue;
        if (s.residual) t.inputs[Role::residual] = filled_by_group(random, t.call, random.one_in(2) ? nullptr : &x_families[0]);
        if (s.sum_wanted) t.outputs.push_back(Role::sum);
        if (info(GetParam()).outputs.contain(Role::mean)) t.outputs.push_back(Role::mean);
        t.outputs.push_back(Role::rstd);
        if (s.y) t.on[Role::y] = *s.y;
        if (s.sum) t.on[Role::sum] = *s.sum;
        if (trial % 2 == 1) {
          const auto length = static_cast<std::ptrdiff_t>(line_length(t.call));
          for (const Role role : {Role::x, Role::residual})
            t.places[role] = Place{static_cast<std::size_t>(random.between(0, 63)), length + 3};
        }
        t.note += std::string(", ") + s.what;
        ASSERT_TRUE(equals_reference(t));
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 80);
}

// x + residual is rounded before anything else is done with it: where it overflows, where it is a tie, and where nothing remains.
TEST(SimdResidual, IsRoundedFirst) {
  for (const Op op : {Op::layer_norm, Op::rms_norm}) {
    for (const Format format : offered_formats) {
      const double ulp = std::ldexp(1.0, -testing::layout(format).fraction_bits);
      const double most = testing::value(format, testing::layout(format).largest());
      Trial t;
      t.call.op = op;
      t.call.format = t.call.params = format;
      t.call.epsilon = 1e-5;
      t.call.rows = 2;
      t.call.cols = 8;
      //                         tie down, tie up,    not quite,                 gone, sign of 0,   exact, absorbed
      t.fill(Role::x, {1, 1 + ulp, 1, 3, -0.0, 0.0, 1.5, 1, 1, 2, 3, 4, most, 5, 6, 7});
      t.fill(Role::residual, {ulp / 2, ulp / 2, ulp * 0.75, -3, -0.0, -0.0, 0.25, ulp / 8, 1, 2, 3, 4, most, 5, 6, 7});
      t.outputs = {Role::y, Role::sum, Role::rstd};
      ASSERT_TRUE(equals_reference(t));
    }
  }
}

}  // namespace
}  // namespace norma::simd
