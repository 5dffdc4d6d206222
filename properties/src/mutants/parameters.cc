// γ and β: which one, in what format, and when.
#include <utility>

#include "faults.h"

namespace norma::properties {
namespace {

template <class T>
struct BetaIgnored : Kernel<T> {
  using Kernel<T>::Kernel;
  T bias(std::int64_t /*parameter*/) const override { return T{-0.0}; }
};

template <class T>
struct GammaIgnored : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t /*parameter*/) const override { return 1; }
};

template <class T>
struct GammaOfNext : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t parameter) const override { return Kernel<T>::gain((parameter + 1) % this->size(Role::gamma)); }
};

template <class T>
struct GammaOfLastAxis : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t parameter) const override { return Kernel<T>::gain(parameter % this->call_.inputs[Role::gamma]->shape.back()); }
};

template <class T>
struct GammaOfFirstGroup : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t parameter) const override {
    return Kernel<T>::gain(parameter % (this->size(Role::gamma) / this->spec().groups.value_or(1)));
  }
};

// A table on the chip.
template <class T>
struct TableOf96Channels : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t parameter) const override {
    return Kernel<T>::gain(this->op_.grouping == Grouping::trailing ? parameter : parameter % 96);
  }
};

template <class T>
struct ByFlatIndex : Kernel<T> {
  using Kernel<T>::Kernel;
  T restyle(T xhat, const Place& at) const override {
    const Role any = this->given(Role::gamma) ? Role::gamma : Role::beta;
    return Kernel<T>::restyle(xhat, this->given(any) ? Place{at.element, at.element % this->size(any), at.group} : at);
  }
};

template <class T>
struct BetaBeforeGain : Kernel<T> {
  using Kernel<T>::Kernel;
  T restyle(T xhat, const Place& at) const override {
    if (!this->given(Role::gamma) || !this->given(Role::beta)) return Kernel<T>::restyle(xhat, at);
    return (xhat + this->bias(at.parameter)) * this->gain(at.parameter);
  }
};

template <class T>
struct AbsentGammaIsZero : Kernel<T> {
  using Kernel<T>::Kernel;
  T restyle(T xhat, const Place& at) const override { return Kernel<T>::restyle(this->given(Role::gamma) ? xhat : T{0}, at); }
};

template <class T>
struct ParametersInFormatOfX : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t parameter) const override { return rounded(this->format(Role::x), Kernel<T>::gain(parameter)); }
  T bias(std::int64_t parameter) const override { return rounded(this->format(Role::x), Kernel<T>::bias(parameter)); }
};

template <class T>
struct VarianceGivenInHalf : Kernel<T> {
  using Kernel<T>::Kernel;
  T variance(T value) const override { return this->op_.given_statistics ? rounded(Format::f16, value) : value; }
};

template <class T>
struct DeviationExpected : Kernel<T> {
  using Kernel<T>::Kernel;
  T variance(T value) const override { return this->op_.given_statistics ? value * value : value; }
};

template <class T>
struct OffsetInLowPrecision : Kernel<T> {
  using Kernel<T>::Kernel;
  T gain(std::int64_t parameter) const override { return rounded(this->format(Role::gamma), Kernel<T>::gain(parameter)); }
};

template <class T>
struct GainAsOffset : Kernel<T> {
  using Kernel<T>::Kernel;
  T restyle(T xhat, const Place& at) const override {
    if (!this->given(Role::gamma)) return Kernel<T>::restyle(xhat, at);
    const T y = xhat + (this->gain(at.parameter) - 1) * xhat;
    return this->given(Role::beta) ? y + this->bias(at.parameter) : y;
  }
};

// γx̂ is rounded to the format of y before β is added.
template <class T>
struct RoundsBeforeBias : Kernel<T> {
  using Kernel<T>::Kernel;
  T restyle(T xhat, const Place& at) const override {
    T y = this->profile().cast_before_gain ? rounded(this->format(Role::y), xhat) : xhat;
    if (this->given(Role::gamma)) y = rounded(this->format(Role::y), y * this->gain(at.parameter));
    return this->given(Role::beta) ? y + this->bias(at.parameter) : y;
  }
};

