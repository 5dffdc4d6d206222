// How mean and variance are computed, and in what.
#include <algorithm>
#include <bit>
#include <cmath>

#include "faults.h"

namespace norma::properties {
namespace {

using enum Arithmetic::Algorithm;

template <class T>
struct ClampedVariance : Kernel<T> {
  using Kernel<T>::Kernel;
  T variance(T value) const override { return std::max(value, T{0}); }
};

template <class T>
struct SmallVarianceIsZero : Kernel<T> {
  using Kernel<T>::Kernel;
  T variance(T value) const override { return value < static_cast<T>(1e-6) ? T{0} : value; }
};

template <Format format>
struct SumsIn {
  template <class T>
  struct K : Kernel<T> {
    using Kernel<T>::Kernel;
    T add(T a, T b) const override { return rounded(format, a + b); }
  };
};

template <class T>
struct SumsInStorageFormat : Kernel<T> {
  using Kernel<T>::Kernel;
  T add(T a, T b) const override { return rounded(this->format(Role::x), a + b); }
};

template <Format format>
struct SquaresIn {
  template <class T>
  struct K : Kernel<T> {
    using Kernel<T>::Kernel;
    T square(T deviation) const override { return rounded(format, deviation * deviation); }
  };
};

// Each square is divided by n before it is rounded, as if that were enough.
template <class T>
struct MeanSquareInHalf : Kernel<T> {
  using Kernel<T>::Kernel;
  T squares_about(const std::vector<T>& x, T mean) override {
    const T n = this->count(x.size());
    T total(-0.0);
    for (const T value : x) {
      const T d = this->deviation(value, mean);
      total = rounded(Format::f16, total + rounded(Format::f16, d * rounded(Format::f16, d / n)));
    }
    return total * n;
  }
};

template <class T>
struct InHalfThroughout : Kernel<T> {
  using Kernel<T>::Kernel;
  T read(Role role, std::int64_t element) const override { return rounded(Format::f16, Kernel<T>::read(role, element)); }
};

template <class T>
struct MeanInLowPrecision : Kernel<T> {
  using Kernel<T>::Kernel;
  Statistics<T> statistics(const std::vector<T>& x, std::int64_t g) override {
    Statistics<T> s = Kernel<T>::statistics(x, g);
    s.mean = rounded(Format::bf16, s.mean);
    return s;
  }
};

template <class T>
struct FoldedAffine : Kernel<T> {
  using Kernel<T>::Kernel;
  T standardize(T x, const Statistics<T>& s) const override { return std::fma(x, s.rstd, -s.rstd * s.mean); }
};

template <class T>
struct MeanNotSubtracted : Kernel<T> {
  using Kernel<T>::Kernel;
  T deviation(T x, T /*mean*/) const override { return x; }
};

void as_layer_norm(Call& call) {
  if (call.spec.op == Op::rms_norm) call.spec.op = Op::layer_norm;
}
void unbiased(Call& call) { call.spec.profile.variance = Estimator::unbiased; }
void biased(Call& call) { call.spec.profile.variance = Estimator::biased; }
void unbiased_in_training(Call& call) {
  if (call.spec.op == Op::batch_norm_training) unbiased(call);
}

template <class T>
struct WithoutNewtonStep : Kernel<T> {
  using Kernel<T>::Kernel;
  T rstd(T variance) const override {
    int exponent = 0;
    const T fraction = std::frexp(Kernel<T>::rstd(variance), &exponent);
    return std::isfinite(fraction) ? std::ldexp(std::nearbyint(std::ldexp(fraction, 12)), exponent - 12) : fraction;
  }
};

template <Format format>
struct RstdIn {
  template <class T>
  struct K : Kernel<T> {
    using Kernel<T>::Kernel;
    T rstd(T variance) const override { return rounded(format, Kernel<T>::rstd(variance)); }
  };
};

template <class T>
struct ByLogarithm : Kernel<T> {
  using Kernel<T>::Kernel;
  T rstd(T variance) const override { return std::exp2(std::log2(variance + this->epsilon()) / -2); }
};

template <class T>
struct NotRooted : Kernel<T> {
  using Kernel<T>::Kernel;
  T rstd(T variance) const override { return 1 / (variance + this->epsilon()); }
};

template <class T>
struct TwoParts : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    if (terms.size() < 2) return Kernel<T>::sum(terms);
    const auto middle = terms.begin() + static_cast<std::ptrdiff_t>(std::bit_floor(terms.size() - 1));
    const std::vector<T> first(terms.begin(), middle), second(middle, terms.end());
    const T means = Kernel<T>::sum(first) / static_cast<T>(first.size()) + Kernel<T>::sum(second) / static_cast<T>(second.size());
    return means / 2 * static_cast<T>(terms.size());
  }
};

