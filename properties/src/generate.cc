#include "norma/generate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "norma/reference.h"

namespace norma::properties {
namespace {

using rc::Random;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(high - low + 1));
}
bool one_in(Random& random, int n) { return random.next() % static_cast<unsigned>(n) == 0; }
template <class T>
const T& one_of(Random& random, const std::vector<T>& values) {
  return values[random.next() % values.size()];
}
double uniform(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }  // [0, 1)
double bell(Random& random) { return (uniform(random) + uniform(random) + uniform(random) + uniform(random) - 2) * 1.7320508; }

Bits magnitude(Random& random, Bits low, Bits high) { return low + random.next() % (high - low + 1); }
Bits with_sign(Random& random, Format format, Bits bits) { return one_in(random, 2) ? bits | info(format).sign_bit() : bits; }
Bits binade(Format format) { return Bits{1} << info(format).fraction_bits(); }
Bits any_finite(Random& random, Format format) { return with_sign(random, format, magnitude(random, 0, info(format).max_finite())); }
// An exponent whose square, and sixteen bits more, are far from the ends of the format.
int quiet_exponent(Random& random, Format format) {
  const int most = std::min(40, (info(format).max_exponent() - 8) / 3);
  return static_cast<int>(between(random, -most, most));
}

void ordinary(Random& random, Format format, std::vector<Bits>& to) {
  const double scale = std::ldexp(1.0, one_in(random, 2) ? 0 : quiet_exponent(random, format));
  for (Bits& x : to) x = nearest_bits(format, bell(random) * scale);
}
void large_mean(Random& random, Format format, std::vector<Bits>& to) {
  const double mean = std::ldexp(1 + uniform(random), quiet_exponent(random, format)) * (one_in(random, 2) ? 1 : -1);
  const double spread = std::ldexp(mean, -static_cast<int>(between(random, 0, info(format).precision - 2)));
  for (Bits& x : to) x = nearest_bits(format, mean + spread * bell(random));
}
void flat(Random& random, Format format, std::vector<Bits>& to) {
  const double value = std::ldexp(1 + uniform(random), quiet_exponent(random, format)) * (one_in(random, 2) ? 1 : -1);
  std::fill(to.begin(), to.end(), nearest_bits(format, value));
}
void nearly_flat(Random& random, Format format, std::vector<Bits>& to) {
  flat(random, format, to);
  if (!to.empty()) to[random.next() % to.size()] ^= 1;
}
void two_neighbours(Random& random, Format format, std::vector<Bits>& to) {
  flat(random, format, to);
  for (Bits& x : to) x ^= random.next() & 1;
}
void outlier(Random& random, Format format, std::vector<Bits>& to) {
  ordinary(random, format, to);
  const int e = std::min(40, (info(format).max_exponent() - 8) / 2);
  if (!to.empty()) to[random.next() % to.size()] = nearest_bits(format, std::ldexp(1 + uniform(random), e));
}
void all_exponents(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = any_finite(random, format);
}
void subnormal(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = with_sign(random, format, magnitude(random, 0, binade(format) - 1));
}
void near_overflow(Random& random, Format format, std::vector<Bits>& to) {  // of x²
  const int e = info(format).max_exponent() / 2;
  for (Bits& x : to) x = nearest_bits(format, std::ldexp(bell(random), e + static_cast<int>(between(random, -2, 4))));
}
void largest(Random& random, Format format, std::vector<Bits>& to) {
  const Bits most = info(format).max_finite();
  for (Bits& x : to) x = with_sign(random, format, magnitude(random, most - binade(format), most));
}
void signed_zeros(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = with_sign(random, format, 0);
}
void sparse(Random& random, Format format, std::vector<Bits>& to) {
  ordinary(random, format, to);
  for (Bits& x : to) x = one_in(random, 2) ? with_sign(random, format, 0) : x;
}
void small_integers(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = nearest_bits(format, static_cast<double>(between(random, -3, 3)));
}
void powers_of_two(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = nearest_bits(format, std::ldexp(one_in(random, 2) ? 1 : -1, static_cast<int>(between(random, -2, 2))));
}
void ramp(Random& random, Format format, std::vector<Bits>& to) {  // what is counted twice, or not at all, shows
  const double start = static_cast<double>(between(random, -8, 8));
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = nearest_bits(format, start + static_cast<double>(i));
}
void ones(Random&, Format format, std::vector<Bits>& to) { std::fill(to.begin(), to.end(), nearest_bits(format, 1)); }
void non_finite(Random& random, Format format, std::vector<Bits>& to) {
  ordinary(random, format, to);
  const FormatInfo& f = info(format);
  for (int i = 0; i < 2 && !to.empty(); ++i) {
    to[random.next() % to.size()] = with_sign(random, format, one_in(random, 2) ? f.overflow() : f.quiet_nan());
  }
}

