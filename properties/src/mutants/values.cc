// Numbers that are not ordinary, the last rounding, and the statistics that are handed out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "faults.h"

namespace norma::properties {
namespace {

template <class T>
T flushed(Format format, T value) {
  return std::abs(value) < std::ldexp(T{1}, info(format).min_exponent()) ? std::copysign(T{0}, value) : value;
}

template <class T>
struct FlushesInputs : Kernel<T> {
  using Kernel<T>::Kernel;
  T read(Role role, std::int64_t element) const override { return flushed(this->format(role), Kernel<T>::read(role, element)); }
};

template <class T>
struct ClampsInfinities : Kernel<T> {
  using Kernel<T>::Kernel;
  T read(Role role, std::int64_t element) const override {
    const T largest = static_cast<T>(value_of(this->format(role), info(this->format(role)).max_finite()));
    return std::clamp(Kernel<T>::read(role, element), -largest, largest);
  }
};

// y, changed on its way to memory.
template <class T>
struct LastStep : Kernel<T> {
  using Kernel<T>::Kernel;
  void put(Role role, std::int64_t element, T value) override {
    Kernel<T>::put(role, element, role == Role::y ? last(this->format(role), value) : value);
  }
  virtual T last(Format format, T value) const = 0;
};

template <class T>
struct FlushesOutputs : LastStep<T> {
  using LastStep<T>::LastStep;
  T last(Format format, T value) const override { return flushed(format, value); }
};

template <class T>
struct ZeroUnsigned : LastStep<T> {
  using LastStep<T>::LastStep;
  T last(Format /*format*/, T value) const override { return value == 0 ? T{0} : value; }
};

template <class T>
struct NanIsZero : LastStep<T> {
  using LastStep<T>::LastStep;
  T last(Format /*format*/, T value) const override { return std::isnan(value) ? T{0} : value; }
};

template <class T>
struct Saturates : LastStep<T> {
  using LastStep<T>::LastStep;
  T last(Format format, T value) const override {
    const T largest = static_cast<T>(value_of(format, info(format).max_finite()));
    return std::isnan(value) ? value : std::clamp(value, -largest, largest);
  }
};

template <class T>
struct RoundsDown : LastStep<T> {
  using LastStep<T>::LastStep;
  T last(Format format, T value) const override {
    const T nearest = rounded(format, value);
    if (!(nearest > value)) return nearest;
    return static_cast<T>(value_of(format, next_down(format, nearest_bits(format, static_cast<double>(nearest)))));
  }
};

template <class T>
struct Truncates : LastStep<T> {
  using LastStep<T>::LastStep;
  T last(Format format, T value) const override {
    const T nearest = rounded(format, value);
    if (!(std::abs(nearest) > std::abs(value))) return nearest;
    return static_cast<T>(value_of(format, nearest_bits(format, static_cast<double>(nearest)) - 1));
  }
};

template <class T>
struct Clipped : Kernel<T> {
  using Kernel<T>::Kernel;
  T standardize(T x, const Statistics<T>& s) const override { return std::clamp(Kernel<T>::standardize(x, s), T{-4}, T{4}); }
};

template <class T>
struct NanVarianceIsZero : Kernel<T> {
  using Kernel<T>::Kernel;
  T variance(T value) const override { return std::fmax(value, T{0}); }
};

// The kernel that hands out other statistics than it uses.
template <class T>
struct Misreports : Kernel<T> {
  using Kernel<T>::Kernel;
  void store_statistics(const Statistics<T>& s, const std::vector<T>& x, std::int64_t g) override {
    Statistics<T> reported = s;
    change(reported, x);
    Kernel<T>::store_statistics(reported, x, g);
  }
  virtual void change(Statistics<T>& s, const std::vector<T>& x) const = 0;
};

template <class T>
struct RstdIsVariance : Misreports<T> {
  using Misreports<T>::Misreports;
  void change(Statistics<T>& s, const std::vector<T>& /*x*/) const override { s.rstd = s.variance; }
};

template <class T>
struct RstdWithoutEpsilon : Misreports<T> {
  using Misreports<T>::Misreports;
  void change(Statistics<T>& s, const std::vector<T>& /*x*/) const override { s.rstd = 1 / std::sqrt(s.variance); }
};

template <class T>
struct MeanWithoutShift : Misreports<T> {
  using Misreports<T>::Misreports;
  void change(Statistics<T>& s, const std::vector<T>& x) const override { s.mean -= x.front(); }
};

constexpr Mutant table[] = {
    {"flushes-inputs", "subnormal inputs are taken for zero", "", "", "subnormals_kept", faulty<FlushesInputs>},
    {"flushes-outputs", "a subnormal y is made zero", "", "", "subnormals_kept", faulty<FlushesOutputs>},
    {"zero-unsigned", "y is never -0", "", "", "signed_zero", faulty<ZeroUnsigned>},
    {"nan-swallowed", "a NaN in y is made zero", "nonfinite-handling", "pytorch/pytorch#173885", "non_finite_contained", faulty<NanIsZero>},
    {"nan-variance-is-zero", "a variance that is NaN is taken for zero, by fmax(variance, 0)", "nonfinite-handling",
     "pytorch/pytorch#173885", "non_finite_contained", faulty<NanVarianceIsZero>},
    {"infinities-clamped", "infinite inputs are taken for the largest finite number", "", "", "non_finite_contained",
     faulty<ClampsInfinities>},
    {"overflow-saturates", "a y that is too large is made the largest finite number", "", "", "agrees_with_reference", faulty<Saturates>},
    {"rounds-down", "y rounded toward minus infinity", "", "", "odd_symmetry", faulty<RoundsDown>},
    {"truncates", "y rounded toward zero", "", "", "agrees_with_reference", faulty<Truncates>},
    {"clipped", "the standardized value is kept within 4", "", "", "variance_one", faulty<Clipped>},
    {"rstd-holds-variance", "the output rstd holds the variance", "", "", "auxiliary_outputs", faulty<RstdIsVariance>},
    {"rstd-without-epsilon", "the output rstd is made without epsilon, y with it", "", "", "auxiliary_outputs", faulty<RstdWithoutEpsilon>},
    {"mean-without-shift", "sums are taken about the first element, and the output mean misses it", "", "", "auxiliary_outputs",
     faulty<MeanWithoutShift>},
};

}  // namespace

const std::span<const Mutant> faults_of_values = table;

}  // namespace norma::properties
