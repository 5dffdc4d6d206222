// Laws about what belongs together: rows and batches, ops that are one another's special cases, ranks.
#include "common.h"
#include "norma/reference.h"

namespace norma::properties {
namespace {

// A row alone, and in its batch: the same bits.
Outcome batch_independence(Trial& t) {
  const std::int64_t rows = t.base.x().shape[0];
  const ByRole<Tensor> whole = t.run(t.base);
  const auto r = static_cast<std::int64_t>(t.random.next() % static_cast<std::uint64_t>(rows));
  const Case alone = rows_of(t.base, r, r + 1);
  const ByRole<Tensor> one = t.run(alone);
  const std::int64_t n = alone.elements();
  for (std::int64_t i = 0; i < n; ++i) {
    if (same_number(t.base.format, bits_at(y_of(one), i), bits_at(y_of(whole), r * n + i))) continue;
    return broken(show(y_of(whole), r * n + i) + " in a batch of " + std::to_string(rows) + ", but " + show(y_of(one), i) + " alone");
  }
  return holds();
}

// The other rows do not leak into a row, whatever they hold.
Outcome no_leak(Trial& t) {
  const std::int64_t rows = t.base.x().shape[0];
  const auto r = static_cast<std::int64_t>(t.random.next() % static_cast<std::uint64_t>(rows));
  const std::int64_t n = t.base.elements() / rows;
  const double wild[] = {0, 1e4, -3, std::numeric_limits<double>::quiet_NaN()};
  const double fill = wild[t.random.next() % std::size(wild)];
  const Case other =
      with(t.base, Role::x, [&](std::int64_t i) { return i / n == r ? bits_at(t.base.x(), i) : nearest_bits(t.base.format, fill); });
  const ByRole<Tensor> a = t.run(t.base), b = t.run(other);
  const Truth truth = t.truth(t.base, a);
  for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
    const Element& e = truth.y()[static_cast<std::size_t>(i)];
    const double difference = std::fabs(value_at(y_of(a), i) - value_at(y_of(b), i));
    if (same_number(t.base.format, bits_at(y_of(a), i), bits_at(y_of(b), i)) || difference <= 2 * e.bound * bound_slack) continue;
    return broken(show(y_of(b), i) + ", but " + show(y_of(a), i) + " before other rows were changed", e.range);
  }
  return holds();
}

// Of batch_norm in training the batch is part of the group.
Outcome batch_dependence(Trial& t) {
  const std::int64_t n = t.base.elements() / t.base.x().shape[0];
  const Case other = with(t.base, Role::x, [&](std::int64_t i) {
    return i < n ? bits_at(t.base.x(), i) : nearest_bits(t.base.format, value_at(t.base.x(), i) * 2 + 1);
  });
  for (std::int64_t i = 0; i < t.base.elements(); ++i) {
    if (!std::isfinite(value_at(other.x(), i))) return vacuous();
  }
  return differ_exactly(t, other, "after another case of the batch was changed");
}

Outcome layer_norm_is_rms_norm_of_centred(Trial& t) {
  // Every element with its negative: the mean is exactly 0.
  const std::int64_t n = t.base.x().shape.back();
  if (n % 2 != 0 || t.base.x().shape.size() != 2) return vacuous();
  Case a = with(t.base, Role::x,
                [&](std::int64_t i) { return i % 2 == 0 ? bits_at(t.base.x(), i) : negated(t.base.format, bits_at(t.base.x(), i - 1)); });
  a.spec.op = Op::layer_norm;
  Case b = a;
  b.spec.op = Op::rms_norm;
  const ByRole<Tensor> ya = t.run(a), yb = t.run(b);
  return differ_exactly(t, a, ya, b, yb, "as layer_norm of the same, whose mean is 0", [](std::int64_t i) { return i; });
}

Outcome batch_norm_is_layer_norm_transposed(Trial& t) {
  Case a = t.base;
  a.inputs[Role::gamma].reset();
  a.inputs[Role::beta].reset();
  const Shape& shape = a.x().shape;
  if (shape.size() != 2) return vacuous();
  Case b = a;
  b.spec.op = Op::layer_norm;
  b.spec.axis.reset();
  b.inputs[Role::x] = tensor_of(Role::x, a.format, {shape[1], shape[0]});
  const auto source = [&](std::int64_t i) { return i % shape[0] * shape[1] + i / shape[0]; };
  b = with(b, Role::x, [&](std::int64_t i) { return bits_at(a.x(), source(i)); });
  const ByRole<Tensor> ya = t.run(a), yb = t.run(b);
  return differ_exactly(t, a, ya, b, yb, "as batch_norm of the transposed", source);
}

// One group is a layer_norm over a case; as many groups as channels is instance_norm.
Outcome group_norm_limits(Trial& t) {
  Case a = t.base;
  a.inputs[Role::gamma].reset();
  a.inputs[Role::beta].reset();
  Case b = a;
  if (t.random.next() % 2 == 0) {
    a.spec.groups = 1;
    b.spec.op = Op::layer_norm;
    b.spec.axis = 1;
    b.spec.groups.reset();
  } else {
    a.spec.groups = a.x().shape[1];
    b.spec.op = Op::instance_norm;
    b.spec.groups.reset();
  }
  const ByRole<Tensor> ya = t.run(a), yb = t.run(b);
  return differ_exactly(t, a, ya, b, yb, "as group_norm of the same groups", [](std::int64_t i) { return i; });
}

// Inference with the batch's own statistics is training.
Outcome train_equals_inference(Trial& t) {
  Case asked = t.base;
  asked.outputs = Roles{Role::y, Role::mean, Role::variance};
  const Result<Truth> truth = truth_of(asked, t.arithmetic());
  if (!truth.ok()) return vacuous();
  Case b = t.base;
  b.spec.op = Op::batch_norm_inference;
  for (const Role role : {Role::mean, Role::variance}) {
    b.inputs[role] = tensor_of(role, t.base.format, {t.base.x().shape[1]});
    b = with(b, role,
             [&](std::int64_t i) { return nearest_bits(t.base.format, (*truth->outputs[role])[static_cast<std::size_t>(i)].exact); });
  }
  return differ_exactly(t, b, "as in training with the same statistics");
}

// A shape is a way to write rows down.
Outcome axis_and_rank(Trial& t) {
  const Shape& shape = t.base.x().shape;
  if (shape.size() != 2) return vacuous();
  Case b = t.base;
  const int choice = static_cast<int>(t.random.next() % 3);
  b.spec.axis = choice == 0 ? 1 : choice == 1 ? 2 : -1;
  const Shape to = choice == 0 ? Shape{shape[0], shape[1]} : choice == 1 ? Shape{1, shape[0], shape[1]} : Shape{shape[0], 1, shape[1]};
  for (const Role role : {Role::x, Role::residual}) {
    if (b.inputs[role]) b.inputs[role]->shape = to;
  }
  return differ_exactly(t, b, "as in two dimensions");
}

Outcome empty_and_single(Trial& t) {
  Case none = rows_of(t.base, 0, 0);
  none.outputs = t.base.outputs.contain(Role::running_mean) ? Roles{Role::y, Role::running_mean, Role::running_variance} : Roles{Role::y};
  const ByRole<Tensor> nothing = t.run(none);
  if (size_of(y_of(nothing)) != 0) return broken("an empty batch has an output");
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    if (!nothing[role]) continue;
    if (std::optional<Outcome> off = first_difference(*nothing[role], *t.base.inputs[role], "before an empty batch")) return *off;
  }
  Case single = rows_of(t.base, 0, 1);
  if (single.elements() == membership(single).groups) {  // one value a group: there is no unbiased estimate
    single.spec.profile.variance = single.spec.profile.running_variance = Estimator::biased;
  }
  const ByRole<Tensor> one = t.run(single);
  return first_outside(t.truth(single, one), one, Role::y).value_or(holds());
}

