// Laws about the numbers themselves: the exact value, and what the paper says of mean, variance and size.
#include "common.h"

namespace norma::properties {
namespace {

Outcome agrees(Trial& t, std::initializer_list<Role> roles) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  std::optional<Outcome> ranged;
  for (const Role role : roles) {
    if (std::optional<Outcome> off = first_outside(truth, got, role)) {
      if (!off->range) return *off;
      ranged = off;
    }
  }
  return ranged ? *ranged : holds();
}

Outcome agrees_with_reference(Trial& t) { return agrees(t, {Role::y, Role::sum}); }
Outcome auxiliary_outputs(Trial& t) {
  const Roles asked = t.base.outputs;
  return asked.contain(Role::mean) || asked.contain(Role::rstd) ? agrees(t, {Role::mean, Role::rstd, Role::y}) : vacuous();
}
Outcome running_update(Trial& t) { return agrees(t, {Role::running_mean, Role::running_variance, Role::y}); }

// Σ over each group of what `of` makes of ŷ and of y, which `room` says may differ.
template <class Of, class Room>
Outcome group_means(Trial& t, std::string_view what, const Of& of, const Room& room) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  const Membership m = membership(t.base);
  struct Sums {
    double n = 0, got = 0, exact = 0, room = 0;
    bool range = false;
  };
  std::vector<Sums> sums(static_cast<std::size_t>(m.groups));
  for (std::size_t i = 0; i < truth.y().size(); ++i) {
    Sums& s = sums[static_cast<std::size_t>(m.group[i])];
    const Element& e = truth.y()[i];
    const double v = of(value_at(y_of(got), static_cast<std::int64_t>(i)));
    s.n += 1, s.got += v, s.exact += of(e.exact), s.room += room(e) + 0x1p-50 * (std::fabs(v) + 1), s.range |= e.range;
  }
  for (std::size_t g = 0; g < sums.size(); ++g) {
    const Sums& s = sums[g];
    if (s.n == 0 || std::isinf(s.room) || std::fabs(s.got - s.exact) <= s.room) continue;
    char text[200];
    std::snprintf(text, sizeof text, "group %zu: %.*s %.9g, expected %.9g ± %.3g", g, static_cast<int>(what.size()), what.data(),
                  s.got / s.n, s.exact / s.n, s.room / s.n);
    return broken(text, s.range);
  }
  return holds();
}

Outcome mean_zero(Trial& t) {
  return group_means(
      t, "mean", [](double v) { return v; }, [](const Element& e) { return e.bound; });
}
Outcome mean_square(Trial& t) {
  return group_means(
      t, "mean square", [](double v) { return v * v; }, [](const Element& e) { return e.bound * (2 * std::fabs(e.exact) + e.bound); });
}

// |x̂| <= √(n−1), and √n without centring: what no input exceeds.
Outcome bounded_output(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  const Membership m = membership(t.base);
  const double n = static_cast<double>(t.base.elements()) / static_cast<double>(m.groups);
  const double most = std::sqrt(info(t.base.spec.op).centred ? n - 1 : n);
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    const Element& e = truth.y()[static_cast<std::size_t>(i)];
    if (std::fabs(value_at(y_of(got), i)) <= (most + e.bound) * (1 + 1e-12) || std::isinf(e.bound)) continue;
    return broken(show(y_of(got), i) + ", but no |x̂| of " + std::to_string(static_cast<std::int64_t>(n)) + " elements exceeds √" +
                      std::to_string(static_cast<std::int64_t>(most * most + 0.5)),
                  e.range);
  }
  return holds();
}

Outcome flat_row_finite(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    if (!std::isfinite(value_at(y_of(got), i))) return broken(show(y_of(got), i) + " for a flat group and ε > 0");
  }
  return holds();
}

// A running variance takes no square and no reciprocal of n − 1 from one value.
Outcome batch_of_one(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  if (std::optional<Outcome> off = first_outside(truth, got, Role::y)) return *off;
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    if (!got[role]) continue;
    for (std::int64_t i = 0; i < size_of(*got[role]); ++i) {
      if (!std::isfinite(value_at(*got[role], i))) return broken(show(*got[role], i) + " after a batch of one value");
    }
  }
  return holds();
}

// Whether a y that is 0 has a sign to be right about: an honest x̂ is 0 or on the right side of it, as what y is without parameters says,
// and no underflow of γx̂ has lost its sign to β. A zero from which no mean, or one of zeros alone, is taken is not rounded at all.
bool has_sign(const Case& c, const Element& xhat, double x, double gamma) {
  if (xhat.exact == 0) return (x == 0 && xhat.condition == 0) || (std::fabs(gamma) >= 1 && !c.inputs[Role::beta]);
  return gamma == 0 && xhat.bound - xhat.ulp / 2 < std::fabs(xhat.exact);
}

