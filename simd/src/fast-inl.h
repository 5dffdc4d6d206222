// The `fast` accuracy of layer_norm and rms_norm: one shifted pass over a row for both moments, and one to normalize it.

#if defined(NORMA_SIMD_FAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_FAST_INL_H_
#undef NORMA_SIMD_FAST_INL_H_
#else
#define NORMA_SIMD_FAST_INL_H_
#endif

#include <hwy/cache_control.h>

#include "rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

// x̂ = (x − mean)·scale + rest, where mean + the mean's own rounding error, which `rest` makes good, is μ. So a deviation is as exact as
// x − mean is, however large μ, and that is exact where it cancels.
struct FastRow {
  float mean, scale, rest;
  bool usable;  // in this arithmetic; else the row is computed correctly rounded
};

// The first element as shift: what is flat has d = 0 throughout. The condition, Σd²/(n·v), is small if that element is no outlier.
template <bool kCentred, class T>
HWY_INLINE FastRow measure_fast(const T* x, std::size_t n, double epsilon) {
  const double shift = kCentred ? read(format_of<T>(), x, 0) : 0.0;
  const Sums<InFloats> sums = sums_of<InFloats, kCentred, kCentred>(x, n, static_cast<float>(shift));
  const double sum = kCentred ? static_cast<double>(hn::GetLane(hn::SumOfLanes(F(), sums.sum))) : 0.0;
  const double squares = static_cast<double>(hn::GetLane(hn::SumOfLanes(F(), sums.squares)));
  const double count = static_cast<double>(n);
  const double mean = sum / count;
  const double v = HWY_MAX(0.0, squares - sum * mean) / count + epsilon;
  const double scale = 1 / std::sqrt(v);
  FastRow row;
  const double centre = shift + mean;
  row.mean = static_cast<float>(centre);
  row.scale = static_cast<float>(scale);
  row.rest = static_cast<float>((static_cast<double>(row.mean) - centre) * scale);
  // No square has overflowed, and none that counts underflowed; NaN compares false.
  row.usable = squares < 0x1p120 && v > 0x1p-90 && squares <= 32 * count * v && std::abs(shift) < 0x1p120;
  return row;
}

// |γ| and |β| are moderate, so that no product of a usable row overflows on the way to a finite sum.
template <class P>
bool moderate(const P* values, std::size_t n) {
  if (values == nullptr) return true;
  const VF limit = hn::Set(F(), 0x1p100F);
  MF good = hn::FirstN(F(), hn::Lanes(F()));
  std::size_t i = 0;
  for (; i + hn::Lanes(F()) <= n; i += hn::Lanes(F())) good = hn::And(good, hn::Lt(hn::Abs(load_floats(values + i)), limit));
  bool all = hn::AllTrue(F(), good);
  for (; i < n; ++i) all &= std::abs(read(format_of<P>(), values, static_cast<std::ptrdiff_t>(i))) < 0x1p100;
  return all;
}

template <bool kCentred, bool kGamma, bool kBeta, class T, class P>
HWY_INLINE VF fast_block(VF mean, VF scale, VF rest, const T* x, const P* gamma, const P* beta, bool one_plus) {
  VF v = load_floats(x);
  v = kCentred ? hn::MulAdd(hn::Sub(v, mean), scale, rest) : hn::Mul(v, scale);
  if constexpr (kGamma) {
    const VF g = load_floats(gamma);
    const VF gain = one_plus ? hn::Add(g, hn::Set(F(), 1.0F)) : g;
    return kBeta ? hn::MulAdd(v, gain, load_floats(beta)) : hn::Mul(v, gain);
  }
  return kBeta ? hn::Add(v, load_floats(beta)) : v;
}

template <bool kCentred, bool kGamma, bool kBeta, class T, class P>
HWY_INLINE void apply_fast(const Affine<T, P>& affine, const FastRow& row, const T* x, T* y, std::size_t n, bool stream) {
  const VF mean = hn::Set(F(), row.mean), scale = hn::Set(F(), row.scale), rest = hn::Set(F(), row.rest);
  const bool one_plus = affine.one_plus;
  const P* gamma = affine.gamma;
  const P* beta = affine.beta;
  const std::size_t block = hn::Lanes(F());
  std::size_t i = 0;
  for (; i + block <= n; i += block) {
    store_floats(fast_block<kCentred, kGamma, kBeta>(mean, scale, rest, x + i, gamma + i, beta + i, one_plus), y + i, stream);
  }
  if (i == n) return;
  constexpr std::size_t most = HWY_MAX_BYTES / sizeof(float);
  const std::size_t tail = n - i;
  T source[most] = {};
  T target[most];
  P gammas[most] = {};
  P betas[most] = {};
  std::memcpy(source, x + i, tail * sizeof(T));
  if (kGamma) std::memcpy(gammas, gamma + i, tail * sizeof(P));
  if (kBeta) std::memcpy(betas, beta + i, tail * sizeof(P));
  store_floats(fast_block<kCentred, kGamma, kBeta>(mean, scale, rest, source, gammas, betas, one_plus), target);
  std::memcpy(y + i, target, tail * sizeof(T));
}

// Rows [begin, end) of a call.
template <bool kCentred, class T, class P>
bool normalize_rows_fast(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  const Call& call = *rule.call;
  const std::size_t n = call.cols;
  const Affine<T, P> affine(rule);
  const bool plain = call.residual == nullptr && call.mean == nullptr && call.rstd == nullptr && n != 0;
  if (!plain || !moderate(affine.gamma, n) || !moderate(affine.beta, n)) return normalize_rows<kCentred, T, P>(rule, begin, end, counters);
  for (std::size_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(call.x) + static_cast<std::ptrdiff_t>(r) * call.x_stride;
    T* y = static_cast<T*>(call.y) + static_cast<std::ptrdiff_t>(r) * call.y_stride;
    const FastRow row = measure_fast<kCentred>(x, n, call.epsilon);
    if (HWY_UNLIKELY(!row.usable)) {
      if (!normalize_rows<kCentred, T, P>(rule, r, r + 1, counters)) return false;
    } else if (affine.gamma != nullptr && affine.beta != nullptr) {
      apply_fast<kCentred, true, true>(affine, row, x, y, n, rule.stream);
    } else if (affine.gamma != nullptr) {
      apply_fast<kCentred, true, false>(affine, row, x, y, n, rule.stream);
    } else if (affine.beta != nullptr) {
      apply_fast<kCentred, false, true>(affine, row, x, y, n, rule.stream);
    } else {
      apply_fast<kCentred, false, false>(affine, row, x, y, n, rule.stream);
    }
  }
  if (rule.stream) hwy::FlushStream();
  return true;
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
