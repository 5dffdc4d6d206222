// Laws about what a change of x does to y: shifts, scales, signs, orders.
#include <algorithm>
#include <numeric>

#include "common.h"

namespace norma::properties {
namespace {

// x + c, or x·2^k, as long as every sum and product is exact and stays far from the ends of the format.
std::optional<Case> moved(const Case& c, double by) {
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    const double sum = value_at(c.x(), i) + by;
    if (sum - by != value_at(c.x(), i) || value_of(c.format, nearest_bits(c.format, sum)) != sum) return std::nullopt;
  }
  return with(c, Role::x, [&](std::int64_t i) { return nearest_bits(c.format, value_at(c.x(), i) + by); });
}

std::optional<Case> scaled(const Case& c, int k) {
  const double least = std::ldexp(1.0, info(c.format).min_exponent()), most = std::ldexp(1.0, info(c.format).max_exponent());
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    const double v = std::fabs(value_at(c.x(), i)), w = std::ldexp(v, k);
    if (v != 0 && !(w >= least && w < most && v >= least)) return std::nullopt;
  }
  return with(c, Role::x, [&](std::int64_t i) { return nearest_bits(c.format, std::ldexp(value_at(c.x(), i), k)); });
}

// y of two cases of one shape, to the bit.
Outcome same_bits(Trial& t, const Case& other, std::string_view law, bool negative = false) {
  const ByRole<Tensor> a = t.run(t.base), b = t.run(other);
  Tensor want = y_of(a);
  for (std::int64_t i = 0; negative && i < size_of(want); ++i) set_bits(want, i, negated(want.format, bits_at(want, i)));
  std::optional<Outcome> difference = first_difference(y_of(b), want, law);
  if (!difference) return holds();
  for (const auto& [c, y] : {std::pair(&t.base, &a), {&other, &b}}) {
    const Truth truth = t.truth(*c, *y);
    difference->range |= std::any_of(truth.y().begin(), truth.y().end(), [](const Element& e) { return e.range; });
  }
  return *difference;
}

double some_shift(Trial& t) {
  const double powers[] = {1, -2, 4, 16, -64, 256, 1024, 8192};
  return powers[t.random.next() % std::size(powers)];
}

// What is normalized already stays as it is, where ε = 0. With ŷ = y + e, |e| <= B in a group: ŷ has a mean of at most B and a deviation
// within B of 1, so that its exact normalization is off from ŷ by at most (|ŷ| + 1)·B/(1 − B).
Outcome idempotent(Trial& t) {
  Case first = t.base;
  first.spec.epsilon = 0;
  const ByRole<Tensor> once = t.run(first);
  const Truth of_first = t.truth(first, once);
  const Membership m = membership(first);
  std::vector<double> most(static_cast<std::size_t>(m.groups));
  for (std::size_t i = 0; i < of_first.y().size(); ++i) {
    const Element& e = of_first.y()[i];
    if (!std::isfinite(e.exact) || !std::isfinite(value_at(y_of(once), static_cast<std::int64_t>(i)))) return vacuous();  // flat
    double& b = most[static_cast<std::size_t>(m.group[i])];
    b = std::max(b, room(e));
  }
  Case second = first;
  second.inputs[Role::x]->data = y_of(once).data;
  const ByRole<Tensor> twice = t.run(second);
  Truth of_second = t.truth(second, twice);
  for (std::size_t i = 0; i < of_first.y().size(); ++i) (*of_second.outputs[Role::y])[i].range |= of_first.y()[i].range;
  return first_off(
             y_of(twice), of_second, "as it was after the first time", [&](std::int64_t i) { return value_at(y_of(once), i); },
             [&](std::int64_t i) {
               const double b = most[static_cast<std::size_t>(m.group[static_cast<std::size_t>(i)])];
               const double carried = b < 1 ? (std::fabs(value_at(y_of(once), i)) + 1) * b / (1 - b) : HUGE_VAL;
               return room(of_second.y()[static_cast<std::size_t>(i)]) + carried;
             })
      .value_or(holds());
}

Outcome shift_invariance(Trial& t) {
  const std::optional<Case> other = moved(t.base, some_shift(t));
  return other ? differ_exactly(t, *other, "the same as without the shift") : vacuous();
}

// RMSNorm subtracts no mean: a shift that changes the exact value by more than the bounds has to change y.
Outcome rms_norm_feels_shift(Trial& t) {
  const std::optional<Case> other = moved(t.base, some_shift(t));
  if (!other) return vacuous();
  return differ_exactly(t, *other, "not what it was before the shift");
}

