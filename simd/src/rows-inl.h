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

// The second look at a row.
template <class T>
HWY_NOINLINE GroupKind look_again(const Rule& rule, double sum, const T* x, std::size_t n, double c, Estimate& estimate) {
  Batch second{};
  for (double& square : second.squares) square = 1;
  second.shift[0] = sum / static_cast<double>(n);
  const Sums<InDoubles> sums = sums_of<InDoubles, true, true>(x, n, hn::Set(D(), second.shift[0]));
  second.sum[0] = hn::GetLane(hn::SumOfLanes(D(), sums.sum));
  second.squares[0] = hn::GetLane(hn::SumOfLanes(D(), sums.squares));
  finish(second, 1, true, static_cast<double>(n), rule.call->epsilon, c);
  estimate = second.estimate(0);
  return second_look(second.relative[0]);
}

// Some rows on their way from x to y, which do not overlap.
template <std::size_t kRows, class T>
struct Rows {
  const T* x[kRows];
  T* y[kRows];
  Ladder* ladders;
  std::ptrdiff_t ahead;  // how far to prefetch if y goes past the caches, otherwise 0

  Rows(const T* const* from, T* const* to, Ladder* with, std::ptrdiff_t elements_ahead) : ladders(with), ahead(elements_ahead) {
    for (std::size_t r = 0; r < kRows; ++r) {
      x[r] = from[r];
      y[r] = to[r];
    }
  }
};

// What shares a verdict: the rows of a column, or a few columns of a single row.
template <std::size_t kRows>
constexpr std::size_t together = kRows == 1 ? shared : 1;

// Columns [begin, end), whole blocks. Verdicts that fail are noted, by their first column, and counted: what follows from them would take
// the registers of this loop.
template <Centring kCentring, std::size_t kRows, class T, class P>
HWY_NOINLINE std::size_t apply_stretch(const Affine<T, P>& gain_and_bias, const Rows<kRows, T>& rows, const Tolerance<T>& limit,
                                       std::size_t begin, std::size_t end, std::size_t* noted) {
  // All of it in registers: as far as the compiler knows a store to y could change anything in memory.
  const Affine<T, P> affine = gain_and_bias;
  const std::int32_t units = limit.units;
  const T* x[kRows];
  T* y[kRows];
  VD shift[kRows], scale[kRows], offset[kRows];
  HWY_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r) {
    x[r] = rows.x[r];
    y[r] = rows.y[r];
    const Estimate& e = rows.ladders[r].estimate;
    shift[r] = hn::Set(D(), e.shift);
    scale[r] = hn::Set(D(), e.scale);
    offset[r] = hn::Set(D(), e.offset);
  }
  const VF a = hn::Set(F(), limit.a);
  const VF b = hn::Set(F(), limit.b);
  const std::ptrdiff_t ahead = rows.ahead;
  const std::size_t block = hn::Lanes(F());
  std::size_t failures = 0;
  for (std::size_t i = begin; i < end;) {
    noted[failures] = i;
    RoundingTest<T> test(units);
    bool passed = true;
    if constexpr (kRows == 1) {
      for (const std::size_t stop = HWY_MIN(end, i + together<kRows> * block); i < stop; i += block) {
        const Column p = column_of(affine, at_column(affine.gamma, i), at_column(affine.beta, i), a, b);
        const Block v = restyle(p, standardize<kCentring>(x[0] + i, {both(shift[0]), both(scale[0]), both(offset[0])}));
        const VF value = to_floats(v.low, v.high);
        store_floats<false>(value, y[0] + i, ahead != 0);
        test.add(v.low, v.high, value, p.threshold);
      }
      passed = hn::AllTrue(F(), test.passes());
    } else {
      const Column p = column_of(affine, at_column(affine.gamma, i), at_column(affine.beta, i), a, b);
      HWY_UNROLL(4)
      for (std::size_t r = 0; r < kRows; ++r) {
        const Block v = restyle(p, standardize<kCentring>(x[r] + i, {both(shift[r]), both(scale[r]), both(offset[r])}));
        const VF value = to_floats(v.low, v.high);
        store_floats<false>(value, y[r] + i, ahead != 0);
        if (ahead != 0) hwy::Prefetch(x[r] + i + ahead);
        test.add(v.low, v.high, value);
      }
      i += block;
      passed = hn::AllTrue(F(), test.passes(p.threshold));
    }
    failures += passed ? 0 : 1;
  }
  return failures;
}

