// What ε is, and where it is added.
#include <algorithm>
#include <cmath>

#include "faults.h"

namespace norma::properties {
namespace {

void outside(Call& call) { call.spec.profile.epsilon_placement = EpsilonPlacement::outside; }
void inside(Call& call) { call.spec.profile.epsilon_placement = EpsilonPlacement::inside; }
void hard_coded(Call& call) { call.spec.epsilon = 1e-5; }
void dropped(Call& call) { call.spec.epsilon = 0; }
void floored(Call& call) { call.spec.epsilon = std::max(call.spec.effective_epsilon(), 1e-4); }
void in_half(Call& call) { call.spec.epsilon = rounded(Format::f16, call.spec.effective_epsilon()); }
void of_format(Call& call) { call.spec.epsilon = std::ldexp(1.0, -info(call.inputs[Role::x]->format).fraction_bits()); }
void default_for_zero(Call& call) {
  if (call.spec.epsilon == 0) call.spec.epsilon.reset();
}

template <class T>
struct Maximum : Kernel<T> {
  using Kernel<T>::Kernel;
  T rstd(T variance) const override { return std::isnan(variance) ? variance : 1 / std::sqrt(std::max(variance, this->epsilon())); }
};

template <class T>
struct VarianceInHalf : Kernel<T> {
  using Kernel<T>::Kernel;
  T rstd(T variance) const override { return 1 / std::sqrt(rounded(Format::f16, variance + this->epsilon())); }
};

// x is divided by its largest magnitude first, and ε is not.
template <class T>
struct LostInRescaling : Kernel<T> {
  using Kernel<T>::Kernel;
  Statistics<T> statistics(const std::vector<T>& x, std::int64_t g) override {
    Statistics<T> s = Kernel<T>::statistics(x, g);
    T scale{};
    for (const T value : x) scale = std::max(scale, std::abs(value));
    if (!x.empty()) s.rstd = 1 / std::sqrt(s.variance + this->epsilon() * scale * scale);
    return s;
  }
};

template <class T>
struct SkippedForOne : Kernel<T> {
  using Kernel<T>::Kernel;
  T rstd(T variance) const override { return this->groups_.front().size() == 1 ? 1 / std::sqrt(variance) : Kernel<T>::rstd(variance); }
};

constexpr Mutant table[] = {
    {"epsilon-outside-root", "sqrt(variance) + epsilon", "eps-outside-sqrt", "tracel-ai/burn#2185", "epsilon_inside_root", misled<outside>},
    {"epsilon-inside-root", "sqrt(variance + epsilon) where sqrt(variance) + epsilon was asked for", "", "", "profile_honoured",
     misled<inside>},
    {"epsilon-hard-coded", "epsilon is 1e-5 whatever is asked for", "eps-ignored", "tensorflow/tensorflow#58863", "epsilon_monotone",
     misled<hard_coded>},
    {"epsilon-dropped", "epsilon is 0 whatever is asked for", "", "", "flat_row_finite", misled<dropped>},
    {"epsilon-floored", "epsilon is at least 1e-4, so that a half can hold it", "eps-floor", "nntrainer/nntrainer#4318", "epsilon_zero",
     misled<floored>},
    {"epsilon-in-half", "epsilon rounded to f16, where 1e-8 is 0", "eps-lost-in-half", "pytorch/pytorch#41527", "flat_row_finite",
     misled<in_half>},
    {"variance-in-half", "variance + epsilon rounded to f16", "eps-lost-in-half", "deepspeedai/DeepSpeed#581", "flat_row_finite",
     faulty<VarianceInHalf>},
    {"epsilon-of-format", "epsilon is the distance from 1 to the next number of the format of x", "eps-lost-in-half",
     "pytorch/pytorch#142848", "epsilon_monotone", misled<of_format>},
    {"epsilon-default-for-zero", "epsilon 0 is taken for not given", "", "", "epsilon_zero", misled<default_for_zero>},
    {"epsilon-as-maximum", "max(variance, epsilon)", "", "", "epsilon_inside_root", faulty<Maximum>},
    {"epsilon-lost-in-rescaling", "x is divided by its largest magnitude, epsilon is not", "", "", "scale_with_fixed_epsilon",
     faulty<LostInRescaling>},
    {"epsilon-skipped-for-one", "no epsilon where a group has one element", "single-element-axis", "web-platform-tests/wpt#43893",
     "flat_row_finite", faulty<SkippedForOne>},
};

}  // namespace

const std::span<const Mutant> faults_of_epsilon = table;

}  // namespace norma::properties