void swapped(Call& call) {
  if (call.inputs[Role::gamma] && call.inputs[Role::beta]) std::swap(call.inputs[Role::gamma], call.inputs[Role::beta]);
}
void cast_before_gain(Call& call) { call.spec.profile.cast_before_gain = true; }
void cast_after_gain(Call& call) { call.spec.profile.cast_before_gain = false; }
void without_offset(Call& call) { call.spec.profile.gain_offset = false; }
void with_offset(Call& call) { call.spec.profile.gain_offset = true; }

constexpr Mutant table[] = {
    {"beta-ignored", "no bias is added", "", "", "gain_zero_is_beta", faulty<BetaIgnored>},
    {"gamma-ignored", "the gain is 1", "", "", "affine_linear", faulty<GammaIgnored>},
    {"gamma-off-by-one", "the gain of the next element or channel", "", "", "parameter_locality", faulty<GammaOfNext>},
    {"gamma-of-last-axis", "the gain of a group of several axes is looked up by the last one", "param-broadcast",
     "microsoft/onnxruntime#12917", "parameter_locality", faulty<GammaOfLastAxis>},
    {"gamma-of-first-group", "the gain is looked up by the channel within its group", "", "", "parameter_locality",
     faulty<GammaOfFirstGroup>},
    {"gain-table-of-96", "of more than 96 channels, those beyond have the gains of the first ones", "", "", "extents",
     faulty<TableOf96Channels>},
    {"parameters-by-flat-index", "gain and bias are looked up by the number of the element, not by its channel", "", "",
     "parameter_locality", faulty<ByFlatIndex>},
    {"beta-before-gain", "(xhat + beta)*gamma", "", "", "affine_undo_row", faulty<BetaBeforeGain>},
    {"absent-gamma-is-zero", "a gain that is not given is 0", "", "", "affine_absent_is_identity", faulty<AbsentGammaIsZero>},
    {"parameters-in-format-of-x", "gamma and beta rounded to the format of x", "", "", "mixed_formats", faulty<ParametersInFormatOfX>},
    {"given-variance-in-half", "the variance that was given, rounded to f16: 70000 is infinite", "mixed-dtype-params",
     "apple/coreai-torch#54", "mixed_formats", faulty<VarianceGivenInHalf>},
    {"given-deviation-expected", "the variance that was given is taken for a standard deviation", "", "", "train_equals_inference",
     faulty<DeviationExpected>},
    {"gamma-and-beta-swapped", "the one in the place of the other", "", "", "affine_undo_batch", misled<swapped>},
    {"gain-as-offset", "xhat + (gamma - 1)*xhat, which cancels where gamma is small", "", "", "gain_power_of_two", faulty<GainAsOffset>},
    {"unit-offset-in-low-precision", "1 + gamma rounded to the format of gamma", "unit-offset", "linkedin/Liger-Kernel#1462",
     "profile_honoured", faulty<OffsetInLowPrecision>},
    {"unit-offset-ignored", "gamma where 1 + gamma was asked for", "", "", "profile_honoured", misled<without_offset>},
    {"unit-offset-added", "1 + gamma where gamma was asked for", "", "", "gain_zero_is_beta", misled<with_offset>},
    {"gain-after-rounding", "the standardized value is rounded before the gain though it was not asked for", "cast-order",
     "vllm-project/vllm#42379", "agrees_with_reference", misled<cast_before_gain>},
    {"gain-before-rounding", "it is not though it was asked for", "cast-order", "vllm-project/vllm#42379", "profile_honoured",
     misled<cast_after_gain>},
    {"bias-after-rounding", "gamma*xhat is rounded before beta is added", "", "", "agrees_with_reference", faulty<RoundsBeforeBias>},
};

}  // namespace

const std::span<const Mutant> faults_of_parameters = table;

}  // namespace norma::properties
