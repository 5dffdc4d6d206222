// f64, whose first rung is double-double: lines of elements in vectors, gain and bias along them or the same for all.

#if defined(NORMA_SIMD_DOUBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_DOUBLES_INL_H_
#undef NORMA_SIMD_DOUBLES_INL_H_
#else
#define NORMA_SIMD_DOUBLES_INL_H_
#endif

#include "affine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// Elements x[0, n), whose gain and bias have the index first + i·step, step 0 or 1, with the constants of lane i mod lanes. x and y do not
// overlap. settle(i) gives what the test leaves open to the lower rungs.
template <class P, class Settle>
HWY_NOINLINE void normalize_line(const Affine<double, P>& affine, const WideConstants& constants, const double* x, double* y, std::size_t n,
                                 std::size_t first, std::size_t step, const Settle& settle) {
  constexpr std::size_t most = WideConstants::most;
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const bool has_gain = affine.gamma != nullptr;
  const bool has_bias = affine.beta != nullptr;
  P gammas[most] = {};
  P betas[most] = {};
  const auto copy_params = [&](std::size_t from, std::size_t count, std::size_t each) HWY_ATTR {
    for (std::size_t k = 0; k < count; ++k) {
      if (has_gain) std::memcpy(gammas + k, affine.gamma + from + k * each, sizeof(P));  // of any alignment
      if (has_bias) std::memcpy(betas + k, affine.beta + from + k * each, sizeof(P));
    }
  };
  if (step == 0) copy_params(first, lanes, 0);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = HWY_MIN(lanes, n - i);
    const bool whole = HWY_LIKELY(count == lanes);
    double copy[most] = {};
    if (!whole) std::memcpy(copy, x + i, count * sizeof(double));
    if (!whole && step != 0) copy_params(first + i, count, 1);
    const bool copied = step == 0 || !whole;
    Pair gain{hn::Set(d, 1.0), hn::Zero(d)};
    if (has_gain) {
      const VD gamma = load_doubles(copied ? gammas : affine.gamma + first + i);
      gain = affine.one_plus ? two_sum(gain.hi, gamma) : Pair{gamma, hn::Zero(d)};
    }
    const VD bias = has_bias ? load_doubles(copied ? betas : affine.beta + first + i) : hn::Zero(d);
    const WideResult result = wide_block(hn::LoadU(d, whole ? x + i : copy), constants, gain, bias, has_bias);
    hn::StoreU(result.y, d, whole ? y + i : copy);
    if (!whole) std::memcpy(y + i, copy, count * sizeof(double));
    settle_others(d, result.passes, count, [&](std::size_t k) { settle(i + k); });
  }
}

// Whether a group's deviations are all +0. (Of zeros of either sign they are zeros of either sign, of infinities NaN.)
inline bool is_flat(const Rule& rule, const Elements& e) {
  if (!rule.centred() || e.count() == 0) return false;
  const double first = read(e.format, e.data, 0);
  return first != 0 && std::isfinite(first) && all_equal(e);
}

// A group of contiguous runs of `channels` channels each, whose gain and bias are the same; a row is one run, along which they step.
template <class P>
void normalize_doubles(const Rule& rule, const Affine<double, P>& affine, Ladder& ladder, const Elements& x, double* y,
                       std::ptrdiff_t y_stride, std::size_t first_channel, std::size_t channels, std::size_t step) {
  const bool flat = is_flat(rule, ladder.elements());
  WideConstants constants;
  if (!flat) {
    const WideStatistics& w = ladder.wide();
    for (std::size_t lane = 0; lane < hn::Lanes(D()); ++lane) constants.set(lane, w);
  }
  const std::size_t n = x.run / channels;
  for (std::size_t i = 0; i < x.runs; ++i) {
    for (std::size_t c = 0; c < channels; ++c) {
      const double* from = static_cast<const double*>(x.data) + static_cast<std::ptrdiff_t>(i) * x.stride + c * n;
      double* to = y + static_cast<std::ptrdiff_t>(i) * y_stride + c * n;
      const std::size_t first = first_channel + c;
      if (flat) {
        for (std::size_t k = 0; k < n; ++k) affine.flat(rule, from + k, first + k * step, to + k);
      } else {
        normalize_line(affine, constants, from, to, n, first, step,
                       [&](std::size_t k) { affine.settle(ladder, from + k, first + k * step, to + k); });
      }
    }
  }
}

// Lines of columns, `channels` to a group, each group with a ladder of its own.
template <class P>
void normalize_double_columns(const Rule& rule, const Affine<double, P>& affine, Ladder* ladders, std::size_t channels, const double* x,
                              std::ptrdiff_t x_stride, double* y, std::ptrdiff_t y_stride, std::size_t first, std::size_t width,
                              std::size_t lines) {
  for (std::size_t c = 0; c < width; c += hn::Lanes(D())) {
    const std::size_t count = HWY_MIN(hn::Lanes(D()), width - c);
    WideConstants constants{};
    bool flat[WideConstants::most];
    for (std::size_t lane = 0; lane < count; ++lane) {
      Ladder& ladder = ladders[(c + lane) / channels];
      flat[lane] = is_flat(rule, ladder.elements());
      if (!flat[lane]) constants.set(lane, ladder.wide());
    }
    for (std::size_t i = 0; i < lines; ++i) {
      const double* from = x + static_cast<std::ptrdiff_t>(i) * x_stride + c;
      double* to = y + static_cast<std::ptrdiff_t>(i) * y_stride + c;
      normalize_line(affine, constants, from, to, count, first + c, 1, [&](std::size_t k) {
        if (flat[k]) {
          affine.flat(rule, from + k, first + c + k, to + k);
        } else {
          affine.settle(ladders[(c + k) / channels], from + k, first + c + k, to + k);
        }
      });
    }
  }
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
