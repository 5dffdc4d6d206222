// Sizes, strides, misalignment, which tensors there are and which of them share memory: the same numbers however they lie.
#include "values.h"

namespace norma::simd {
namespace {

// A call of ordinary numbers with gain and bias; the shape is the caller's.
Trial ordinary(const Call& call, std::uint64_t seed) {
  Random random(seed);
  Trial t;
  t.call = call;
  if (std::isnan(t.call.epsilon)) t.call.epsilon = 1e-5;
  t.inputs[Role::x] = filled_by_group(random, t.call, &x_families[0]);
  if (info(call.op).given_statistics) {
    t.inputs[Role::mean] = filled(random, t.call, Role::mean, families::ordinary);
    t.inputs[Role::variance] = filled(random, t.call, Role::variance, families::ones);
  }
  t.inputs[Role::gamma] = filled(random, t.call, Role::gamma, families::ordinary);
  t.inputs[Role::beta] = filled(random, t.call, Role::beta, families::ordinary);
  return t;
}

Call rows_of(Op op, Format format, std::size_t rows, std::size_t cols) {
  Call c;
  c.op = op;
  c.format = format;
  c.params = format;
  c.rows = rows;
  c.cols = cols;
  return c;
}
Call channels_of(Op op, Format format, Layout layout, std::size_t cases, std::size_t channels, std::size_t positions) {
  Call c;
  c.op = op;
  c.format = format;
  c.params = format;
  c.layout = layout;
  c.cases = cases;
  c.channels = channels;
  c.positions = positions;
  if (op == Op::group_norm) c.groups = channels % 3 == 0 ? 3 : channels % 2 == 0 ? 2 : 1;
  return c;
}
// An op on about `n` contiguous elements.
Call line_of(Op op, Format format, Layout layout, std::size_t n) {
  if (info(op).grouping == Grouping::trailing) return rows_of(op, format, 3, n);
  return layout == Layout::channels_first ? channels_of(op, format, layout, 2, 3, n) : channels_of(op, format, layout, 2, n, 3);
}
std::vector<Layout> layouts_of(Op op) {
  if (info(op).grouping == Grouping::trailing) return {Layout::channels_first};
  return {Layout::channels_first, Layout::channels_last};
}

class SimdShapes : public ::testing::TestWithParam<Op> {};
INSTANTIATE_TEST_SUITE_P(Ops, SimdShapes, ::testing::ValuesIn(offered_ops), testing::ByName());

TEST_P(SimdShapes, EveryWidth) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      for (std::size_t n = 1; n <= 260; ++n) ASSERT_TRUE(equals_reference(ordinary(line_of(GetParam(), format, layout, n), n))) << n;
    }
  }
}

TEST_P(SimdShapes, AroundPowersOfTwo) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      for (std::size_t power = 512; power <= 65536; power *= 2) {
        for (std::size_t n = power - 1; n <= power + 1; ++n) {
          if (layout == Layout::channels_last && n > 5000) continue;  // so many channels make no new loop
          Call c = line_of(GetParam(), format, layout, n);
          if (by_row(c)) c.rows = n % 2 + 1;
          if (!by_row(c) && channels_first(c)) c.cases = c.channels = 1, c.groups = 1;
          ASSERT_TRUE(equals_reference(ordinary(c, n))) << n;
        }
      }
    }
  }
}

// Rows are taken several at a time; so may be channels, positions and cases.
TEST_P(SimdShapes, EveryCount) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      for (const std::size_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17}) {
        for (const std::size_t n : {1, 7, 64, 100}) {
          Call c = line_of(GetParam(), format, layout, n);
          (by_row(c) ? c.rows : c.cases) = count;
          ASSERT_TRUE(equals_reference(ordinary(c, count * n))) << count << " of " << n;
          if (by_row(c)) continue;
          c = line_of(GetParam(), format, layout, n);
          (channels_first(c) ? c.channels : c.positions) = count;
          if (c.channels % c.groups != 0) c.groups = 1;
          ASSERT_TRUE(equals_reference(ordinary(c, count * n))) << count << " of " << n;
        }
      }
    }
  }
}

TEST(SimdGroupNorm, EveryDivisionIntoGroups) {
  for (const Layout layout : layouts_of(Op::group_norm)) {
    for (const std::size_t channels : {1, 2, 12, 48, 64, 96}) {
      for (std::size_t groups = 1; groups <= channels; ++groups) {
        if (channels % groups != 0) continue;
        for (const std::size_t positions : {1, 2, 5, 33}) {
          Call c = channels_of(Op::group_norm, Format::f32, layout, 2, channels, positions);
          c.groups = groups;
          ASSERT_TRUE(equals_reference(ordinary(c, channels * positions)));
        }
      }
    }
  }
}

