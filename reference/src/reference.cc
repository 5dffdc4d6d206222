#include "norma/reference.h"

#include <utility>

#include "nest.h"
#include "norma/group.h"

namespace norma {
namespace {

// One call, with what is the same for all its groups.
class Evaluation {
 public:
  Evaluation(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& wanted, Mode mode, const Visitor& visit, Nest nest)
      : spec_(spec), op_(info(spec.op)), inputs_(inputs), wanted_(wanted), mode_(mode), visit_(visit), nest_(std::move(nest)) {}

  void run() {
    const bool statistics =
        wants(Role::mean) || wants(Role::variance) || wants(Role::rstd) || wants(Role::running_mean) || wants(Role::running_variance);
    if (nest_.n == 0 && !statistics) return;  // however many groups there are of nothing
    walk(nest_.over_groups, {}, [this](const Offsets& at) { group(at); });
  }

 private:
  static std::size_t index(Role role) { return static_cast<std::size_t>(role); }

  [[nodiscard]] Dyadic input(Role role, const Offsets& at) const {
    const ConstView& view = *inputs_[role];
    return Dyadic(decode(view.format, load(view.format, view.data + at.in[index(role)] * info(view.format).bytes())));
  }

  // x, or x + residual as the profile forms it.
  [[nodiscard]] Dyadic element(const Offsets& at) const {
    Dyadic x = input(Role::x, at);
    if (!inputs_[Role::residual]) return x;
    const bool exact = spec_.profile.residual_sum == ResidualSum::exact;
    Dyadic sum = add(x, input(Role::residual, at), exact ? mode_ : Mode::nearest_even);
    if (exact) return sum;
    const Format format = inputs_[Role::x]->format;
    return Dyadic(decode(format, round(Real(std::move(sum)), format).bits));
  }

  [[nodiscard]] bool wants(Role role) const { return wanted_[role].has_value(); }
  void give(Role role, const Offsets& at, const Real& value) const { visit_(role, at.out[index(role)], value); }

  [[nodiscard]] Group statistics(const Offsets& at) const {
    if (op_.given_statistics) return {spec_, input(Role::mean, at), input(Role::variance, at)};
    Moments moments(op_, mode_);
    walk(nest_.in_group, at, [&](const Offsets& i) { moments.add(element(i)); });
    return {spec_, nest_.n, std::move(moments)};
  }

  void group(const Offsets& at) const {
    const Group g = statistics(at);
    if (wants(Role::mean)) give(Role::mean, at, affine(nullptr, g.sum, Surd::ratio(1, g.s), nullptr, mode_));
    if (wants(Role::variance)) give(Role::variance, at, affine(nullptr, g.spread, Surd::ratio(1, g.z), nullptr, mode_));
    if (wants(Role::rstd)) give(Role::rstd, at, affine(nullptr, Dyadic(g.s), g.kappa, nullptr, mode_));
    if (wants(Role::running_mean)) update(Role::running_mean, at, g, with_running_mean);
    if (wants(Role::running_variance)) update(Role::running_variance, at, g, with_running_variance);

    const Surd per_s = wants(Role::deviation) ? Surd::ratio(1, g.s) : one_;
    walk(nest_.in_group, at, [&](const Offsets& i) {
      const Dyadic x = element(i);
      const Dyadic deviation = g.deviation(x, op_, mode_);
      if (wants(Role::sum)) give(Role::sum, i, Real(x));
      if (wants(Role::deviation)) give(Role::deviation, i, affine(nullptr, deviation, per_s, nullptr, mode_));
      if (!spec_.profile.cast_before_gain) {
        if (wants(Role::xhat)) give(Role::xhat, i, affine(nullptr, deviation, g.kappa, nullptr, mode_));
        if (wants(Role::y)) give(Role::y, i, restyled(i, deviation, g.kappa));
      } else if (wants(Role::y)) {
        const Format format = wanted_[Role::y]->format;
        const Bits xhat = round(affine(nullptr, deviation, g.kappa, nullptr, mode_), format, mode_).bits;
        const Dyadic rounded(decode(format, xhat));
        if (wants(Role::xhat)) give(Role::xhat, i, Real(rounded));
        give(Role::y, i, restyled(i, rounded, one_));
      }
    });
  }

  // γ·(deviation·κ) + β
  [[nodiscard]] Real restyled(const Offsets& at, const Dyadic& deviation, const Surd& kappa) const {
    Dyadic gamma;
    Dyadic beta;
    if (inputs_[Role::gamma]) gamma = input(Role::gamma, at);
    if (inputs_[Role::gamma] && spec_.profile.gain_offset) gamma = add(Dyadic(1), gamma, mode_);
    if (inputs_[Role::beta]) beta = input(Role::beta, at);
    return affine(inputs_[Role::gamma] ? &gamma : nullptr, deviation, kappa, inputs_[Role::beta] ? &beta : nullptr, mode_);
  }

  // An empty batch leaves the running statistics as they are.
  void update(Role role, const Offsets& at, const Group& g, decltype(with_running_mean)& rule) const {
    const Dyadic old = input(role, at);
    if (nest_.n == 0) return give(role, at, Real(old));
    rule(spec_, g, old, mode_, [&](const Real& value) { give(role, at, value); });
  }

  const Spec& spec_;
  const OpInfo& op_;
  const ByRole<ConstView>& inputs_;
  const ByRole<View>& wanted_;
  Mode mode_;
  const Visitor& visit_;
  Nest nest_;
  Surd one_ = Surd::ratio(1, 1);
};

Status evaluate(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& wanted, Mode mode, const Visitor& visit,
                bool memory) {
  Result<Nest> nest = make_nest(spec, inputs, wanted, memory);
  if (!nest.ok()) return nest.status();
  Evaluation(spec, inputs, wanted, mode, visit, std::move(*nest)).run();
  return {};
}

}  // namespace

Status evaluate(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& wanted, Mode mode, const Visitor& visit) {
  return evaluate(spec, inputs, wanted, mode, visit, false);
}

Status compute(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, Mode mode) {
  return evaluate(
      spec, inputs, outputs, mode,
      [&](Role role, std::int64_t offset, const Real& value) {
        const View& view = *outputs[role];
        store(view.format, round(value, view.format, mode).bits, view.data + offset * info(view.format).bytes());
      },
      true);
}

}  // namespace norma
