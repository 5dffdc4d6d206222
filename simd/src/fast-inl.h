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

// x̂ = (x − mean)·scale + rest of some rows, where mean + the mean's own rounding error, which `rest` makes good, is μ. So a deviation is as
// exact as x − mean is, however large μ, and that is exact where it cancels.
struct FastRows {
  alignas(64) float mean[batch_rows];
  alignas(64) float scale[batch_rows];
  alignas(64) float rest[batch_rows];
  bool usable[batch_rows];  // in this arithmetic; else the row is computed correctly rounded
};

// The first element as shift: what is flat has d = 0 throughout. The condition k = (Σd² + S²/n)/(n·v) is small if that element is no
// outlier, and 17 at most: so rstd is off by (c+5)·k·u at most, and the mean by (c+5)·√k·u of a deviation (finish, in affine-inl.h).
template <bool kCentred, class T>
HWY_INLINE void measure_fast(const T* const* x, std::size_t count, std::size_t n, double epsilon, FastRows& rows) {
  alignas(64) double sum[batch_rows];
  alignas(64) double squares[batch_rows];
  alignas(64) double shift[batch_rows] = {};
  VD sums_of_row[batch_rows];
  VD squares_of_row[batch_rows];
  const auto as_doubles = [](VF v)
                              HWY_ATTR { return hn::Add(hn::PromoteTo(D(), hn::LowerHalf(v)), hn::PromoteTo(D(), hn::UpperHalf(H(), v))); };
  for (std::size_t r = 0; r < batch_rows; ++r) {
    sums_of_row[r] = squares_of_row[r] = hn::Zero(D());
    if (r >= count) continue;
    const float first = kCentred ? load_float(x[r]) : 0.0F;
    shift[r] = first;
    const Sums<InFloats> sums = sums_of<InFloats, kCentred, kCentred>(x[r], n, hn::Set(F(), first));
    sums_of_row[r] = as_doubles(sums.sum);
    squares_of_row[r] = as_doubles(sums.squares);
  }
  store_sums_of_lanes(sums_of_row, batch_rows, sum);
  store_sums_of_lanes(squares_of_row, batch_rows, squares);
  const D d;
  const VD vn = hn::Set(d, static_cast<double>(n));
  for (std::size_t r = 0; r < batch_rows; r += hn::Lanes(d)) {
    const VD s = hn::Load(d, sum + r);
    const VD q = hn::Load(d, squares + r);
    const VD mean = hn::Div(s, vn);
    const VD v = hn::Add(hn::Div(hn::Max(hn::Sub(q, hn::Mul(s, mean)), hn::Zero(d)), vn), hn::Set(d, epsilon));
    const VD scale = hn::Div(hn::Set(d, 1.0), hn::Sqrt(v));
    const VD centre = hn::Add(hn::Load(d, shift + r), mean);
    const auto rounded = hn::DemoteTo(H(), centre);
    hn::Store(rounded, H(), rows.mean + r);
    hn::Store(hn::DemoteTo(H(), scale), H(), rows.scale + r);
    hn::Store(hn::DemoteTo(H(), hn::Mul(hn::Sub(hn::PromoteTo(d, rounded), centre), scale)), H(), rows.rest + r);
    // No square has overflowed, and none that counts underflowed; NaN compares false.
    const auto in_range = hn::And(hn::Lt(q, hn::Set(d, 0x1p120)), hn::Gt(v, hn::Set(d, 0x1p-90)));
    const auto sound =
        hn::And(hn::Le(hn::MulAdd(s, mean, q), hn::Mul(hn::Mul(vn, v), hn::Set(d, 17.0))), hn::Lt(hn::Abs(centre), hn::Set(d, 0x1p120)));
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::And(in_range, sound), bits);
    for (std::size_t k = 0; k < hn::Lanes(d) && r + k < batch_rows; ++k) rows.usable[r + k] = (bits[0] >> k & 1) != 0;
  }
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
HWY_INLINE void apply_fast(const Affine<T, P>& affine, const FastRows& rows, std::size_t r, const T* x, T* y, std::size_t n, bool stream) {
  const VF mean = hn::Set(F(), rows.mean[r]), scale = hn::Set(F(), rows.scale[r]), rest = hn::Set(F(), rows.rest[r]);
  const bool one_plus = affine.one_plus;
  const P* gamma = affine.gamma;
  const P* beta = affine.beta;
  const std::size_t block = hn::Lanes(F());
  std::size_t i = 0;
  for (; i + block <= n; i += block) {
    store_floats(fast_block<kCentred, kGamma, kBeta>(mean, scale, rest, x + i, at_column(gamma, i), at_column(beta, i), one_plus), y + i,
                 stream);
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
  const bool plain = call.residual == nullptr && call.mean == nullptr && call.rstd == nullptr;
  constexpr double most = std::is_same_v<T, float16_t> ? 0x1p14 : 0x1p100;
  const double most_gain = most / std::sqrt(static_cast<double>(n) + 1);
  if (!plain || !moderate(affine.gamma, n, most_gain) || !moderate(affine.beta, n, most))
    return normalize_rows<kCentred, T, P>(rule, begin, end, counters);
  for (std::size_t first = begin; first < end; first += batch_rows) {
    const std::size_t count = HWY_MIN(batch_rows, end - first);
    const T* x[batch_rows];
    for (std::size_t r = 0; r < count; ++r) x[r] = static_cast<const T*>(call.x) + static_cast<std::ptrdiff_t>(first + r) * call.x_stride;
    FastRows rows;
    measure_fast<kCentred>(x, count, n, call.epsilon, rows);
    for (std::size_t r = 0; r < count; ++r) {
      T* y = static_cast<T*>(call.y) + static_cast<std::ptrdiff_t>(first + r) * call.y_stride;
      if (HWY_UNLIKELY(!rows.usable[r])) {
        if (!normalize_rows<kCentred, T, P>(rule, first + r, first + r + 1, counters)) return false;
      } else if (affine.gamma != nullptr && affine.beta != nullptr) {
        apply_fast<kCentred, true, true>(affine, rows, r, x[r], y, n, rule.stream);
      } else if (affine.gamma != nullptr) {
        apply_fast<kCentred, true, false>(affine, rows, r, x[r], y, n, rule.stream);
      } else if (affine.beta != nullptr) {
        apply_fast<kCentred, false, true>(affine, rows, r, x[r], y, n, rule.stream);
      } else {
        apply_fast<kCentred, false, false>(affine, rows, r, x[r], y, n, rule.stream);
      }
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
