// Numbers to normalize, by family and from bit patterns, and random calls made of them.
#pragma once

#include <span>

#include "trial.h"

namespace norma::simd {

using Fill = void (*)(Random& random, Format format, std::span<Bits> to);
struct Family {
  const char* name;
  Fill fill;
};

inline double uniform(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }  // [0, 1)
inline double bell(Random& random) { return (uniform(random) + uniform(random) + uniform(random) + uniform(random) - 2) * 1.7320508; }

// A magnitude between two, both included, of either sign.
inline Bits between(Random& random, Format format, Bits low, Bits high) {
  const Bits sign = random.one_in(2) ? testing::layout(format).sign() : 0;
  return sign | (low + random.next() % (high - low + 1));
}
inline Bits any_finite(Random& random, Format format) { return between(random, format, 0, testing::layout(format).largest()); }
inline Bits one_binade(Format format) { return Bits{1} << testing::layout(format).fraction_bits; }
// An exponent whose square, and sixteen bits more, are far from the ends of the format.
inline int quiet_exponent(Random& random, Format format) {
  const auto most = std::min<std::int64_t>(200, testing::layout(format).bias / 3);
  return static_cast<int>(random.between(-most, most));
}

namespace families {

inline void ordinary(Random& random, Format format, std::span<Bits> to) {
  const double scale = std::ldexp(1.0, quiet_exponent(random, format) / 2);
  for (Bits& x : to) x = testing::nearest(format, bell(random) * scale);
}
inline void finite(Random& random, Format format, std::span<Bits> to) {
  for (Bits& x : to) x = any_finite(random, format);
}
inline void window(Random& random, Format format, std::span<Bits> to) {  // a few binades, anywhere
  const Bits low = random.next() % (testing::layout(format).largest() - 4 * one_binade(format));
  for (Bits& x : to) x = between(random, format, low, low + 4 * one_binade(format));
}
inline void large_mean(Random& random, Format format, std::span<Bits> to) {
  const double mean = std::ldexp(1 + uniform(random), quiet_exponent(random, format)) * (random.one_in(2) ? 1 : -1);
  const double spread = std::ldexp(mean, -static_cast<int>(random.between(0, random.one_in(2) ? 30 : 8)));
  for (Bits& x : to) x = testing::nearest(format, mean + spread * bell(random));
}
inline void outlier(Random& random, Format format, std::span<Bits> to) {
  ordinary(random, format, to);
  const Bits largest = testing::layout(format).largest();
  if (!to.empty()) to[random.next() % to.size()] = between(random, format, largest / 2, largest);
}
inline void flat(Random& random, Format format, std::span<Bits> to) { std::fill(to.begin(), to.end(), any_finite(random, format)); }
inline void nearly_flat(Random& random, Format format, std::span<Bits> to) {
  flat(random, format, to);
  if (!to.empty()) to[random.next() % to.size()] ^= 1;  // a neighbour: the last bit
}
inline void two_neighbours(Random& random, Format format, std::span<Bits> to) {
  flat(random, format, to);
  for (Bits& x : to) x ^= random.next() & 1;
}
inline void subnormal(Random& random, Format format, std::span<Bits> to) {
  for (Bits& x : to) x = between(random, format, 0, one_binade(format) - 1);
}
inline void least_normal(Random& random, Format format, std::span<Bits> to) {
  for (Bits& x : to) x = between(random, format, one_binade(format) / 2, 2 * one_binade(format));
}
inline void near_overflow(Random& random, Format format, std::span<Bits> to) {
  const Bits largest = testing::layout(format).largest();
  for (Bits& x : to) x = between(random, format, largest - one_binade(format), largest);
}
inline void small_integers(Random& random, Format format, std::span<Bits> to) {
  for (Bits& x : to) x = testing::nearest(format, static_cast<double>(random.between(-3, 3)));
}
inline void powers(Random& random, Format format, std::span<Bits> to) {
  for (Bits& x : to) x = testing::nearest(format, std::ldexp(random.one_in(2) ? 1 : -1, static_cast<int>(random.between(-2, 2))));
}
inline void balanced(Random& random, Format format, std::span<Bits> to) {  // the mean is 0, or nearly
  ordinary(random, format, to);
  for (std::size_t i = 1; i < to.size(); i += 2) to[i] = to[i - 1] ^ testing::layout(format).sign();
}
inline void signed_zeros(Random& random, Format format, std::span<Bits> to) {
  for (Bits& x : to) x = between(random, format, 0, 0);
}
inline void sparse(Random& random, Format format, std::span<Bits> to) {
  ordinary(random, format, to);
  for (Bits& x : to) x = random.one_in(2) ? between(random, format, 0, 0) : x;
}
inline void special(Random& random, Format format, std::span<Bits> to) {  // a few infinities or NaNs
  ordinary(random, format, to);
  const testing::Layout f = testing::layout(format);
  const std::vector<Bits> values{f.largest() + 1, f.sign() | (f.largest() + 1), f.nan(), f.sign() | f.nan(), f.largest() + 2};
  for (int i = 0; i < 2 && !to.empty(); ++i) to[random.next() % to.size()] = random.of(values);
}
inline void patterns(Random& random, Format format, std::span<Bits> to) {
  const testing::Layout f = testing::layout(format);
  for (Bits& x : to) x = random.next() & (2 * f.sign() - 1);
}
inline void ones(Random&, Format format, std::span<Bits> to) { std::fill(to.begin(), to.end(), testing::nearest(format, 1)); }
inline void minus_ones(Random&, Format format, std::span<Bits> to) { std::fill(to.begin(), to.end(), testing::nearest(format, -1)); }

}  // namespace families

// In the order of a table of x; the last two are not finite.
inline constexpr Family x_families[] = {
    {"ordinary", families::ordinary},
    {"finite patterns", families::finite},
    {"a few binades", families::window},
    {"large mean", families::large_mean},
    {"outlier", families::outlier},
    {"flat", families::flat},
    {"nearly flat", families::nearly_flat},
    {"two neighbours", families::two_neighbours},
    {"subnormal", families::subnormal},
    {"least normal", families::least_normal},
    {"near overflow", families::near_overflow},
    {"small integers", families::small_integers},
    {"powers of two", families::powers},
    {"balanced", families::balanced},
    {"signed zeros", families::signed_zeros},
    {"sparse", families::sparse},
    {"special", families::special},
    {"any pattern", families::patterns},
};
inline constexpr Family gamma_families[] = {
    {"ordinary", families::ordinary}, {"finite patterns", families::finite}, {"signed zeros", families::signed_zeros},
    {"sparse", families::sparse},     {"special", families::special},        {"minus ones", families::minus_ones},
    {"ones", families::ones},         {"powers of two", families::powers},
};
inline constexpr Family beta_families[] = {
    {"ordinary", families::ordinary}, {"finite patterns", families::finite}, {"signed zeros", families::signed_zeros},
    {"special", families::special},   {"powers of two", families::powers},
};

template <std::size_t N>
const Family& one_of(Random& random, const Family (&families)[N]) {
  return families[random.next() % N];
}

inline Tensor filled(Random& random, const Call& call, Role role, Fill fill) {
  Tensor t(format_of(call, role), shape_of(call, role));
  std::vector<Bits> bits(t.size());
  fill(random, t.format(), bits);
  for (std::size_t i = 0; i < bits.size(); ++i) t.set(i, bits[i]);
  return t;
}

// x, group by group; one family for all groups, or one for each.
inline Tensor filled_by_group(Random& random, const Call& call, const Family* all) {
  Tensor t(call.format, shape_of(call));
  std::vector<std::vector<std::size_t>> members(group_count(call));
  for (std::size_t i = 0; i < t.size(); ++i) members[membership(call, i).group].push_back(i);
  for (const std::vector<std::size_t>& group : members) {
    std::vector<Bits> bits(group.size());
    (all != nullptr ? *all : one_of(random, x_families)).fill(random, call.format, bits);
    for (std::size_t k = 0; k < bits.size(); ++k) t.set(group[k], bits[k]);
  }
  return t;
}

// A bias that all but cancels γx̂ of some element, for every parameter.
inline void cancel(Random& random, Trial& t) {
  const Call& c = t.call;
  const Tensor& x = *t.inputs[Role::x];
  const std::size_t groups = group_count(c);
  std::vector<double> n(groups), sum(groups), squares(groups);
  for (std::size_t i = 0; i < x.size(); ++i) n[membership(c, i).group] += 1, sum[membership(c, i).group] += x[i];
  const auto mean = [&](std::size_t g) {
    return !info(c.op).centred ? 0 : info(c.op).given_statistics ? (*t.inputs[Role::mean])[g] : sum[g] / n[g];
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = membership(c, i).group;
    squares[g] += (x[i] - mean(g)) * (x[i] - mean(g));
  }
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::size_t i = random.next() % x.size();
    const Membership m = membership(c, i);
    const double variance = info(c.op).given_statistics ? (*t.inputs[Role::variance])[m.group] : squares[m.group] / n[m.group];
    const double gain =
        (t.inputs[Role::gamma] ? (*t.inputs[Role::gamma])[m.parameter] : 1) + (c.profile.gain_offset && t.inputs[Role::gamma] ? 1 : 0);
    const double y = gain * (x[i] - mean(m.group)) / std::sqrt(variance + c.epsilon);
    if (std::isfinite(y)) t.inputs[Role::beta]->set(m.parameter, testing::nearest(c.params, -y));
  }
}

