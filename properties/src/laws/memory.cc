// Laws about memory: where tensors lie may change nothing, and nobody writes beside them. Overruns, changed inputs and unwritten outputs
// are seen by what runs the subject, whatever the law; the ones here look where they are likely.
#include "common.h"

namespace norma::properties {
namespace {

// The same call with tensors lying as `place` says, against plain memory.
template <class Place>
Outcome placed(Trial& t, std::string_view law, bool bits, const Place& place) {
  Case plain = t.base, other = t.base;
  plain.placement = {};
  other.placement = {};
  place(other.placement);
  const ByRole<Tensor> a = t.run(plain), b = t.run(other);
  const std::optional<Outcome> off = bits ? first_difference(y_of(b), y_of(a), law) : first_outside(t.truth(plain, b), b, Role::y);
  return off.value_or(holds());
}

Outcome strides_honoured(Trial& t) {
  const auto gap = static_cast<std::int64_t>(1 + t.random.next() % 20);
  return placed(t, "", false, [&](Placement& p) { p.row_gap = gap; });
}
Outcome layouts_agree(Trial& t) {
  if (t.base.x().shape.size() < 3) return vacuous();
  return placed(t, "", false, [](Placement& p) { p.channels_last = true; });
}
Outcome alignment(Trial& t) {
  const auto offset = static_cast<std::int64_t>(1 + t.random.next() % 15);
  return placed(t, "at a multiple of 64 bytes", true, [&](Placement& p) { p.offset = offset; });
}
Outcome alignment_in_bound(Trial& t) {
  const auto offset = static_cast<std::int64_t>(1 + t.random.next() % 15);
  return placed(t, "", false, [&](Placement& p) { p.offset = offset; });
}
Outcome in_place(Trial& t) {
  return placed(t, "", false, [](Placement& p) { p.in_place = true; });
}
Outcome deterministic(Trial& t) {
  const ByRole<Tensor> a = t.run(t.base), b = t.run(t.base);
  return first_difference(y_of(b), y_of(a), "the first time").value_or(holds());
}
void ask_for_threads(const Trial& t) {
  if (t.arithmetic().threads) return;
  throw Trial::Unanswered{t.base, {Reply::Kind::unsupported, "its profile does not say that it can be told how many threads to use", {}}};
}
Outcome threads_in_bound(Trial& t) {
  ask_for_threads(t);
  const auto count = static_cast<int>(2 + t.random.next() % 7);
  return placed(t, "", false, [&](Placement& p) { p.threads = count; });
}
Outcome threads(Trial& t) {
  ask_for_threads(t);
  const auto with = [&](int count) {
    Case c = t.base;
    c.placement.threads = count;
    return t.run(c);
  };
  const ByRole<Tensor> one = with(1);
  for (const int count : {2, 3, 8}) {
    if (std::optional<Outcome> other = first_difference(y_of(one), y_of(with(count)), "by " + std::to_string(count) + " threads"))
      return *other;
  }
  return holds();
}
// The search for those who write beside tensors: each of them against either wall.
Outcome walls(Trial& t) {
  Case c = t.base;
  for (std::uint64_t salt = 0; salt < 2; ++salt) {
    c.salt = salt;
    t.run(c);
  }
  return holds();
}

Wish any_shape() { return {.tame = true, .maybe_statistics = true}; }
Wish with_channels() {
  return {.ops = {Op::batch_norm_training, Op::batch_norm_inference, Op::group_norm, Op::instance_norm}, .tame = true};
}

constexpr Law table[] = {
    {"no_overrun", "memory_contract", "nothing is read or written outside the tensors, and every output is written", Severity::must, false,
     any_shape, walls, "every law sees who writes outside or not at all: this one looks at either end of each tensor"},
    {"input_unchanged", "memory_contract", "inputs are read", Severity::must, false, [] { return Wish{.tame = true, .residual = true}; },
     walls, "every law sees who writes to inputs: this one has a residual among them"},
    {"in_place", "memory_contract", "y may take the place of x", Severity::must, false, [] { return Wish{.tame = true}; }, in_place},
    {"strides_honoured", "memory_contract", "rows may lie apart", Severity::must, false, [] { return Wish{.tame = true}; },
     strides_honoured, "it names strides as what is wrong"},
    {"layouts_agree", "memory_contract", "channels may lie first or last", Severity::must, false, with_channels, layouts_agree},
    {"alignment", "memory_contract", "where a tensor starts does not show, to the bit", Severity::should, true,
     [] { return Wish{.tame = true}; }, alignment},
    {"alignment_in_bound", "memory_contract", "a tensor may start anywhere", Severity::must, false, [] { return Wish{.tame = true}; },
     alignment_in_bound, "it names the address as what is wrong, of those who do not declare alignment to the bit"},
    {"threads", "memory_contract", "the number of threads does not show, to the bit", Severity::should, true,
     [] { return Wish{.tame = true, .most_rows = 96, .most_n = 1000}; }, threads},
    {"threads_in_bound", "memory_contract", "any number of threads may do it", Severity::must, false,
     [] { return Wish{.tame = true, .most_rows = 96, .most_n = 1000}; }, threads_in_bound,
     "it names the number of threads as what is wrong, of those who do not declare threads to the bit"},
    {"deterministic", "memory_contract", "the same call gives the same bits", Severity::must, false, any_shape, deterministic,
     "two equal calls: no change of the case excuses it"},
};

}  // namespace

const std::span<const Law> laws_of_memory = table;

}  // namespace norma::properties
