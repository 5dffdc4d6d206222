#include "norma/group.h"

#include <bit>
#include <utility>

namespace norma {

Dyadic from_double(double value) { return Dyadic(decode(Format::f64, std::bit_cast<Bits>(value))); }

namespace {

void with_running(const Spec& spec, const Dyadic& numerator, const Integer& denominator, const Dyadic& old, Mode mode,
                  const std::function<void(const Real&)>& use) {
  const Dyadic momentum = from_double(spec.momentum);
  const Dyadic complement = add(Dyadic(1), -momentum, mode);
  const bool of_new = spec.profile.momentum == Momentum::weight_of_new;
  const Dyadic kept = (of_new ? complement : momentum) * old;
  use(affine(of_new ? &momentum : &complement, numerator, Surd::ratio(1, denominator), &kept, mode));
}

}  // namespace

void with_running_mean(const Spec& spec, const Group& group, const Dyadic& old, Mode mode, const std::function<void(const Real&)>& use) {
  with_running(spec, group.sum, group.s, old, mode, use);
}

void with_running_variance(const Spec& spec, const Group& group, const Dyadic& old, Mode mode,
                           const std::function<void(const Real&)>& use) {
  const bool biased = spec.profile.running_variance == Estimator::biased;
  with_running(spec, group.spread, group.s * (biased ? group.s : group.s - 1), old, mode, use);
}

Moments::Moments(const OpInfo& op, Mode rounding) : centred(op.centred), mode(rounding) {
  sum.negative = centred && mode != Mode::down;  // IEEE 754's neutral element of addition is −0, but +0 when rounding down
}

void Moments::add(const Dyadic& x) {
  if (centred) sum = norma::add(std::move(sum), x, mode);
  squares = norma::add(std::move(squares), x * x);
}

Group::Group(const Spec& spec, std::int64_t size, Moments moments) : sum(std::move(moments.sum)) {
  const Integer n = size;
  if (info(spec.op).centred) {
    s = n;
    spread = add(Dyadic(n) * moments.squares, -(sum * sum));
    z = n * (spec.profile.variance == Estimator::biased ? n : n - 1);
  } else {
    spread = std::move(moments.squares);
    z = info(spec.op).grouping == Grouping::leading_index ? Integer(1) : n;
  }
  close(spec);
}

Group::Group(const Spec& spec, Dyadic mean, Dyadic variance) : sum(std::move(mean)), spread(std::move(variance)) { close(spec); }

void Group::close(const Spec& spec) {
  const Dyadic epsilon = from_double(spec.effective_epsilon());
  if (z.is_zero()) {
    kappa = Surd::ratio(0, 0);  // no elements
  } else if (spec.profile.epsilon_placement == EpsilonPlacement::inside) {
    kappa = Surd::reciprocal_root(add(spread, Dyadic(z) * epsilon), z, s);
  } else {
    kappa = Surd::reciprocal_root_plus(spread, z, epsilon, s);
  }
}

Dyadic Group::deviation(const Dyadic& x, const OpInfo& op, Mode mode) const { return op.centred ? add(Dyadic(s) * x, -sum, mode) : x; }

}  // namespace norma