// ε goes with the scale: then nothing changes.
std::optional<Case> scaled_with_epsilon(Trial& t) {
  const int k = static_cast<int>(t.random.next() % 13) - 6;
  std::optional<Case> other = scaled(t.base, k);
  if (other) other->spec.epsilon = std::ldexp(t.base.spec.effective_epsilon(), 2 * k);
  return other;
}
// To the bit only where no rounding of ε itself intervenes.
bool binary_epsilon(const Case& c) {
  const double e = c.spec.effective_epsilon();
  return static_cast<double>(static_cast<float>(e)) == e;
}

Outcome scale_invariance(Trial& t) {
  if (!binary_epsilon(t.base)) return vacuous();
  const std::optional<Case> other = scaled_with_epsilon(t);
  return other ? same_bits(t, *other, "for x and the root of ε not scaled by a power of two") : vacuous();
}
Outcome scale_invariance_in_bound(Trial& t) {
  const std::optional<Case> other = scaled_with_epsilon(t);
  return other ? differ_exactly(t, *other, "the same as unscaled") : vacuous();
}

Outcome scale_with_fixed_epsilon(Trial& t) {
  const std::optional<Case> other = scaled(t.base, static_cast<int>(t.random.next() % 13) - 6);
  return other ? differ_exactly(t, *other, "scaled by √((σ²+ε)/(σ²+ε/δ²))") : vacuous();
}

Outcome odd_symmetry(Trial& t) {
  const auto flip = [](const Case& c, Role role) {
    return with(c, role, [&](std::int64_t i) { return negated(c.inputs[role]->format, bits_at(*c.inputs[role], i)); });
  };
  Case other = flip(t.base, Role::x);
  if (other.inputs[Role::beta]) other = flip(other, Role::beta);
  if (other.inputs[Role::mean]) other = flip(other, Role::mean);
  return same_bits(t, other, "minus what -x and -β give", true);
}

Outcome epsilon_monotone(Trial& t) {
  Case other = t.base;
  other.spec.epsilon = t.base.spec.effective_epsilon() * 4 + 0x1p-10;
  return differ_exactly(t, other, "smaller with a larger ε, by the exact factor");
}

// Another order of a group's elements, with their gain and bias, is the same order of y.
Outcome permutation_equivariance(Trial& t) {
  const Shape& shape = t.base.x().shape;
  if (shape.size() != 2) return vacuous();
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape[1]));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[t.random.next() % i]);
  Case other = with(t.base, Role::x, [&](std::int64_t i) {
    return bits_at(t.base.x(), i / shape[1] * shape[1] + order[static_cast<std::size_t>(i % shape[1])]);
  });
  for (const Role role : {Role::gamma, Role::beta}) {
    if (!t.base.inputs[role]) continue;
    if (size_of(*t.base.inputs[role]) != shape[1]) return vacuous();
    other = with(other, role, [&](std::int64_t i) { return bits_at(*t.base.inputs[role], order[static_cast<std::size_t>(i)]); });
  }
  const ByRole<Tensor> a = t.run(t.base), b = t.run(other);
  const auto source = [&](std::int64_t i) { return i / shape[1] * shape[1] + order[static_cast<std::size_t>(i % shape[1])]; };
  return differ_exactly(t, t.base, a, other, b, "the same element as before the permutation", source);
}

// x followed by x has the same mean and variance.
Outcome repetition(Trial& t) {
  const Shape& shape = t.base.x().shape;
  if (shape.size() != 2 || t.base.elements() == 0) return vacuous();
  Case other = t.base;
  const std::int64_t n = shape[1];
  const auto doubled = [n](const Tensor& from, std::int64_t rows) {
    Tensor to = from;
    to.shape.back() = 2 * n;
    to.data.resize(from.data.size() * 2);
    for (std::int64_t i = 0; i < rows * 2 * n; ++i) set_bits(to, i, bits_at(from, i / (2 * n) * n + i % n));
    return to;
  };
  other.inputs[Role::x] = doubled(t.base.x(), shape[0]);
  for (const Role role : {Role::gamma, Role::beta}) {
    if (other.inputs[role]) other.inputs[role] = doubled(*t.base.inputs[role], 1);
  }
  const ByRole<Tensor> a = t.run(t.base), b = t.run(other);
  const auto source = [&](std::int64_t i) { return i / (2 * n) * n + i % n; };
  return differ_exactly(t, t.base, a, other, b, "the same as without the repetition", source);
}