// A shape of some thousand elements at most.
inline void random_shape(Random& random, Call& c) {
  const auto upto = [&](std::int64_t most) { return static_cast<std::size_t>(random.between(1, most)); };
  if (by_row(c)) {
    c.cols = upto(random.one_in(8) ? 3000 : random.one_in(2) ? 300 : 40);
    c.rows = std::min(upto(13), 3000 / c.cols + 1);
    return;
  }
  c.layout = random.one_in(2) ? Layout::channels_first : Layout::channels_last;
  c.cases = upto(random.one_in(3) ? 20 : 4);
  c.groups = 1;
  if (random.one_in(2)) {
    c.channels = upto(random.one_in(4) ? 200 : 24);
    c.positions = upto(static_cast<std::int64_t>(1 + 1500 / (c.channels * c.cases)));
  } else {
    c.positions = upto(random.one_in(4) ? 600 : 40);
    c.channels = upto(static_cast<std::int64_t>(1 + 1500 / (c.positions * c.cases)));
  }
  if (c.op == Op::group_norm) {
    do c.groups = upto(static_cast<std::int64_t>(c.channels));
    while (c.channels % c.groups != 0);
  }
}

inline Trial random_trial(Random& random, Op op, Format format, Format params) {
  Trial t;
  Call& c = t.call;
  c.op = op;
  c.format = format;
  c.params = params;
  c.statistics = random.one_in(2) ? format : Format::f32;
  c.epsilon = random.of(std::vector<double>{0, 5e-324, 1e-12, 1e-5, 1e-5, 1e-5, 1, 1e30, 1.7e308});
  c.profile.gain_offset = random.one_in(4);
  random_shape(random, c);
  const Family* family = random.one_in(4) ? nullptr : &one_of(random, x_families);
  t.inputs[Role::x] = filled_by_group(random, c, family);
  t.note = std::string("x: ") + (family == nullptr ? "mixed" : family->name);
  if (info(op).given_statistics) {
    const Family& means = one_of(random, x_families);
    const Family& variances = one_of(random, x_families);
    t.note += std::string(", given: ") + means.name + ", " + variances.name;
    t.inputs[Role::mean] = filled(random, c, Role::mean, means.fill);
    t.inputs[Role::variance] = filled(random, c, Role::variance, variances.fill);
    for (std::size_t i = 0; i < c.channels && !random.one_in(8); ++i) {  // a variance is seldom negative
      t.inputs[Role::variance]->set(i, t.inputs[Role::variance]->bits(i) & (testing::layout(c.statistics).sign() - 1));
    }
  }
  if (!random.one_in(4)) {
    const Family& gammas = random.one_in(2) ? gamma_families[0] : one_of(random, gamma_families);
    t.inputs[Role::gamma] = filled(random, c, Role::gamma, gammas.fill);
    t.note += std::string(", gamma: ") + gammas.name;
  }
  if (!random.one_in(4)) {
    const Family& betas = random.one_in(2) ? beta_families[0] : one_of(random, beta_families);
    t.inputs[Role::beta] = filled(random, c, Role::beta, betas.fill);
    t.note += std::string(", beta: ") + betas.name;
    if (random.one_in(3)) cancel(random, t), t.note += ", cancelling";
  }
  return t;
}

// What else a call can be asked for.
inline void random_extras(Random& random, Trial& t) {
  Call& c = t.call;
  if (by_row(c) && random.one_in(3)) {
    t.inputs[Role::residual] = filled_by_group(random, c, random.one_in(2) ? nullptr : &x_families[0]);
    if (random.one_in(2)) t.outputs.push_back(Role::sum);
  }
  if (info(c.op).outputs.contain(Role::mean) && random.one_in(2)) t.outputs.push_back(Role::mean);
  if (random.one_in(2)) t.outputs.push_back(Role::rstd);
  if (c.op == Op::batch_norm_training) {
    c.momentum = random.of(std::vector<double>{0, 0.1, 0.37, 1});
    c.profile.momentum = random.one_in(2) ? Momentum::weight_of_new : Momentum::weight_of_old;
    const bool one = c.cases * c.positions == 1;  // has no unbiased variance
    c.profile.running_variance = !one && random.one_in(2) ? Estimator::unbiased : Estimator::biased;
    for (const Role role : {Role::running_mean, Role::running_variance}) {
      if (random.one_in(2)) continue;
      t.inputs[role] = filled(random, c, role, one_of(random, x_families).fill);
      t.outputs.push_back(role);
    }
  }
}

}  // namespace norma::simd