// The block at a column: y is there, and what is not certain is settled.
template <Centring kCentring, std::size_t kRows, class T, class P>
HWY_NOINLINE void look_closer(const Affine<T, P>& affine, const Rows<kRows, T>& rows, const Tolerance<T>& limit, std::size_t at) {
  const Column p = column_of(affine, at_column(affine.gamma, at), at_column(affine.beta, at), hn::Zero(F()), hn::Zero(F()));
  const Errors errors = errors_of(p, both(limit.relative), both(limit.absolute));
  for (std::size_t r = 0; r < kRows; ++r) {
    const T* x = rows.x[r] + at;
    const Block v = restyle(p, standardize<kCentring>(x, standard_of(rows.ladders[r].estimate)));
    settle_others(F(), certain<kCentring>(v, errors, x), hn::Lanes(F()),
                  [&](std::size_t lane) { affine.settle(rows.ladders[r], x + lane, at + lane, rows.y[r] + at + lane); });
  }
}

// Rows of n elements.
template <Centring kCentring, std::size_t kRows, class T, class P>
void apply(const Affine<T, P>& affine, const Rows<kRows, T>& rows, const Tolerance<T>& limit, std::size_t n) {
  const std::size_t block = hn::Lanes(F());
  const std::size_t whole = n / block * block;
  std::size_t i = 0;
  while (i < whole) {
    std::size_t noted[stretch];
    const std::size_t end = HWY_MIN(whole, i + stretch * together<kRows> * block);
    const std::size_t failures = apply_stretch<kCentring>(affine, rows, limit, i, end, noted);
    for (std::size_t k = 0; k < failures; ++k) {
      for (std::size_t at = noted[k]; at < HWY_MIN(end, noted[k] + together<kRows> * block); at += block) {
        look_closer<kCentring>(affine, rows, limit, at);
      }
    }
    i = end;
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
  if (affine.beta != nullptr) std::memcpy(betas, affine.beta + at, (done + rest) * sizeof(P));
  const Column p = column_of(affine, gammas, betas, hn::Set(F(), limit.a), hn::Set(F(), limit.b));
  for (std::size_t r = 0; r < kRows; ++r) {
    const Estimate& e = rows.ladders[r].estimate;
    T copy[most] = {};
    T target[most];
    if (done == 0) std::memcpy(copy, rows.x[r] + at, rest * sizeof(T));
    const T* source = done == 0 ? copy : rows.x[r] + at;
    RoundingTest<T> test(limit.units);
    const Block v = restyle(p, standardize<kCentring>(source, standard_of(e)));
    put<true, false>(v, target, test);
    const MF asked = hn::AndNot(hn::FirstN(F(), done), hn::FirstN(F(), done + rest));
    if (!hn::AllFalse(F(), hn::AndNot(test.passes(p.threshold), asked))) {
      settle_others(F(), certain<kCentring>(v, errors_of(p, e), source), done + rest, [&](std::size_t lane) {
        if (lane >= done) affine.settle(rows.ladders[r], source + lane, at + lane, target + lane);
      });
    }
    std::memcpy(rows.y[r] + i, target + done, rest * sizeof(T));
  }
}

template <std::size_t kRows, class T, class P>
void apply(const Affine<T, P>& affine, bool centred, bool shifted, const Rows<kRows, T>& rows, const Tolerance<T>& limit, std::size_t n) {
  if (!centred) return apply<Centring::none>(affine, rows, limit, n);
  if (shifted) return apply<Centring::shifted>(affine, rows, limit, n);
  return apply<Centring::offset>(affine, rows, limit, n);
}

// Up to a batch of rows.
template <bool kCentred, class T, class P>
void normalize_batch(const Rule& rule, const Affine<T, P>& affine, const T* const* x, T* const* y, Ladder* ladders, std::size_t count,
                     std::size_t n, double c) {
  const std::ptrdiff_t ahead = rule.stream ? static_cast<std::ptrdiff_t>(batch_rows) * rule.call->x_stride : 0;
  Batch batch;
  VD sum[batch_rows];
  VD squares[batch_rows];
  for (std::size_t r = 0; r < batch_rows; ++r) {
    batch.shift[r] = 0;
    sum[r] = hn::Zero(D());
    squares[r] = hn::Set(D(), 1.0);
    if (r >= count) continue;
    const Sums<InDoubles> sums = sums_of<InDoubles, kCentred, false>(x[r], n, hn::Zero(D()));
    sum[r] = sums.sum;
    squares[r] = sums.squares;
  }
  store_sums_of_lanes(sum, batch_rows, batch.sum);
  store_sums_of_lanes(squares, batch_rows, batch.squares);
  finish(batch, batch_rows, kCentred, static_cast<double>(n), rule.call->epsilon, c);
  bool regular = true;
  bool shifted = false;
  double relative = 0;
  double absolute = 0;
  for (std::size_t r = 0; r < count; ++r) {
    Estimate& estimate = ladders[r].estimate;
    GroupKind kind = first_look(batch.relative[r], batch.squares[r], [&] {
      return batch.squares[r] == 0 || (kCentred && all_equal({x[r], format_of<T>(), n}));
    });
    estimate = batch.estimate(r);
    if (HWY_UNLIKELY(kind == GroupKind::remote)) {
      // Without a mean there is no better shift.
      kind = kCentred ? look_again(rule, batch.sum[r], x[r], n, c, estimate) : GroupKind::hard;
    }
    batch.kind[r] = kind;
    if (HWY_UNLIKELY(kind != GroupKind::regular)) {
      regular = false;
      continue;
    }
    shifted |= estimate.shift != 0;
    relative = HWY_MAX(relative, estimate.relative);
    absolute = HWY_MAX(absolute, estimate.absolute);
  }
  const Tolerance<T> limit(relative, absolute, affine.beta != nullptr);
  std::size_t r = 0;
  for (; regular && r + apply_rows <= count; r += apply_rows) {
    apply(affine, kCentred, shifted, Rows<apply_rows, T>(x + r, y + r, ladders + r, ahead), limit, n);
  }
  for (; r < count; ++r) {
    if (batch.kind[r] == GroupKind::regular) {
      apply(affine, kCentred, ladders[r].estimate.shift != 0, Rows<1, T>(x + r, y + r, ladders + r, ahead), limit, n);
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
  if (in_place) {
    copies = reinterpret_cast<T*>(scratch(batch * n * sizeof(T)));
    if (copies == nullptr) return false;
  }
  const auto row_of = [](const void* data, std::ptrdiff_t stride, std::size_t row) {
    return static_cast<const T*>(data) + static_cast<std::ptrdiff_t>(row) * stride;
  };
#if HWY_TARGET != HWY_SCALAR
  const double c = depth<InDoubles>(n);
#endif
  Ladders<batch_rows> of_batch(HWY_MIN(batch, end - begin));
  Ladder* ladders = of_batch.data();
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
      } else if (in_place) {
        std::memcpy(copies + r * n, x[r], n * sizeof(T));
        x[r] = copies + r * n;
      }
      ladders[r].begin(rule, {x[r], format_of<T>(), n}, counters);
    }
    if constexpr (std::is_same_v<T, double>) {
      for (std::size_t r = 0; r < count; ++r) normalize_doubles(rule, affine, ladders[r], ladders[r].elements(), y[r], 0, 0, 1, 1);
    } else {
#if HWY_TARGET != HWY_SCALAR
      normalize_batch<kCentred>(rule, affine, x, y, ladders, count, n, c);
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