// Without gain and bias y is an increasing function of x within a group: rounding is monotone.
Outcome order_preserved(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  const Membership m = membership(t.base);
  std::vector<std::int64_t> order(static_cast<std::size_t>(t.base.elements()));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<double> x = values(t.base.x()), y = values(y_of(got));
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return m.group[i] != m.group[j] ? m.group[i] < m.group[j] : x[i] < x[j];
  });
  for (std::size_t k = 1; k < order.size(); ++k) {
    const auto i = static_cast<std::size_t>(order[k - 1]), j = static_cast<std::size_t>(order[k]);
    if (m.group[i] != m.group[j] || !(x[i] <= x[j]) || !std::isfinite(y[i]) || !std::isfinite(y[j])) continue;
    if (y[i] > y[j] || (x[i] == x[j] && y[i] != y[j])) {
      return broken(show(y_of(got), order[k - 1]) + " and " + show(y_of(got), order[k]) + ", but x " +
                    (x[i] == x[j] ? "is equal" : "is less"));
    }
  }
  return holds();
}

const std::vector<Op> computing{Op::layer_norm, Op::rms_norm, Op::batch_norm_training, Op::group_norm, Op::instance_norm};
Wish ordinary_of(std::vector<Op> ops) { return {.ops = std::move(ops), .tame = true, .plain_profile = true}; }
Wish bare_rows() { return {.ops = {Op::layer_norm, Op::rms_norm}, .tame = true, .plain_profile = true}; }

constexpr Law table[] = {
    {"shift_invariance", "shift_invariance", "a constant added to a group changes nothing", Severity::must, false,
     [] {
       return ordinary_of({Op::layer_norm, Op::batch_norm_training, Op::group_norm, Op::instance_norm});
     },
     shift_invariance, "the invariance that the mean is subtracted for: it names cancellation as what is wrong"},
    {"rms_norm_feels_shift", "rms_norm_feels_shift", "rms_norm has no such invariance: a shift changes y by the exact amount",
     Severity::must, false, [] { return ordinary_of({Op::rms_norm}); }, rms_norm_feels_shift,
     "it tells rms_norm from layer_norm, whatever x is"},
    {"scale_invariance", "scale_invariance", "x·2^k with ε·4^k gives the same bits", Severity::should, true,
     [] { return ordinary_of(computing); }, scale_invariance, "it is to the bit, and compares a subject with itself: no bound excuses it"},
    {"scale_invariance_in_bound", "scale_invariance", "x·2^k with ε·4^k gives the same within the bounds", Severity::must, false,
     [] { return ordinary_of(computing); }, scale_invariance_in_bound, "the same for those who do not declare it to the bit"},
    {"scale_with_fixed_epsilon", "scale_with_fixed_epsilon", "δx with the same ε gives y by the factor √((σ²+ε)/(σ²+ε/δ²))", Severity::must,
     false, [] { return ordinary_of(computing); }, scale_with_fixed_epsilon, "it shows what ε does at every scale"},
    {"odd_symmetry", "odd_symmetry", "-x and -β give -y, to the bit", Severity::must, false,
     [] { return Wish{.tame = true, .plain_profile = true}; }, odd_symmetry},
    {"epsilon_monotone", "epsilon_monotone", "a larger ε makes |x̂| smaller, by the exact factor", Severity::must, false,
     [] { return ordinary_of({}); }, epsilon_monotone, "it changes nothing but ε, and so names it as what is wrong"},
    {"permutation_equivariance", "permutation_equivariance", "the order of a group's elements does not matter", Severity::must, false,
     bare_rows, permutation_equivariance, "it names the place of an element as what is wrong"},
    {"repetition", "repetition", "x followed by x has the outputs of x, twice", Severity::must, false, bare_rows, repetition,
     "it names the count as what is wrong, at any length"},
    {"idempotent", "idempotent", "what is normalized already stays as it is, where ε = 0", Severity::must, false,
     [] {
       Wish w = ordinary_of(computing);
       w.affine = Affine::none;
       return w;
     },
     idempotent, "it needs no reference, only bounds: the result is its own witness"},
    {"order_preserved", "order_preserved", "within a group, without gain and bias, a larger x has no smaller y", Severity::must, false,
     [] {
       Wish w = ordinary_of({});
       w.affine = Affine::none;
       return w;
     },
     order_preserved, "it needs no exact value, and no bound: rounding is monotone"},
};

}  // namespace

const std::span<const Law> laws_of_symmetry = table;

}  // namespace norma::properties
