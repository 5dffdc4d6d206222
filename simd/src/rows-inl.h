// layer_norm and rms_norm: groups that are rows, gain and bias that vary along them.

#if defined(NORMA_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_ROWS_INL_H_
#undef NORMA_SIMD_ROWS_INL_H_
#else
#define NORMA_SIMD_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>

#include "doubles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// How many rows are measured at once, so that their statistics are computed in one vector; and how many of them are normalized at once, so
// that gain, bias and thresholds are made once for them. (Fewer of these: rows a power of two apart share the sets of a cache.)
constexpr std::size_t batch_rows = 8;
constexpr std::size_t apply_rows = 4;

#if HWY_TARGET != HWY_SCALAR

using Batch = Estimates<batch_rows>;

// What a row is whose first estimate is no good: a second one with the mean as shift makes most of them regular.
template <bool kCentred, class T>
HWY_NOINLINE GroupKind look_again(const Rule& rule, double sum, double squares, const T* x, std::size_t n, double c, Estimate& estimate) {
  if (!(squares < std::numeric_limits<double>::infinity())) return GroupKind::hard;
  if (squares == 0 || (kCentred && all_equal({x, format_of<T>(), n}))) return GroupKind::flat;
  if (!kCentred) return GroupKind::hard;
  Batch second{};
  for (double& square : second.squares) square = 1;
  second.shift[0] = sum / static_cast<double>(n);
  const Sums<InDoubles> sums = sums_of<InDoubles, true, true>(x, n, hn::Set(D(), second.shift[0]));
  second.sum[0] = hn::GetLane(hn::SumOfLanes(D(), sums.sum));
  second.squares[0] = hn::GetLane(hn::SumOfLanes(D(), sums.squares));
  finish(second, 1, kCentred, static_cast<double>(n), rule.call->epsilon, c);
  if (!(second.relative[0] < bearable_estimate)) return GroupKind::hard;
  estimate = second.estimate(0);
  return GroupKind::regular;
}