Wish rows(std::int64_t least) {
  return {.ops = {Op::layer_norm, Op::rms_norm, Op::batch_norm_inference, Op::group_norm, Op::instance_norm},
          .tame = true,
          .least_rows = least};
}
Wish plain(std::vector<Op> ops) { return {.ops = std::move(ops), .tame = true, .plain_profile = true}; }
Wish two_axes(std::vector<Op> ops) { return {.ops = std::move(ops), .tame = true, .plain_profile = true, .two_axes = true}; }

constexpr Law table[] = {
    {"batch_independence", "batch_independence", "a row has the same bits alone and in any batch", Severity::should, true,
     [] { return rows(2); }, batch_independence},
    {"no_leak", "batch_independence", "what other rows hold does not show in a row", Severity::must, false, [] { return rows(2); }, no_leak,
     "it names other rows as what is wrong"},
    {"batch_dependence", "batch_dependence", "in training, batch_norm depends on the whole batch, by the exact amount", Severity::must,
     false,
     [] {
       Wish w = plain({Op::batch_norm_training});
       w.least_rows = 2;
       return w;
     },
     batch_dependence, "it tells training from inference"},
    {"layer_norm_is_rms_norm_of_centred", "layer_norm_is_rms_norm_of_centred", "where the mean is 0, layer_norm and rms_norm are one",
     Severity::must, false, [] { return two_axes({Op::layer_norm}); }, layer_norm_is_rms_norm_of_centred,
     "it holds two ops against each other, which one kernel rarely computes alike by mistake"},
    {"batch_norm_is_layer_norm_transposed", "batch_norm_is_layer_norm_transposed", "batch_norm is layer_norm of the transposed",
     Severity::must, false, [] { return two_axes({Op::batch_norm_training}); }, batch_norm_is_layer_norm_transposed,
     "it holds two ops against each other, and so names the axis as what is wrong"},
    {"group_norm_limits", "group_norm_limits", "one group is layer_norm, a group a channel is instance_norm", Severity::must, false,
     [] { return plain({Op::group_norm}); }, group_norm_limits,
     "it holds three ops against each other, and so names the groups as what is wrong"},
    {"train_equals_inference", "train_equals_inference", "inference with the batch's own statistics is training", Severity::must, false,
     [] { return plain({Op::batch_norm_training}); }, train_equals_inference,
     "it holds two modes against each other, and so names the statistics that are given as what is wrong"},
    {"axis_and_rank", "error_bound", "leading axes, axes of extent 1 and negative axes change nothing", Severity::must, false,
     [] {
       return plain({Op::layer_norm, Op::rms_norm});
     },
     axis_and_rank},
    {"empty_and_single", "memory_contract", "an empty batch gives nothing and changes nothing; one row is a batch", Severity::must, false,
     [] {
       Wish w = plain({});
       w.statistics = true;
       w.least_n = 2;
       w.least_rows = 2;
       return w;
     },
     empty_and_single},
};

}  // namespace

const std::span<const Law> laws_of_structure = table;

}  // namespace norma::properties
