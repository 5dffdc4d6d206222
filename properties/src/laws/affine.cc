// Laws about gain and bias.
#include <algorithm>

#include "common.h"
#include "norma/reference.h"

namespace norma::properties {
namespace {

Case with_parameter(const Case& c, Role role, double value) {
  Case to = c;
  const Tensor& like = c.inputs[role] ? *c.inputs[role] : *c.inputs[role == Role::gamma ? Role::beta : Role::gamma];
  to.inputs[role] = tensor_of(role, like.format, like.shape);
  return with(to, role, [&](std::int64_t) { return nearest_bits(like.format, value); });
}

Outcome gain_zero_is_beta(Trial& t) {
  Case c = with_parameter(t.base, Role::gamma, 0);
  c.spec.profile = {};
  const ByRole<Tensor> got = t.run(c);
  const Membership m = membership(c);
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    const double beta = value_at(*c.inputs[Role::beta], m.parameter[static_cast<std::size_t>(i)]);
    if (value_at(y_of(got), i) != beta) return broken(show(y_of(got), i) + ", but γ is 0 and β " + std::to_string(beta));
  }
  return holds();
}

// γ·2^k without a bias gives y·2^k, to the bit, as long as nothing leaves the normal range.
Outcome gain_power_of_two(Trial& t) {
  Case a = t.base;
  a.inputs[Role::beta].reset();
  a.spec.profile = {};
  const int k = static_cast<int>(t.random.next() % 9) - 4;
  const Format f = a.inputs[Role::gamma]->format;
  const double least = std::ldexp(1.0, std::max(info(f).min_exponent(), info(a.format).min_exponent()) + 8);
  for (const double g : values(*a.inputs[Role::gamma])) {
    if (g != 0 && !(std::fabs(g) >= least && std::fabs(g) < 1 / least)) return vacuous();
  }
  const Case b = with(a, Role::gamma, [&](std::int64_t i) { return nearest_bits(f, std::ldexp(value_at(*a.inputs[Role::gamma], i), k)); });
  const ByRole<Tensor> ya = t.run(a), yb = t.run(b);
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double v = value_at(y_of(ya), i), w = std::ldexp(v, k);
    const double smallest = std::ldexp(1.0, info(a.format).min_exponent()), most = std::ldexp(1.0, info(a.format).max_exponent());
    if (v != 0 && !(std::fabs(v) >= smallest && std::fabs(w) >= smallest && std::fabs(v) < most && std::fabs(w) < most)) continue;
    if (v == 0 || value_at(y_of(yb), i) == w) continue;
    return broken(show(y_of(yb), i) + ", but " + show(y_of(ya), i) + " before γ was multiplied by 2^" + std::to_string(k));
  }
  return holds();
}

// y is linear in γ and β, exactly: twice the one, and the other changed.
Outcome affine_linear(Trial& t) {
  if (t.base.spec.profile != Profile{}) return vacuous();
  Case other = with(t.base, Role::gamma, [&](std::int64_t i) {
    return nearest_bits(t.base.inputs[Role::gamma]->format, 2 * value_at(*t.base.inputs[Role::gamma], i));
  });
  other = with(other, Role::beta, [&](std::int64_t i) {
    return nearest_bits(t.base.inputs[Role::beta]->format, 1 - value_at(*t.base.inputs[Role::beta], i));
  });
  return differ_exactly(t, other, "2γx̂ + 1 − β");
}

// No gain is a gain of one, no bias a bias of zero.
Outcome affine_absent_is_identity(Trial& t) {
  Case a = with_parameter(with_parameter(t.base, Role::gamma, 1), Role::beta, 0);
  a.spec.profile = {};
  Case b = a;
  b.inputs[Role::gamma].reset();
  b.inputs[Role::beta].reset();
  const ByRole<Tensor> ya = t.run(a), yb = t.run(b);
  const Truth truth = t.truth(a, ya);
  return first_off(
             y_of(yb), truth, "as with γ = 1 and β = 0", [&](std::int64_t i) { return value_at(y_of(ya), i); },
             [&](std::int64_t i) { return 2 * truth.y()[static_cast<std::size_t>(i)].bound; })
      .value_or(holds());
}

// γ_j and β_j touch what is theirs and nothing else, to the bit.
Outcome parameter_locality(Trial& t) {
  const std::int64_t count = size_of(*t.base.inputs[Role::gamma]);
  if (count < 2) return vacuous();
  const auto j = static_cast<std::int64_t>(t.random.next() % static_cast<std::uint64_t>(count));
  Case other = t.base;
  for (const Role role : {Role::gamma, Role::beta}) {
    set_bits(*other.inputs[role], j, nearest_bits(other.inputs[role]->format, value_at(*t.base.inputs[role], j) + 3));
  }
  const ByRole<Tensor> a = t.run(t.base), b = t.run(other);
  const Membership m = membership(t.base);
  const Truth of_b = t.truth(other, b);
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    if (m.parameter[static_cast<std::size_t>(i)] == j) {
      const Element& e = of_b.y()[static_cast<std::size_t>(i)];
      if (!within_bound(e, t.base.format, bits_at(y_of(b), i)))
        return broken(show(y_of(b), i) + " after its γ and β were changed", e.range);
    } else if (!same_number(t.base.format, bits_at(y_of(a), i), bits_at(y_of(b), i))) {
      return broken(show(y_of(b), i) + ", but " + show(y_of(a), i) + " before γ[" + std::to_string(j) +
                    "] was changed, which is not its own");
    }
  }
  return holds();
}

