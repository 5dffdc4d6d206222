#include "norma/generate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "chance.h"
#include "norma/reference.h"

namespace norma::properties {
namespace {

using rc::Random;

const Family& family_for(Random& random, const Wish& wish) {
  std::vector<const Family*> suited;
  for (const Family& f : families()) {
    if (!wish.family.empty() ? f.name == wish.family : (f.finite || !wish.finite) && (f.tame || !wish.tame)) suited.push_back(&f);
  }
  if (suited.empty()) return families().front();
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

Tensor filled(Random& random, Role role, Format format, Shape shape, std::string_view family) {
  Tensor t = tensor_of(role, format, std::move(shape));
  std::vector<Bits> bits(static_cast<std::size_t>(size_of(t)));
  family_named(family).fill(random, format, bits);
  for (std::size_t i = 0; i < bits.size(); ++i) set_bits(t, static_cast<std::int64_t>(i), bits[i]);
  return t;
}

Tensor without_signs(Tensor t) {
  for (std::int64_t i = 0; i < size_of(t); ++i) set_bits(t, i, bits_at(t, i) & (info(t.format).sign_bit() - 1));
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
  const std::int64_t power = std::int64_t{1} << between(random, 0, top);
  return std::clamp(power + between(random, -1, 1), low, high);
}

// One extent like those of real layers, or five of them.
Shape far_shape(Random& random, Spec& spec) {
  std::int64_t rows = between(random, 1, 3), channels = between(random, 1, 6), positions = between(random, 1, 6);
  const auto way = random.next() % 4;
  if (way == 0) rows = between(random, 20, 300);
  if (way == 1) channels = between(random, 20, 300);
  if (way == 2) positions = between(random, 40, 3000);
  if (spec.op == Op::group_norm) {
    spec.groups = between(random, 1, 4);
    channels = (channels + *spec.groups - 1) / *spec.groups * *spec.groups;
  }
  const bool trailing = info(spec.op).grouping == Grouping::trailing;
  if (trailing && way != 3) return {rows, channels * positions};
  if (trailing) spec.axis = 1;
  return way == 3 ? Shape{rows, channels, 2, between(random, 1, 3), 2} : Shape{rows, channels, positions};
}

Shape shape_for(Random& random, const Wish& wish, Spec& spec) {
  if (wish.far) return far_shape(random, spec);
  const std::int64_t rows = extent(random, wish.least_rows, wish.most_rows);
  if (info(spec.op).grouping == Grouping::trailing) {
    const bool huge = wish.huge_n != 0 && one_in(random, 40);
    const std::int64_t n = huge ? wish.huge_n + between(random, 0, huge_more) : extent(random, wish.least_n, wish.most_n);
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
  static const std::vector<Format> all_formats{Format::f32, Format::f32, Format::f16, Format::bf16, Format::f64};
  Case c;
  c.spec.op = one_of(random, wish.ops.empty() ? subject_ops() : wish.ops);
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
    c.inputs[Role::mean] = filled(random, Role::mean, params, shape_of(Role::mean), "ordinary");
    c.inputs[Role::variance] = without_signs(filled(random, Role::variance, params, shape_of(Role::variance), "ordinary"));
  }
  if (wish.affine == Affine::both || (wish.affine == Affine::any && !one_in(random, 4))) {
    static constexpr std::string_view gains[] = {"ordinary", "ordinary", "ones", "powers_of_two", "sparse", "flat"};
    const std::string_view gain = !wish.tame && one_in(random, 4) ? "all_exponents" : gains[random.next() % std::size(gains)];
    c.inputs[Role::gamma] = filled(random, Role::gamma, params, shape_of(Role::gamma), gain);
  }
  if (wish.affine == Affine::both || (wish.affine == Affine::any && !one_in(random, 4))) {
    c.inputs[Role::beta] = filled(random, Role::beta, params, shape_of(Role::beta), one_in(random, 4) ? "signed_zeros" : "ordinary");
    if (one_in(random, 4)) cancel(random, c, m), c.families += ", cancelling";
  }
  if (wish.residual && op.inputs.contain(Role::residual) && info(c.spec.op).grouping == Grouping::trailing && one_in(random, 2)) {
    c.inputs[Role::residual] = tensor_of(Role::residual, c.format, shape);
    std::string names;
    fill_groups(random, wish, m, *c.inputs[Role::residual], names);
    c.outputs = c.outputs | Roles{Role::sum};
  }
  if (wish.profiles || (!wish.plain_profile && one_in(random, 4))) {
    const int rarity = wish.profiles ? 2 : 4;
    if (one_in(random, rarity)) c.spec.profile.epsilon_placement = EpsilonPlacement::outside;
    if (one_in(random, rarity) && c.inputs[Role::gamma]) c.spec.profile.gain_offset = true;
    if (one_in(random, rarity) && c.inputs[Role::gamma]) c.spec.profile.cast_before_gain = true;
    if (one_in(random, rarity) && op.estimates_variance() && m.groups != 0 && c.elements() > m.groups) {
      c.spec.profile.variance = Estimator::unbiased;
    }
  }
  if (wish.statistics || (wish.maybe_statistics && one_in(random, 2))) {
    // Who updates running statistics often shows no others.
    if (c.spec.op != Op::batch_norm_training || one_in(random, 2)) {
      for (const Role role : {Role::mean, Role::rstd}) {
        if (op.outputs.contain(role)) c.outputs = c.outputs | Roles{role};
      }
    }
    if (c.spec.op == Op::batch_norm_training) {
      static const std::vector<double> momenta{0, 0.1, 0.25, 1};
      c.spec.momentum = one_of(random, momenta);
      if (one_in(random, 2)) c.spec.profile.momentum = Momentum::weight_of_old;
      if (one_in(random, 2) || c.elements() <= m.groups) c.spec.profile.running_variance = Estimator::biased;
      c.inputs[Role::running_mean] = filled(random, Role::running_mean, params, shape_of(Role::running_mean), "ordinary");
      c.inputs[Role::running_variance] =
          without_signs(filled(random, Role::running_variance, params, shape_of(Role::running_variance), "powers_of_two"));
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

}  // namespace

const std::vector<Op>& subject_ops() {
  static const std::vector<Op> all{Op::layer_norm,           Op::rms_norm,   Op::batch_norm_training,
                                   Op::batch_norm_inference, Op::group_norm, Op::instance_norm};
  return all;
}

rc::Shrinkable<Case> generate(const Wish& wish, std::uint64_t seed, std::uint64_t number) {
  Random random(Random::Key{seed, number, 0x6e6f726d61, 1});
  return shrinkable(make(random, wish), wish);
}

}  // namespace norma::properties
