#include <algorithm>
#include <cmath>

#include "norma/generate.h"
#include "norma/reference.h"

namespace norma::properties {
namespace {

// As far from the ends of a format as the tame families are.
bool below_end(Format format, double v) { return std::fabs(v) <= std::ldexp(1.0, std::min(45, info(format).max_exponent() - 1)); }
constexpr double smallest_tame = 0x1p-100;

// Beside x only γ is ever huge, unless everything is to be had: f32 itself ends where γx̂ alone overflows.
bool numbers_fit(const Case& c, const Wish& wish) {
  const bool anything = !wish.finite && !wish.tame && wish.family.empty();
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!c.inputs[role]) continue;
    const Tensor& t = *c.inputs[role];
    const bool of_x = role == Role::x || role == Role::residual;
    if (t.format != c.format && (of_x || !wish.mixed)) return false;
    const bool huge = anything || (!wish.tame && (of_x || role == Role::gamma));
    for (std::int64_t i = 0; i < size_of(t); ++i) {
      const double v = value_at(t, i);
      if ((wish.finite && !std::isfinite(v)) || !(huge || below_end(t.format, v))) return false;
      if (of_x && wish.tame && v != 0 && std::fabs(v) < smallest_tame) return false;
      if (role == Role::variance && !(v >= 0 && std::isfinite(v))) return false;
    }
  }
  return true;
}

bool flat(const Case& c) {
  const Membership m = membership(c);
  std::vector<std::optional<Bits>> of(static_cast<std::size_t>(m.groups));
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    std::optional<Bits>& first = of[static_cast<std::size_t>(m.group[static_cast<std::size_t>(i)])];
    if (!first) first = bits_at(c.x(), i);
    if (*first != bits_at(c.x(), i)) return false;
  }
  return true;
}

bool shape_fits(const Case& c, const Wish& wish) {
  const Shape& s = c.x().shape;
  if (s.size() < 2 || (wish.two_axes && s.size() != 2)) return false;
  if (axis_of(c.spec, s.size()) != 1) return false;  // a row is what belongs to an index of the first axis
  if (c.spec.groups.has_value() != (c.spec.op == Op::group_norm)) return false;
  if (c.spec.groups && (*c.spec.groups < 1 || *c.spec.groups > s[1] || s[1] % *c.spec.groups != 0)) return false;
  const std::int64_t n = product(s.begin() + 1, s.end());
  const bool huge = wish.huge_n != 0 && n >= wish.huge_n && n <= wish.huge_n + huge_more;
  const bool in_n = n <= wish.most_n || huge || (c.spec.op == Op::group_norm && s[1] == c.spec.groups);  // a channel a group is the least
  return s[0] >= wish.least_rows && s[0] <= wish.most_rows && n >= wish.least_n && in_n;
}

bool tensors_fit(const Case& c, const Wish& wish) {
  const OpInfo& op = info(c.spec.op);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!c.inputs[role]) continue;
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
    if (!op.inputs.contain(role) || !shape.ok() || c.inputs[role]->shape != *shape) return false;
  }
  const bool gamma = c.inputs[Role::gamma].has_value(), beta = c.inputs[Role::beta].has_value();
  if ((wish.affine == Affine::none && (gamma || beta)) || (wish.affine == Affine::both && !(gamma && beta))) return false;
  if (op.given_statistics && !(c.inputs[Role::mean] && c.inputs[Role::variance])) return false;
  const bool residual = c.inputs[Role::residual].has_value();
  if (residual && (!wish.residual || op.grouping != Grouping::trailing)) return false;
  const bool running = wish.statistics && c.spec.op == Op::batch_norm_training;
  const bool no_others = running && !c.outputs.contain(Role::mean) && !c.outputs.contain(Role::rstd);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const bool statistic =
        ((role == Role::mean || role == Role::rstd) && !no_others) || role == Role::running_mean || role == Role::running_variance;
    const bool wanted = role == Role::y || (role == Role::sum && residual) || (statistic && wish.statistics && op.outputs.contain(role));
    if (c.outputs.contain(role) != wanted) return false;
  }
  return c.inputs[Role::running_mean].has_value() == running && c.inputs[Role::running_variance].has_value() == running;
}

bool profile_fits(const Case& c, const Wish& wish) {
  Profile p = c.spec.profile;
  const bool over_fewer =
      p.variance == Estimator::unbiased || (c.outputs.contain(Role::running_variance) && p.running_variance == Estimator::unbiased);
  if (over_fewer && c.elements() <= membership(c).groups) return false;  // of one value there is no unbiased variance
  if ((p.gain_offset || p.cast_before_gain) && !c.inputs[Role::gamma]) return false;
  if (p.variance == Estimator::unbiased && !info(c.spec.op).estimates_variance()) return false;
  if (wish.statistics && c.spec.op == Op::batch_norm_training)
    p.running_variance = Profile().running_variance, p.momentum = Profile().momentum;
  const double epsilon = c.spec.effective_epsilon();
  const bool sized = epsilon == 0 ? wish.epsilon_zero : !wish.tame || (epsilon >= 0x1p-64 && epsilon <= 0x1p64);
  if (wish.plain_profile && p != Profile{}) return false;
  return sized && epsilon >= 0 && std::isfinite(epsilon) && c.spec.momentum >= 0 && c.spec.momentum <= 1;
}

}  // namespace

bool fits(const Case& c, const Wish& wish) {
  if (wish.maybe_statistics) {
    Wish none = wish, all = wish;
    none.maybe_statistics = all.maybe_statistics = false;
    all.statistics = true;
    return fits(c, none) || fits(c, all);
  }
  static constexpr Format subjects[] = {Format::f16, Format::bf16, Format::f32, Format::f64};
  const auto one_of = [](const auto& list, const auto& value) {
    return std::find(std::begin(list), std::end(list), value) != std::end(list);
  };
  return (wish.ops.empty() ? c.spec.op != Op::weight_norm : one_of(wish.ops, c.spec.op)) &&
         (wish.formats.empty() ? one_of(subjects, c.format) : one_of(wish.formats, c.format)) && c.x().format == c.format &&
         shape_fits(c, wish) && tensors_fit(c, wish) && profile_fits(c, wish) && numbers_fit(c, wish) && (wish.family != "flat" || flat(c));
}

}  // namespace norma::properties