constexpr Family table[] = {
    {"ordinary", "a bell curve about 0, at any moderate scale", true, true, ordinary},
    {"large_mean", "a mean up to half the precision above the spread", true, true, large_mean},
    {"flat", "one number throughout", true, true, flat},
    {"nearly_flat", "one number, but for the last bit of one element", true, true, nearly_flat},
    {"two_neighbours", "a number and its neighbour", true, true, two_neighbours},
    {"outlier", "ordinary, but for one huge element", true, true, outlier},
    {"small_integers", "-3 to 3: near and exact ties", true, true, small_integers},
    {"powers_of_two", "1/4 to 4", true, true, powers_of_two},
    {"ramp", "consecutive integers", true, true, ramp},
    {"ones", "1 throughout: sums count", true, true, ones},
    {"signed_zeros", "0 and -0", true, true, signed_zeros},
    {"sparse", "ordinary, every other one 0 or -0", true, true, sparse},
    {"all_exponents", "any finite bit pattern", true, false, all_exponents},
    {"subnormal", "below the smallest normal number", true, false, subnormal},
    {"near_overflow", "squares near the largest number", true, false, near_overflow},
    {"largest", "the last binade of the format", true, false, largest},
    {"non_finite", "ordinary, with infinities and NaNs", false, false, non_finite},
};

const Family& family_for(Random& random, const Wish& wish) {
  std::vector<const Family*> suited;
  for (const Family& f : table) {
    if (!wish.family.empty() ? f.name == wish.family : (f.finite || !wish.finite) && (f.tame || !wish.tame)) suited.push_back(&f);
  }
  if (suited.empty()) return table[0];
  return *(one_in(random, 3) ? suited.front() : one_of(random, suited));
}

// x, group by group.
void fill_groups(Random& random, const Wish& wish, const Membership& m, Tensor& t, std::string& names) {
  std::vector<std::vector<std::int64_t>> members(static_cast<std::size_t>(m.groups));
  for (std::size_t i = 0; i < m.group.size(); ++i) members[static_cast<std::size_t>(m.group[i])].push_back(static_cast<std::int64_t>(i));
  const bool mixed = one_in(random, 4);
  const Family* family = &family_for(random, wish);
  names = mixed ? "mixed" : std::string(family->name);
  for (const std::vector<std::int64_t>& group : members) {
    if (mixed) family = &family_for(random, wish);
    std::vector<Bits> bits(group.size());
    family->fill(random, t.format, bits);
    for (std::size_t k = 0; k < bits.size(); ++k) set_bits(t, group[k], bits[k]);
  }
}

Tensor filled(Random& random, Role role, Format format, Shape shape, void (*fill)(Random&, Format, std::vector<Bits>&)) {
  Tensor t = tensor_of(role, format, std::move(shape));
  std::vector<Bits> bits(static_cast<std::size_t>(size_of(t)));
  fill(random, format, bits);
  for (std::size_t i = 0; i < bits.size(); ++i) set_bits(t, static_cast<std::int64_t>(i), bits[i]);
  return t;
}

// A bias that all but cancels γx̂ of some elements.
void cancel(Random& random, Case& c, const Membership& m) {
  std::vector<double> n(static_cast<std::size_t>(m.groups)), sum(n.size()), squares(n.size());
  const bool centred = info(c.spec.op).centred;
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    const auto g = static_cast<std::size_t>(m.group[static_cast<std::size_t>(i)]);
    n[g] += 1, sum[g] += value_at(c.x(), i), squares[g] += value_at(c.x(), i) * value_at(c.x(), i);
  }
  Tensor& beta = *c.inputs[Role::beta];
  for (int k = 0; k < 4 && c.elements() != 0; ++k) {
    const auto i = static_cast<std::size_t>(between(random, 0, c.elements() - 1));
    const auto g = static_cast<std::size_t>(m.group[i]);
    const double mean = centred ? sum[g] / n[g] : 0;
    const double gain = c.inputs[Role::gamma] ? value_at(*c.inputs[Role::gamma], m.parameter[i]) : 1;
    const double y = gain * (value_at(c.x(), static_cast<std::int64_t>(i)) - mean) /
                     std::sqrt(std::max(0.0, squares[g] / n[g] - mean * mean) + c.spec.effective_epsilon());
    if (std::isfinite(y) && std::fabs(y) < 1e4) set_bits(beta, m.parameter[i], nearest_bits(beta.format, -y));
  }
}