// kRows rows of n elements; x and y do not overlap.
template <Centring kCentring, std::size_t kRows, class T, class P>
void apply(const Affine<T, P>& affine, const T* const* x, T* const* y, Ladder* ladders, std::size_t n, std::ptrdiff_t ahead) {
  constexpr std::size_t stretch = 64;  // blocks
  VD shift[kRows], scale[kRows], offset[kRows];
  const T* from[kRows];
  T* to[kRows];
  double relative = 0;
  double absolute = 0;
  for (std::size_t r = 0; r < kRows; ++r) {
    const Estimate& e = ladders[r].estimate;
    shift[r] = hn::Set(D(), e.shift);
    scale[r] = hn::Set(D(), e.scale);
    offset[r] = hn::Set(D(), e.offset);
    relative = HWY_MAX(relative, e.relative);
    absolute = HWY_MAX(absolute, e.absolute);
    from[r] = x[r];
    to[r] = y[r];
  }
  const Tolerance<T> limit(relative, absolute);
  const VF a = hn::Set(F(), limit.a);
  const VF b = hn::Set(F(), limit.b);
  const bool has_bias = affine.beta != nullptr;
  const std::size_t block = hn::Lanes(F());
  // What shares a verdict: the rows of a column, or a few columns of a single row.
  constexpr std::size_t together = kRows == 1 ? 4 : 1;
  std::size_t i = 0;
  while (i + block <= n) {
    // Blocks that fail are noted, and looked at after a stretch of them: a call in the loop would empty the registers.
    std::uint32_t noted[stretch];
    std::size_t failures = 0;
    const std::size_t first = i;
    const std::size_t end = HWY_MIN(n / block * block, first + stretch * together * block);
    while (i < end) {
      noted[failures] = static_cast<std::uint32_t>(i - first);
      RoundingTest<T> test(limit.units);
      bool passed = true;
      if constexpr (kRows == 1) {
        const std::size_t stop = HWY_MIN(end, i + together * block);
        for (; i < stop; i += block) {
          const Column p = column_of(affine, at_column(affine.gamma, i), at_column(affine.beta, i), a, b);
          const VD x0 = standardize<kCentring>(load_doubles(from[0] + i), shift[0], scale[0], offset[0]);
          const VD x1 = standardize<kCentring>(load_doubles(from[0] + i + block / 2), shift[0], scale[0], offset[0]);
          const Block v = restyle(p, has_bias, {x0, x1});
          const VF value = to_floats(v.low, v.high);
          store_floats(value, to[0] + i, ahead != 0);
          test.add(v.low, v.high, value, p.threshold);
        }
        passed = hn::AllTrue(F(), test.passes());
      } else {
        const Column p = column_of(affine, at_column(affine.gamma, i), at_column(affine.beta, i), a, b);
        HWY_UNROLL(4)
        for (std::size_t r = 0; r < kRows; ++r) {
          const VD x0 = standardize<kCentring>(load_doubles(from[r] + i), shift[r], scale[r], offset[r]);
          const VD x1 = standardize<kCentring>(load_doubles(from[r] + i + block / 2), shift[r], scale[r], offset[r]);
          const Block v = restyle(p, has_bias, {x0, x1});
          const VF value = to_floats(v.low, v.high);
          store_floats(value, to[r] + i, ahead != 0);
          if (ahead != 0) hwy::Prefetch(from[r] + i + ahead);
          test.add(v.low, v.high, value);
        }
        i += block;
        passed = hn::AllTrue(F(), test.passes(p.threshold));
      }
      failures += passed ? 0 : 1;
    }
    for (std::size_t k = 0; k < failures; ++k) {
      const std::size_t start = first + noted[k];
      for (std::size_t at = start; at < HWY_MIN(end, start + together * block); at += block) {
        const Column p = column_of(affine, at_column(affine.gamma, at), at_column(affine.beta, at), a, b);
        for (std::size_t r = 0; r < kRows; ++r) {
          const Estimate& e = ladders[r].estimate;
          const Standard s = standard_of(e);
          const Block v = restyle(p, has_bias, standardize<kCentring>(x[r] + at, s));
          RoundingTest<T> test(limit.units);
          test.add(v.low, v.high, to_floats(v.low, v.high));
          if (hn::AllTrue(F(), test.passes(p.threshold))) continue;
          look_closer<kCentring>(s, errors_of(e), p, has_bias, limit.units, x[r] + at, block,
                                 [&](std::size_t lane) { affine.settle(ladders[r], x[r] + at + lane, at + lane, y[r] + at + lane); });
        }
      }
    }
  }
  if (i == n) return;
  // The rest of each row as the end of its last whole block, or in copies.
  constexpr std::size_t most = HWY_MAX_BYTES / sizeof(float);
  const std::size_t rest = n - i;
  const std::size_t done = n < block ? 0 : block - rest;
  const std::size_t at = i - done;
  P gammas[most] = {};
  P betas[most] = {};
  if (affine.gamma != nullptr) std::memcpy(gammas, affine.gamma + at, (done + rest) * sizeof(P));
  if (has_bias) std::memcpy(betas, affine.beta + at, (done + rest) * sizeof(P));
  const Column p = column_of(affine, gammas, betas, a, b);
  for (std::size_t r = 0; r < kRows; ++r) {
    const Estimate& e = ladders[r].estimate;
    T copy[most] = {};
    T target[most];
    if (done == 0) std::memcpy(copy, x[r] + at, rest * sizeof(T));
    const T* source = done == 0 ? copy : x[r] + at;
    RoundingTest<T> test(limit.units);
    normalize_block<kCentring, true, false>(standard_of(e), p, has_bias, source, target, test);
    const MF asked = hn::AndNot(hn::FirstN(F(), done), hn::FirstN(F(), done + rest));
    if (!hn::AllFalse(F(), hn::AndNot(test.passes(p.threshold), asked))) {
      look_closer<kCentring>(standard_of(e), errors_of(e), p, has_bias, limit.units, source, done + rest, [&](std::size_t lane) {
        if (lane >= done) affine.settle(ladders[r], source + lane, at + lane, target + lane);
      });
    }
    std::memcpy(y[r] + i, target + done, rest * sizeof(T));
  }
}

template <std::size_t kRows, class T, class P>
void apply(const Affine<T, P>& affine, bool centred, bool shifted, const T* const* x, T* const* y, Ladder* ladders, std::size_t n,
           std::ptrdiff_t ahead) {
  if (!centred) return apply<Centring::none, kRows>(affine, x, y, ladders, n, ahead);
  if (shifted) return apply<Centring::shifted, kRows>(affine, x, y, ladders, n, ahead);
  return apply<Centring::offset, kRows>(affine, x, y, ladders, n, ahead);
}