// No pointers are needed where nothing is to be read or written.
TEST_P(SimdShapes, NothingIsFine) {
  for (const Accuracy accuracy : {Accuracy::correctly_rounded, Accuracy::fast}) {
    for (const Format format : offered_formats) {
      for (const Layout layout : layouts_of(GetParam())) {
        for (int empty = 0; empty < 3; ++empty) {
          Call c = line_of(GetParam(), format, layout, 3);
          c.epsilon = 1e-5;
          c.accuracy = accuracy;
          if (by_row(c))
            (empty == 0 ? c.rows : c.cols) = 0;
          else
            (empty == 0 ? c.cases : empty == 1 ? c.channels : c.positions) = 0;
          if (by_row(c) && empty == 2) c.rows = 0;
          const Status status = normalize(c);
          ASSERT_TRUE(status.ok()) << status.message << " for empty " << empty;
        }
      }
    }
  }
}

// Longer strides than rows, negative ones, and for x and the residual also shorter ones: windows on one signal.
TEST_P(SimdShapes, Strides) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      for (const std::size_t n : {1, 5, 16, 67}) {
        Trial t = ordinary(line_of(GetParam(), format, layout, n), n);
        const auto length = static_cast<std::ptrdiff_t>(line_length(t.call));
        if (by_row(t.call)) {
          Random random(n);
          t.inputs[Role::residual] = filled_by_group(random, t.call, &x_families[0]);
          t.outputs.push_back(Role::sum);
        }
        const std::ptrdiff_t strides[][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {3, 17, 64, 5}, {1000, 1, 2, 3}};
        for (const auto& extra : strides) {
          const Role roles[] = {Role::x, Role::y, Role::residual, Role::sum};
          for (int i = 0; i < 4; ++i) t.places[roles[i]] = Place{0, length + extra[i]};
          ASSERT_TRUE(equals_reference(t));
          t.places[Role::x]->stride = 0;
          ASSERT_TRUE(equals_reference(t));
        }
      }
    }
  }
}

TEST_P(SimdShapes, NegativeStrides) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      Trial t = ordinary(line_of(GetParam(), format, layout, 21), 1);
      const auto length = static_cast<std::ptrdiff_t>(line_length(t.call));
      for (const Role role : {Role::x, Role::y}) {
        t.places[role] = Place{0, -length - 2};
        ASSERT_TRUE(equals_reference(t));
      }
    }
  }
}

TEST(SimdWindows, OfOneSignal) {
  for (const Format format : offered_formats) {
    Trial t = ordinary(rows_of(Op::layer_norm, format, 30, 17), 5);
    Random random(5);
    std::vector<Bits> signal(17 + 29 * 3);
    families::ordinary(random, format, signal);
    const Tensor memory(format, {static_cast<std::int64_t>(signal.size())}, signal);
    for (std::size_t i = 0; i < t.inputs[Role::x]->size(); ++i) t.inputs[Role::x]->set(i, signal[i / 17 * 3 + i % 17]);
    t.places[Role::x] = Place{0, 3};
    ASSERT_TRUE(equals_reference(t));
  }
}

// Every tensor in turn at every byte of a cache line.
TEST_P(SimdShapes, Misaligned) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      Trial t = ordinary(line_of(GetParam(), format, layout, 37), 2);
      if (info(GetParam()).outputs.contain(Role::mean)) t.outputs.push_back(Role::mean);
      t.outputs.push_back(Role::rstd);
      for (const Role role : {Role::x, Role::y, Role::gamma, Role::beta, Role::mean, Role::rstd, Role::variance}) {
        t.places = {};
        for (std::size_t offset = 0; offset < 64; ++offset) {
          t.places[role] = Place{offset, 0};
          ASSERT_TRUE(equals_reference(t));
        }
      }
      for (std::size_t offset = 1; offset < 64; offset += 7) {  // and all of them, each by another
        std::size_t i = 0;
        for (const Role role : {Role::x, Role::y, Role::gamma, Role::beta}) t.places[role] = Place{(offset + 13 * i++) % 64, 0};
        ASSERT_TRUE(equals_reference(t));
      }
    }
  }
}

TEST_P(SimdShapes, EveryChoiceOfTensors) {
  for (const Format format : offered_formats) {
    for (const Layout layout : layouts_of(GetParam())) {
      for (const std::size_t n : {1, 8, 33}) {
        const Trial all = ordinary(line_of(GetParam(), format, layout, n), 3);
        for (unsigned choice = 0; choice < 32; ++choice) {
          Trial t = all;
          if ((choice & 1) == 0) t.inputs[Role::gamma].reset();
          if ((choice & 2) == 0) t.inputs[Role::beta].reset();
          t.call.profile.gain_offset = (choice & 4) != 0;
          if ((choice & 8) != 0) t.outputs.push_back(Role::rstd);
          if ((choice & 16) != 0 && info(GetParam()).outputs.contain(Role::mean)) t.outputs.push_back(Role::mean);
          ASSERT_TRUE(equals_reference(t)) << choice;
        }
      }
    }
  }
}

}  // namespace
}  // namespace norma::simd