std::int64_t extent(Random& random, std::int64_t low, std::int64_t high) {
  if (high <= low) return low;
  // Small ones often, and the neighbours of powers of two.
  if (one_in(random, 2)) return between(random, low, std::min(high, low + 8));
  if (one_in(random, 2)) return between(random, low, high);
  const int top = static_cast<int>(std::floor(std::log2(static_cast<double>(high))));
  return std::clamp((std::int64_t{1} << between(random, 0, top)) + between(random, -1, 1), low, high);
}

Shape shape_for(Random& random, const Wish& wish, Spec& spec) {
  const std::int64_t rows = extent(random, wish.least_rows, wish.most_rows);
  if (info(spec.op).grouping == Grouping::trailing) {
    const std::int64_t n = extent(random, wish.least_n, wish.most_n);
    if (wish.two_axes || !one_in(random, 6)) return {rows, n};
    // Another rank, and a group of two axes.
    const std::int64_t inner = n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 1;
    spec.axis = one_in(random, 2) ? -2 : 1;
    return {rows, n / inner, inner};
  }
  const std::int64_t positions = wish.two_axes ? 1 : extent(random, 1, std::max<std::int64_t>(1, std::min<std::int64_t>(wish.most_n, 36)));
  const std::int64_t least = (wish.least_n + positions - 1) / positions;
  std::int64_t channels =
      std::max(extent(random, 1, std::max<std::int64_t>(1, std::min<std::int64_t>(20, wish.most_n / positions))), least);
  if (spec.op == Op::group_norm) {
    spec.groups = between(random, 1, 4);
    channels = *spec.groups * std::max<std::int64_t>(1, channels / *spec.groups);
  }
  if (positions == 1 && (wish.two_axes || one_in(random, 2))) return {rows, channels};
  if (positions % 2 == 0 && one_in(random, 3)) return {rows, channels, 2, positions / 2};
  return {rows, channels, positions};
}

Case make(Random& random, const Wish& wish) {
  static const std::vector<Op> all_ops{Op::layer_norm,           Op::rms_norm,   Op::batch_norm_training,
                                       Op::batch_norm_inference, Op::group_norm, Op::instance_norm};
  static const std::vector<Format> all_formats{Format::f32, Format::f32, Format::f16, Format::bf16, Format::f64};
  Case c;
  c.spec.op = one_of(random, wish.ops.empty() ? all_ops : wish.ops);
  c.format = one_of(random, wish.formats.empty() ? all_formats : wish.formats);
  const OpInfo& op = info(c.spec.op);
  static const std::vector<double> epsilons{1e-5, 1e-5, 1e-12, 1e-3, 1, 0x1p-20};
  c.spec.epsilon = wish.epsilon_zero && one_in(random, 4) ? 0 : one_of(random, epsilons);
  const Shape shape = shape_for(random, wish, c.spec);
  c.inputs[Role::x] = tensor_of(Role::x, c.format, shape);
  const Membership m = membership(c);
  fill_groups(random, wish, m, *c.inputs[Role::x], c.families);
  const auto shape_of = [&](Role role) { return *tensor_shape(c.spec, shape, role); };
  const Format params = wish.mixed && one_in(random, 2) ? one_of(random, all_formats) : c.format;
  if (op.given_statistics) {
    c.inputs[Role::mean] = filled(random, Role::mean, params, shape_of(Role::mean), ordinary);
    c.inputs[Role::variance] = filled(random, Role::variance, params, shape_of(Role::variance), ordinary);
    for (std::int64_t i = 0; i < size_of(*c.inputs[Role::variance]); ++i) {
      set_bits(*c.inputs[Role::variance], i, bits_at(*c.inputs[Role::variance], i) & (info(params).sign_bit() - 1));
    }
  }
  if (wish.affine == Affine::both || (wish.affine == Affine::any && !one_in(random, 4))) {
    static constexpr void (*gains[])(Random&, Format, std::vector<Bits>&) = {ordinary, ordinary, ones, powers_of_two, sparse, flat};
    c.inputs[Role::gamma] = filled(random, Role::gamma, params, shape_of(Role::gamma), gains[random.next() % std::size(gains)]);
  }
  if (wish.affine == Affine::both || (wish.affine == Affine::any && !one_in(random, 4))) {
    c.inputs[Role::beta] = filled(random, Role::beta, params, shape_of(Role::beta), one_in(random, 4) ? signed_zeros : ordinary);
    if (one_in(random, 4)) cancel(random, c, m), c.families += ", cancelling";
  }
  if (wish.residual && op.inputs.contain(Role::residual) && info(c.spec.op).grouping == Grouping::trailing && one_in(random, 2)) {
    c.inputs[Role::residual] = tensor_of(Role::residual, c.format, shape);
    std::string names;
    fill_groups(random, wish, m, *c.inputs[Role::residual], names);
    c.outputs = c.outputs | Roles{Role::sum};
  }
  if (!wish.plain_profile && one_in(random, 4)) {
    if (one_in(random, 4)) c.spec.profile.epsilon_placement = EpsilonPlacement::outside;
    if (one_in(random, 4) && c.inputs[Role::gamma]) c.spec.profile.gain_offset = true;
    if (one_in(random, 4) && c.inputs[Role::gamma]) c.spec.profile.cast_before_gain = true;
    if (one_in(random, 4) && op.estimates_variance() && m.groups != 0 && c.elements() > m.groups) {
      c.spec.profile.variance = Estimator::unbiased;
    }
  }
  if (wish.statistics) {
    if (op.outputs.contain(Role::mean)) c.outputs = c.outputs | Roles{Role::mean};
    if (op.outputs.contain(Role::rstd)) c.outputs = c.outputs | Roles{Role::rstd};
    if (c.spec.op == Op::batch_norm_training) {
      static const std::vector<double> momenta{0, 0.1, 0.25, 1};
      c.spec.momentum = one_of(random, momenta);
      if (one_in(random, 2)) c.spec.profile.momentum = Momentum::weight_of_old;
      if (one_in(random, 2) || c.elements() <= m.groups) c.spec.profile.running_variance = Estimator::biased;
      c.inputs[Role::running_mean] = filled(random, Role::running_mean, params, shape_of(Role::running_mean), ordinary);
      c.inputs[Role::running_variance] = filled(random, Role::running_variance, params, shape_of(Role::running_variance), powers_of_two);
      c.outputs = c.outputs | Roles{Role::running_mean, Role::running_variance};
    }
  }
  if (wish.placements) {
    c.placement.channels_last = op.grouping != Grouping::trailing && one_in(random, 2);
    if (one_in(random, 2)) c.placement.row_gap = between(random, 1, 20);
    if (one_in(random, 2)) c.placement.offset = between(random, 1, 15);
    c.placement.in_place = one_in(random, 4);
  }
  c.salt = random.next() >> 44;
  return c;
}