// Which sign a zero has.
Outcome signed_zero(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  Case bare = t.base;
  bare.inputs[Role::gamma].reset();
  bare.inputs[Role::beta].reset();
  const Membership m = membership(bare);
  std::optional<Result<Truth>> xhat;
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Element& e = truth.y()[at];
    const Bits bits = bits_at(y_of(got), i);
    const bool zeros = decode(t.base.format, bits).kind == Kind::finite && (bits & ~info(t.base.format).sign_bit()) == 0 && e.exact == 0;
    if (!zeros || bits == e.rounded) continue;
    if (!xhat) xhat = truth_of(bare, t.arithmetic());
    const double gain = t.base.inputs[Role::gamma] ? value_at(*t.base.inputs[Role::gamma], m.parameter[at]) : 1;
    if (xhat->ok() && !has_sign(t.base, (*xhat)->y()[at], value_at(t.base.x(), i), gain)) continue;
    return broken(show(y_of(got), i) + ", but " + to_shortest(t.base.format, e.rounded) + " by IEEE 754");
  }
  return holds();
}

// Where the exact value is a number, so is the answer; where it is none, neither is the answer.
Outcome range(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    const Element& e = truth.y()[static_cast<std::size_t>(i)];
    const bool finite = decode(t.base.format, e.rounded).kind == Kind::finite;
    if (finite && !std::isfinite(value_at(y_of(got), i)) && !within_bound(e, t.base.format, bits_at(y_of(got), i))) {
      return broken(show(y_of(got), i) + ", exactly " + to_shortest(t.base.format, e.rounded), true);
    }
  }
  return holds();
}

Outcome non_finite_contained(Trial& t) {
  const ByRole<Tensor> got = t.run(t.base);
  const Truth truth = t.truth(t.base, got);
  const Membership m = membership(t.base);
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    const Element& e = truth.y()[static_cast<std::size_t>(i)];
    const Bits bits = bits_at(y_of(got), i);
    const bool number = decode(t.base.format, bits).kind != Kind::nan;
    const bool should = decode(t.base.format, e.rounded).kind != Kind::nan;
    if (number != should) {
      return broken(show(y_of(got), i) + ", exactly " + to_shortest(t.base.format, e.rounded) + ": what is not finite stays in its group",
                    e.range);
    }
    if (should && !within_bound(e, t.base.format, bits)) return broken(show(y_of(got), i) + ", beside a group that is not finite", e.range);
  }
  return holds();
}

const std::vector<Op> rows{Op::layer_norm, Op::rms_norm};
const std::vector<Op> averaging{Op::layer_norm, Op::batch_norm_training, Op::group_norm, Op::instance_norm};
const std::vector<Op> computing{Op::layer_norm, Op::rms_norm, Op::batch_norm_training, Op::group_norm, Op::instance_norm};

Wish everything() { return {.residual = true, .epsilon_zero = true}; }
Wish statistics() { return {.tame = true, .statistics = true}; }
Wish training() { return {.ops = {Op::batch_norm_training}, .tame = true, .statistics = true}; }
Wish bare(std::vector<Op> ops) { return {.ops = std::move(ops), .tame = true, .affine = Affine::none, .plain_profile = true}; }
Wish centred() { return bare(averaging); }
Wish flat_groups() { return {.ops = averaging, .tame = true, .plain_profile = true, .family = "flat"}; }