constexpr Mutant table[] = {
    {"single-pass-variance", "variance as the mean of the squares less the square of the mean", "cancellation-single-pass",
     "microsoft/onnxruntime#28463", "shift_invariance", faulty<Kernel, Method{single_pass}>},
    {"single-pass-clamped", "the same, with what is negative taken for zero", "cancellation-single-pass", "google/flax#1491",
     "shift_invariance", faulty<ClampedVariance, Method{single_pass}>},
    {"small-variance-is-zero", "a variance below 1e-6 taken for zero", "variance-clamp-floor", "pytorch/pytorch#190491", "variance_one",
     faulty<SmallVarianceIsZero>},
    {"folded-affine", "x*rstd - mean*rstd, which does not cancel", "folded-affine-cancellation", "pytorch/pytorch#108072",
     "flat_row_is_beta", faulty<FoldedAffine>},
    {"mean-in-low-precision", "the mean rounded to bf16 before it is subtracted from x", "two-pass-mean-rounding",
     "intel/torch-xpu-ops#1374", "mean_zero", faulty<MeanInLowPrecision>},
    {"merged-without-weights", "sums of two parts of a group merged as if the parts were of one size", "moment-merge-weights",
     "pytorch/pytorch#22192", "mean_zero", faulty<TwoParts>},
    {"accumulates-in-storage-format", "sums kept in the format of x, f16 or bf16", "lowprec-accumulate", "openvinotoolkit/openvino#35942",
     "large_n", faulty<SumsInStorageFormat>},
    {"accumulates-in-f16", "sums kept in f16 whatever x is, which ends at 65504", "", "", "range", faulty<SumsIn<Format::f16>::K>},
    {"accumulates-in-bf16", "sums kept in bf16 whatever x is", "cancellation-single-pass", "tenstorrent/tt-metal#45968", "large_n",
     faulty<SumsIn<Format::bf16>::K>},
    {"square-in-half", "squares rounded to f16, which ends at 65504", "square-overflow-half", "pytorch/pytorch#133085",
     "agrees_with_reference", faulty<SquaresIn<Format::f16>::K>},
    {"mean-square-in-half", "squares divided by n first, and still in f16", "square-overflow-half", "microsoft/onnxruntime#29034",
     "mean_square_one", faulty<MeanSquareInHalf>},
    {"in-half-throughout", "everything is read as f16, whatever its format is", "square-overflow-half", "nntrainer/nntrainer#3935",
     "agrees_with_reference", faulty<InHalfThroughout>},
    {"square-in-f32", "squares of f64 rounded to f32, which ends at 3.4e38", "square-overflow-f32", "tenstorrent/tt-metal#55159",
     "agrees_with_reference", faulty<SquaresIn<Format::f32>::K>},
    {"rsqrt-approximate", "12 bits of the reciprocal root, without a Newton step", "rsqrt-approx", "Tencent/ncnn#6903", "variance_one",
     faulty<WithoutNewtonStep>},
    {"rstd-in-half", "rstd rounded to f16, which ends at 65504", "", "", "agrees_with_reference", faulty<RstdIn<Format::f16>::K>},
    {"rstd-in-bf16", "rstd rounded to bf16", "", "", "scale_with_fixed_epsilon", faulty<RstdIn<Format::bf16>::K>},
    {"rsqrt-by-logarithm", "the reciprocal root as exp2(-log2(variance + epsilon)/2)", "", "", "scale_invariance", faulty<ByLogarithm>},
    {"variance-not-rooted", "divides by the variance, not by its root", "", "", "scale_invariance_in_bound", faulty<NotRooted>},
    {"mean-not-subtracted", "x for x - mean", "", "", "mean_zero", faulty<MeanNotSubtracted>},
    {"mean-subtracted-in-rms-norm", "rms_norm computed as layer_norm", "", "", "rms_norm_feels_shift", misled<as_layer_norm>},
    {"unbiased-variance", "y made with the sum of squares over n - 1", "unbiased-in-output", "FluxML/Flux.jl#529", "variance_one",
     misled<unbiased>},
    {"biased-variance", "y made with the sum of squares over n where n - 1 was asked for", "", "", "profile_honoured", misled<biased>},
    {"unbiased-variance-in-training", "batch_norm makes y with the variance that running_variance takes in, over n - 1", "", "",
     "batch_norm_is_layer_norm_transposed", misled<unbiased_in_training>},
};

}  // namespace

const std::span<const Mutant> faults_of_sums = table;

}  // namespace norma::properties