// Elements [begin, end) of an axis of what has the shape of x, or of what has the channels.
Tensor cut(const Tensor& t, std::size_t axis, std::int64_t begin, std::int64_t end) {
  Shape shape = t.shape;
  const std::int64_t old = shape[axis];
  shape[axis] = end - begin;
  Tensor to{t.name, t.format, shape, {}};
  std::int64_t inner = info(t.format).bytes();
  for (std::size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  const std::int64_t whole = inner * old;
  for (std::int64_t at = 0; whole != 0 && at < static_cast<std::int64_t>(t.data.size()); at += whole) {
    to.data.insert(to.data.end(), t.data.begin() + at + begin * inner, t.data.begin() + at + end * inner);
  }
  return to;
}

// The case without some of an axis of x. What belongs to a channel or a column goes with it.
std::optional<Case> cut(const Case& c, std::size_t axis, std::int64_t begin, std::int64_t end) {
  Case to = c;
  const auto rank = c.x().shape.size();
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!c.inputs[role]) continue;
    const Tensor& t = *c.inputs[role];
    if (t.shape.size() == rank && t.shape == c.x().shape) {
      to.inputs[role] = cut(t, axis, begin, end);
    } else if (info(c.spec.op).grouping == Grouping::trailing) {
      const std::size_t lead = rank - t.shape.size();  // parameters lie along the last axes
      if (axis >= lead) to.inputs[role] = cut(t, axis - lead, begin, end);
    } else if (axis == 1) {
      to.inputs[role] = cut(t, 0, begin, end);
    }
  }
  if (c.spec.groups && axis == 1) {
    if ((end - begin) % *c.spec.groups != 0) return std::nullopt;
  }
  return to;
}

// The same call; what the generator said of it does not count.
bool same(const Case& a, const Case& b) {
  bool all = a.spec == b.spec && a.placement == b.placement && a.salt == b.salt;
  for (std::size_t r = 0; r < role_count && all; ++r) {
    const auto role = static_cast<Role>(r);
    all = a.inputs[role] == b.inputs[role] && a.outputs.contain(role) == b.outputs.contain(role);
  }
  return all;
}