constexpr Law table[] = {
    {"agrees_with_reference", "error_bound", "every output is within the bound of the exact value", Severity::must, false, everything,
     agrees_with_reference, "it is the definition: what no other law looks at, it sees"},
    {"auxiliary_outputs", "error_bound", "mean and rstd = 1/√(σ²+ε), not the variance, are within their bounds, and y beside them",
     Severity::must, false, statistics, auxiliary_outputs},
    {"running_update", "running_update",
     "running statistics take in the batch by the declared momentum and estimator, and y takes nothing from them", Severity::must, false,
     training, running_update},
    {"mean_zero", "mean_zero", "without gain and bias the mean of y is 0", Severity::must, false, centred, mean_zero,
     "the paper's first promise: it names the mean as what is wrong"},
    {"variance_one", "variance_one", "without gain and bias the variance of y is σ²/(σ²+ε)", Severity::must, false, centred, mean_square,
     "the paper's second promise: it names the variance as what is wrong"},
    {"mean_square_one", "mean_square_one", "without gain the mean square of y is m/(m+ε), m that of x", Severity::must, false,
     [] { return bare({Op::rms_norm}); }, mean_square, "the promise of rms_norm: it names the mean square as what is wrong"},
    {"bounded_output", "bounded_output", "|x̂| <= √(n−1), and √n without centring", Severity::must, false,
     [] {
       return bare({Op::layer_norm, Op::rms_norm, Op::group_norm, Op::instance_norm});
     },
     bounded_output, "it needs no exact value: what breaks it is wrong at sight, whatever x was"},
    {"flat_row_finite", "flat_row_is_beta", "a group of equal elements has finite outputs where ε > 0", Severity::must, false, flat_groups,
     flat_row_finite, "it needs no exact value: what breaks it is wrong at sight"},
    {"flat_row_is_beta", "flat_row_is_beta", "a group of equal elements gives the bias", Severity::must, false, flat_groups,
     agrees_with_reference, "it looks where x̂ is 0, and so names what should have cancelled as what is wrong"},
    {"batch_of_one", "flat_row_is_beta", "a batch of one value gives the bias and leaves running statistics finite", Severity::must, false,
     [] {
       Wish w = training();
       w.most_rows = w.most_n = 1;
       return w;
     },
     batch_of_one},
    {"epsilon_inside_root", "error_bound", "ε is where the profile says, inside the root: with σ² near ε it shows", Severity::must, false,
     [] { return Wish{.tame = true, .family = "powers_of_two"}; }, agrees_with_reference,
     "it looks where σ² is near ε, and so names ε as what is wrong"},
    {"epsilon_zero", "error_bound", "ε = 0 means 0, not the least somebody allows", Severity::must, false,
     [] { return Wish{.tame = true, .epsilon_zero = true, .family = "small_integers"}; }, agrees_with_reference,
     "it looks where ε is 0, and so names a least ε as what is wrong"},
    {"count_exact", "error_bound", "n elements are counted as n: ramps of up to 4200", Severity::must, false,
     [] {
       return Wish{.ops = rows, .tame = true, .most_rows = 2, .least_n = 120, .most_n = 4200, .plain_profile = true, .family = "ramp"};
     },
     agrees_with_reference, "it looks where n leaves the integers of a format, and so names the count as what is wrong"},
    {"tails", "error_bound", "no length is special: ramps of up to 260, powers of two and their neighbours", Severity::must, false,
     [] { return Wish{.tame = true, .most_rows = 3, .most_n = 260, .family = "ramp"}; }, agrees_with_reference,
     "it looks at every length, and so names the one that is wrong"},
    {"extents", "error_bound", "no number of rows, channels, positions or axes is special: hundreds, thousands, and five", Severity::must,
     false, [] { return Wish{.most_rows = 300, .most_n = 20'000, .far = true, .maybe_statistics = true, .residual = true}; },
     agrees_with_reference},
    {"large_n", "error_bound", "long groups, now and then of more than 2^20 elements, are within the bound of their length", Severity::must,
     false,
     [] {
       return Wish{.ops = rows,
                   .tame = true,
                   .most_rows = 1,
                   .least_n = 4000,
                   .most_n = 66000,
                   .huge_n = std::int64_t{1} << 20,
                   .plain_profile = true};
     },
     agrees_with_reference},
    {"mixed_formats", "error_bound", "parameters may have another format than x", Severity::must, false,
     [] { return Wish{.tame = true, .affine = Affine::both, .mixed = true}; }, agrees_with_reference},
    {"profile_honoured", "error_bound", "what the profile asks for is done: ε outside the root, 1 + γ, a rounding before the gain, n − 1",
     Severity::must, false, [] { return Wish{.tame = true, .affine = Affine::both, .profiles = true}; }, agrees_with_reference},
    {"signed_zero", "special_values", "a zero has the sign that IEEE 754 gives it", Severity::should, false,
     [] { return Wish{.plain_profile = true}; }, signed_zero},
    {"subnormals_kept", "error_bound", "subnormal inputs and outputs are numbers, not zeros", Severity::should, false,
     [] { return Wish{.plain_profile = true, .family = "subnormal"}; }, agrees_with_reference},
    {"range", "special_values", "what is exactly a number comes out as a number", Severity::should, false,
     [] { return Wish{.plain_profile = true}; }, range, "it tells an overflow on the way from a result that is too far away"},
    {"non_finite_contained", "special_values", "NaN and infinity follow IEEE 754 and stay in their group", Severity::must, false,
     [] { return Wish{.ops = computing, .finite = false, .plain_profile = true, .family = "non_finite"}; }, non_finite_contained},
};

}  // namespace

const std::span<const Law> laws_of_values = table;

}  // namespace norma::properties