// With γ = 1/rstd and β = μ of the groups, which are those of the first row where groups are rows.
std::optional<Case> with_undoing_parameters(const Case& from, const Arithmetic& arithmetic) {
  Case c = from;
  c.spec.profile = {};
  c.inputs[Role::gamma].reset();
  c.inputs[Role::beta].reset();
  if (c.elements() == 0) return std::nullopt;
  const bool by_row = info(c.spec.op).grouping == Grouping::trailing;
  Case asked = by_row ? rows_of(c, 0, 1) : c;
  asked.outputs = Roles{Role::y, Role::mean, Role::rstd};
  const Result<Truth> statistics = truth_of(asked, arithmetic);
  if (!statistics.ok()) return std::nullopt;
  const Elements &mean = *statistics->outputs[Role::mean], &rstd = *statistics->outputs[Role::rstd];
  const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, Role::gamma);
  if (!shape.ok()) return std::nullopt;
  for (const Role role : {Role::gamma, Role::beta}) {
    c.inputs[role] = tensor_of(role, c.format, *shape);
    c = with(c, role, [&](std::int64_t k) {
      const auto g = by_row ? 0 : static_cast<std::size_t>(k);
      return nearest_bits(c.format, role == Role::gamma ? 1 / rstd[g].exact : mean[g].exact);
    });
    // f16 has no 2^30, which is the root of an ε of 2^60.
    const std::vector<double> all = values(*c.inputs[role]);
    if (!std::all_of(all.begin(), all.end(), [](double v) { return std::isfinite(v); })) return std::nullopt;
  }
  return c;
}

// They undo a normalization, up to their own rounding.
Outcome affine_undo(Trial& t) {
  const bool by_row = info(t.base.spec.op).grouping == Grouping::trailing;
  const std::optional<Case> c = with_undoing_parameters(by_row ? rows_of(t.base, 0, 1) : t.base, t.arithmetic());
  if (!c) return vacuous();
  const ByRole<Tensor> got = t.run(*c);
  const Truth truth = t.truth(*c, got);
  return first_off(
             y_of(got), truth, "x again, undone by γ and β", [&](std::int64_t i) { return value_at(c->x(), i); },
             [&](std::int64_t i) {
               const Element& e = truth.y()[static_cast<std::size_t>(i)];
               return room(e) + std::fabs(e.exact - value_at(c->x(), i));  // what the rounding of γ and β makes, exactly
             })
      .value_or(holds());
}

// What undoes one row does not undo another of another mean or spread: where the exact value is far from x, so is y.
Outcome affine_undoes_one_row(Trial& t) {
  const std::optional<Case> c = with_undoing_parameters(t.base, t.arithmetic());
  if (!c) return vacuous();
  const ByRole<Tensor> got = t.run(*c);
  const Truth truth = t.truth(*c, got);
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < c->elements(); ++i) {
    const Element& e = truth.y()[static_cast<std::size_t>(i)];
    const double x = value_at(c->x(), i);
    if (!std::isfinite(e.exact) || !(std::fabs(e.exact - x) > 2 * room(e))) continue;
    if (std::fabs(value_at(y_of(got), i) - x) > room(e)) return holds();
    last = i;
  }
  return last < 0 ? vacuous() : broken(show(y_of(got), last) + ", which is x: no γ and β undo rows of different mean or spread");
}

Wish both_parameters() { return {.tame = true, .affine = Affine::both}; }
Wish both_plain() { return {.tame = true, .affine = Affine::both, .plain_profile = true}; }

constexpr Law table[] = {
    {"gain_zero_is_beta", "affine_linear", "where γ is 0, y is β", Severity::must, false, both_plain, gain_zero_is_beta,
     "it sees β alone, to the bit, whatever the rest is"},
    {"gain_power_of_two", "gain_power_of_two", "γ·2^k without a bias gives y·2^k, to the bit", Severity::must, false, both_plain,
     gain_power_of_two, "it is to the bit, and compares a subject with itself: no bound excuses it"},
    {"affine_linear", "affine_linear", "y is linear in γ and β", Severity::must, false, both_plain, affine_linear,
     "it names γ or β as what is wrong, whatever x̂ is"},
    {"affine_absent_is_identity", "affine_linear", "no γ is γ = 1, no β is β = 0", Severity::must, false, both_plain,
     affine_absent_is_identity, "it tells what is not given from what is given as nothing"},
    {"parameter_locality", "affine_linear", "γ_j and β_j touch only the elements that are theirs", Severity::must, false, both_parameters,
     parameter_locality, "it names the place of a parameter as what is wrong"},
    {"affine_undo_row", "affine_undo_row", "γ = √(σ²+ε) and β = μ give a row of layer_norm back", Severity::must, false,
     [] { return Wish{.ops = {Op::layer_norm}, .tame = true, .plain_profile = true}; }, affine_undo,
     "the paper's reason for γ and β: that they can undo the rest"},
    {"affine_undoes_one_row", "affine_undoes_one_row", "no γ and β give two rows of layer_norm back that differ in mean or spread",
     Severity::must, false, [] { return Wish{.ops = {Op::layer_norm}, .tame = true, .least_rows = 2, .plain_profile = true}; },
     affine_undoes_one_row, "it is the other half of affine_undo_row: only what does not normalize breaks it"},
    {"affine_undo_batch", "affine_undo_batch", "γ = √(σ²+ε) and β = μ of the batch give x back, all of it", Severity::must, false,
     [] { return Wish{.ops = {Op::batch_norm_training}, .tame = true, .plain_profile = true}; }, affine_undo,
     "the paper's reason for γ and β: that they can undo the rest"},
};

}  // namespace

const std::span<const Law> laws_of_affine = table;

}  // namespace norma::properties