bool granted(const Case& c, const Wish& wish) {
  const Shape& s = c.x().shape;
  if (s.empty() || s[0] < wish.least_rows) return false;
  std::int64_t n = 1;
  for (std::size_t a = 1; a < s.size(); ++a) n *= s[a];
  if (n < wish.least_n) return false;
  const bool over_fewer = c.spec.profile.variance == Estimator::unbiased ||
                          (c.outputs.contain(Role::running_variance) && c.spec.profile.running_variance == Estimator::unbiased);
  return !over_fewer || c.elements() > membership(c).groups;  // of one value there is no unbiased variance
}

}  // namespace

std::span<const Family> families() { return table; }

std::vector<Case> smaller(const Case& c, const Wish& wish) {
  std::vector<Case> simpler;
  const auto offer = [&](std::optional<Case> s) {
    if (s && granted(*s, wish)) simpler.push_back(std::move(*s));
  };
  for (std::size_t axis = 0; axis < c.x().shape.size(); ++axis) {
    const std::int64_t n = c.x().shape[axis];
    for (std::int64_t keep = 1; keep < n; keep *= 2) offer(cut(c, axis, 0, keep));
    for (std::int64_t keep = n / 2; keep >= 1 && keep < n; keep = 0) offer(cut(c, axis, n - keep, n));
    if (n > 1) offer(cut(c, axis, 0, n - 1)), offer(cut(c, axis, 1, n));
  }
  const auto without = [&](auto&& change) {
    Case s = c;
    change(s);
    if (!same(s, c)) offer(std::move(s));
  };
  without([](Case& s) { s.placement = {}; });
  without([](Case& s) { s.placement.row_gap = 0; });
  without([](Case& s) { s.placement.offset = 0; });
  without([](Case& s) { s.placement.channels_last = false; });
  without([](Case& s) { s.placement.in_place = false; });
  if (wish.affine == Affine::any) {
    without([](Case& s) { s.inputs[Role::gamma].reset(), s.spec.profile.gain_offset = s.spec.profile.cast_before_gain = false; });
    without([](Case& s) { s.inputs[Role::beta].reset(); });
  }
  without([](Case& s) { s.spec.profile = {}; });
  without([](Case& s) { s.spec.profile.gain_offset = false; });
  without([](Case& s) { s.spec.profile.cast_before_gain = false; });
  without([](Case& s) {
    s.inputs[Role::residual].reset();
    if (s.outputs.contain(Role::sum)) s.outputs = Roles{Role::y};
  });
  if (c.spec.epsilon != 1.0) {
    without([](Case& s) { s.spec.epsilon = 1.0; });
    without([](Case& s) { s.spec.epsilon = 1e-5; });
  }
  without([](Case& s) { s.salt = 0; });
  without([](Case& s) { s.salt /= 2; });
  // Numbers: all at once, then fewer at a time.
  for (const Role role : {Role::gamma, Role::beta, Role::x, Role::residual, Role::mean, Role::variance}) {
    if (!c.inputs[role]) continue;
    const Tensor& t = *c.inputs[role];
    const std::int64_t n = size_of(t);
    const auto rewrite = [&](std::int64_t begin, std::int64_t end, auto&& number) {
      without([&](Case& s) {
        for (std::int64_t i = begin; i < end; ++i) {
          const double v = value_at(t, i);
          if (std::isfinite(v)) set_bits(*s.inputs[role], i, nearest_bits(t.format, number(v)));
        }
      });
    };
    for (std::int64_t width = n, parts = 1; width >= 1 && parts <= 16; width = width == 1 ? 0 : (width + 1) / 2, parts *= 2) {
      for (std::int64_t begin = 0; begin < n; begin += width) {
        const std::int64_t end = std::min(n, begin + width);
        const double plain = role == Role::gamma || role == Role::variance ? 1 : 0;
        rewrite(begin, end, [&](double) { return plain; });
        rewrite(begin, end, [](double v) { return std::fabs(v) < 0x1p40 ? std::trunc(v) : v; });
        rewrite(begin, end, [](double v) { return v == 0 ? v : std::copysign(std::ldexp(1.0, std::ilogb(v)), v); });
        rewrite(begin, end, [](double v) { return std::fabs(v); });
      }
    }
  }
  return simpler;
}

rc::Shrinkable<Case> generate(const Wish& wish, std::uint64_t seed, std::uint64_t number) {
  Random random(Random::Key{seed, number, 0x6e6f726d61, 1});
  return rc::shrinkable::shrinkRecur(make(random, wish), [wish](const Case& c) { return rc::seq::fromContainer(smaller(c, wish)); });
}

}  // namespace norma::properties