// Up to a batch of rows.
template <bool kCentred, class T, class P>
void normalize_batch(const Rule& rule, const Affine<T, P>& affine, const T* const* x, T* const* y, Ladder* ladders, std::size_t count,
                     std::size_t n) {
  const double c = depth<InDoubles>(n);
  const std::ptrdiff_t ahead = rule.stream ? static_cast<std::ptrdiff_t>(batch_rows) * rule.call->x_stride : 0;
  Batch batch;
  for (std::size_t r = 0; r < batch_rows; ++r) {
    batch.shift[r] = batch.sum[r] = 0;
    batch.squares[r] = 1;
    if (r >= count) continue;
    const Sums<InDoubles> sums = sums_of<InDoubles, kCentred, false>(x[r], n, hn::Zero(D()));
    if (kCentred) batch.sum[r] = hn::GetLane(hn::SumOfLanes(D(), sums.sum));
    batch.squares[r] = hn::GetLane(hn::SumOfLanes(D(), sums.squares));
  }
  finish(batch, batch_rows, kCentred, static_cast<double>(n), rule.call->epsilon, c);
  bool regular = true;
  bool shifted = false;
  for (std::size_t r = 0; r < count; ++r) {
    Estimate& estimate = ladders[r].estimate;
    if (HWY_LIKELY(batch.relative[r] < good_estimate)) {
      batch.kind[r] = GroupKind::regular;
      estimate = batch.estimate(r);
    } else {
      batch.kind[r] = look_again<kCentred>(rule, batch.sum[r], batch.squares[r], x[r], n, c, estimate);
    }
    regular &= batch.kind[r] == GroupKind::regular;
    shifted |= estimate.shift != 0;
  }
  std::size_t r = 0;
  for (; regular && r + apply_rows <= count; r += apply_rows) {
    apply<apply_rows>(affine, kCentred, shifted, x + r, y + r, ladders + r, n, ahead);
  }
  for (; r < count; ++r) {
    if (batch.kind[r] == GroupKind::regular) {
      apply<1>(affine, kCentred, ladders[r].estimate.shift != 0, x + r, y + r, ladders + r, n, ahead);
    } else if (batch.kind[r] == GroupKind::flat) {
      for (std::size_t i = 0; i < n; ++i) affine.flat(rule, x[r] + i, i, y[r] + i);
    } else {
      for (std::size_t i = 0; i < n; ++i) affine.settle(ladders[r], x[r] + i, i, y[r] + i);
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

// x + residual, rounded to the format of T. `sum` may be either.
template <class T>
void add_residual(const T* x, const T* residual, T* sum, std::size_t n) {
  std::size_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (!std::is_same_v<T, double>) {
    // In floats the sum of two values of f16 or bf16 needs no second rounding that could differ: 24 >= 2·11 + 2.
    for (; k + hn::Lanes(F()) <= n; k += hn::Lanes(F())) {
      store_floats(quieted(hn::Add(load_floats(x + k), load_floats(residual + k))), sum + k);
    }
  }
#endif
  for (; k < n; ++k) {
    const auto i = static_cast<std::ptrdiff_t>(k);
    write(format_of<T>(), round_double(read(format_of<T>(), x, i) + read(format_of<T>(), residual, i), format_of<T>()), sum, i);
  }
}

// Rows [begin, end) of a call, in batches.
template <bool kCentred, class T, class P>
bool normalize_rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  const Call& call = *rule.call;
  const std::size_t n = call.cols;
  const Affine<T, P> affine(rule);
  // Fewer rows at once where a batch of them would leave the cache.
  const std::size_t batch = HWY_MAX(std::size_t{1}, HWY_MIN(batch_rows, (std::size_t{1} << 19) / (n * sizeof(T) + 1)));
  // The lower rungs read a row again after some of its y is written, so x is copied where y takes its place.
  const bool in_place = call.residual == nullptr ? call.y == call.x : call.sum == nullptr;
  T* copies = nullptr;
  if (in_place && n != 0) {
    copies = reinterpret_cast<T*>(scratch(batch * n * sizeof(T)));
    if (copies == nullptr) return false;
  }
  const auto row_of = [](const void* data, std::ptrdiff_t stride, std::size_t row) {
    return static_cast<const T*>(data) + static_cast<std::ptrdiff_t>(row) * stride;
  };
  Ladder ladders[batch_rows];
  for (std::size_t row = begin; row < end; row += batch) {
    const std::size_t count = HWY_MIN(batch, end - row);
    const T* x[batch_rows];
    T* y[batch_rows];
    for (std::size_t r = 0; r < count; ++r) {
      x[r] = row_of(call.x, call.x_stride, row + r);
      y[r] = const_cast<T*>(row_of(call.y, call.y_stride, row + r));
      if (call.residual != nullptr) {
        T* sum = in_place ? copies + r * n : const_cast<T*>(row_of(call.sum, call.sum_stride, row + r));
        add_residual(x[r], row_of(call.residual, call.residual_stride, row + r), sum, n);
        x[r] = sum;
      } else if (in_place && n != 0) {
        std::memcpy(copies + r * n, x[r], n * sizeof(T));
        x[r] = copies + r * n;
      }
      ladders[r].begin(rule, {x[r], format_of<T>(), n}, counters);
    }
    if constexpr (std::is_same_v<T, double>) {
      for (std::size_t r = 0; r < count; ++r) normalize_doubles(rule, affine, ladders[r], ladders[r].elements(), y[r], 0, 0, 1, true);
    } else {
#if HWY_TARGET != HWY_SCALAR
      normalize_batch<kCentred>(rule, affine, x, y, ladders, count, n);
#else
      for (std::size_t r = 0; r < count; ++r) {  // without vectors the lower rungs do all the work
        for (std::size_t i = 0; i < n; ++i) affine.settle(ladders[r], x[r] + i, i, y[r] + i);
      }
#endif
    }
    for (std::size_t r = 0; r < count; ++r) {
      const auto at = static_cast<std::ptrdiff_t>(row + r);
      if (call.mean != nullptr) write(call.statistics, ladders[r].mean(), call.mean, at);
      if (call.rstd != nullptr) write(call.statistics, ladders[r].rstd(), call.rstd, at);
    }
  }
  if (rule.stream) hwy::FlushStream();
  return true;
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
