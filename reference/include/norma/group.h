// What all elements of one group share, exactly, and an element in terms of it: the definition of reference.h for those who bring
// their own loops.
//
// Deviations and the constant are scaled against one another by s (n where a mean is subtracted, else 1), so that deviations stay
// dyadic:  x − μ = (s·x − sum)/s,  and  x̂ = (s·x − sum)·κ  with κ = rstd/s.
#pragma once

#include <functional>

#include "norma/exact.h"
#include "norma/spec.h"

namespace norma {

// The sums over a group. Nothing is lost and nothing is assumed of the order, save for signs of zero and for special values, which
// follow IEEE 754's addition in the order of the calls.
struct Moments {
  Dyadic sum;      // Σx; stays zero where the op subtracts no mean
  Dyadic squares;  // Σx²
  bool centred = true;
  Mode mode = Mode::nearest_even;

  Moments(const OpInfo& op, Mode mode);
  void add(const Dyadic& x);
};

struct Group {
  Integer s{1};
  Dyadic sum;     // subtracted from s·x: the sum, or the mean that was given
  Dyadic spread;  // σ² = spread/z: n·Σ(x − μ)², Σx², or the variance that was given
  Integer z{1};
  Surd kappa;  // rstd/s

  // A group of n elements whose statistics are computed, and one whose statistics are given.
  Group(const Spec& spec, std::int64_t n, Moments moments);
  Group(const Spec& spec, Dyadic mean, Dyadic variance);

  [[nodiscard]] Dyadic deviation(const Dyadic& x, const OpInfo& op, Mode mode) const;  // s·(x − μ), or x where no mean is subtracted

 private:
  void close(const Spec& spec);
};

// Hands (1 − m)·old + m·statistic to `use`, m the weight of the new value as the profile reads `momentum`, for a group that is not empty.
// The Real lives for the call.
void with_running_mean(const Spec& spec, const Group& group, const Dyadic& old, Mode mode, const std::function<void(const Real&)>& use);
void with_running_variance(const Spec& spec, const Group& group, const Dyadic& old, Mode mode, const std::function<void(const Real&)>& use);

// A finite double, exactly.
[[nodiscard]] Dyadic from_double(double value);

}  // namespace norma
