// layer_norm and rms_norm: groups that are rows, gain and bias that vary along them.

#if defined(NORMA_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_ROWS_INL_H_
#undef NORMA_SIMD_ROWS_INL_H_
#else
#define NORMA_SIMD_ROWS_INL_H_
#endif

#include <cmath>

#include "sums-inl.h"
#include "wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// How many rows are taken at once, so that gain, bias and thresholds are made once for all of them, and their statistics in one vector.
constexpr std::size_t batch_rows = (HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3) ? 4 : 8;

// The rows of a call as the arithmetic sees them, apart from where they lie.
template <class T, class P>
class Affine {
 public:
  explicit Affine(const Rule& rule)
      : gamma(static_cast<const P*>(rule.call->gamma)),
        beta(static_cast<const P*>(rule.call->beta)),
        one_plus(rule.call->profile.gain_offset && gamma != nullptr) {}

  // y of an element, from the lower rungs.
  void settle(Ladder& ladder, const T* x, std::size_t column, T* y) const {
    const auto i = static_cast<std::ptrdiff_t>(column);
    const double gain = gamma != nullptr ? read(format_of<P>(), gamma, i) : 1;
    const double bias = beta != nullptr ? read(format_of<P>(), beta, i) : 0;
    const double value = read(format_of<T>(), x, 0);
    write(format_of<T>(), ladder.settle(value, gamma != nullptr ? &gain : nullptr, beta != nullptr ? &bias : nullptr), y, 0);
  }

  const P* gamma;
  const P* beta;
  bool one_plus;
};

// A row of equal elements: x̂ is ±0, or NaN where ε = 0.
template <class T, class P>
void flat_row(const Rule& rule, const Affine<T, P>& affine, const T* x, T* y, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) {
    const auto i = static_cast<std::ptrdiff_t>(k);
    double value = rule.centred() ? 0.0 : read(format_of<T>(), x, i);
    if (!(rule.call->epsilon > 0)) value = std::numeric_limits<double>::quiet_NaN();
    if (affine.gamma != nullptr) value *= (affine.one_plus ? 1.0 : 0.0) + read(format_of<P>(), affine.gamma, i);
    if (affine.beta != nullptr) value += read(format_of<P>(), affine.beta, i);
    write(format_of<T>(), round_double(value, format_of<T>()), y, i);
  }
}

#if HWY_TARGET != HWY_SCALAR

enum class RowKind : std::uint8_t { regular, flat, hard };

// The estimates of a batch of rows.
struct Batch {
  alignas(64) double sum[batch_rows];
  alignas(64) double squares[batch_rows];
  alignas(64) double shift[batch_rows];
  alignas(64) double scale[batch_rows];
  alignas(64) double offset[batch_rows];
  alignas(64) double relative[batch_rows];
  alignas(64) double absolute[batch_rows];

  [[nodiscard]] Estimate estimate(std::size_t r) const { return {shift[r], scale[r], offset[r], relative[r], absolute[r]}; }
};

constexpr double u = 0x1p-53;

// From sum = Σd and squares = Σd², d = x − shift, to  x̂ = (x − shift)·scale + offset  and its errors.
//
// With q = S²/n and spread = Σd² − q = nσ², in units of u, c the depth of the sums:
//   Σd is off by (c+1)·Σ|d| <= (c+1)·√(n·Σd²), Σd² by (c+3)·Σd² (differences and products are rounded too);
//   q by 2(c+1)·√(q·Σd²) + 4q <= (c+1)(q + Σd²) + 4q, and so
//   the spread by (2c+6)·(Σd² + q), v = spread/n + ε by that over n plus 3v, rstd by half of it relative to v, plus 2.
// x̂ adds 3 for its own roundings, and 3·|offset| absolute; the mean's error is (c+3)·√(Σd²/n)·rstd.
// Second orders are in the factor 1 + 2^-9, as the relative error of what is used is kept under 2^-12.
inline void finish(Batch& b, bool centred, double n, double epsilon, double c) {
  const D d;
  const VD vn = hn::Set(d, n);
  const VD unit = hn::Set(d, u * (1 + 0x1p-9));
  const VD one = hn::Set(d, 1.0);
  for (std::size_t r = 0; r < batch_rows; r += hn::Lanes(d)) {
    const VD sum = hn::Load(d, b.sum + r);
    const VD squares = hn::Load(d, b.squares + r);
    const VD mean = hn::Div(sum, vn);
    const VD q = hn::Mul(sum, mean);
    const VD spread = hn::Max(hn::Sub(squares, q), hn::Zero(d));
    const VD v = hn::Add(hn::Div(spread, vn), hn::Set(d, epsilon));
    const VD scale = hn::Div(one, hn::Sqrt(v));
    const VD offset = centred ? hn::Neg(hn::Mul(mean, scale)) : hn::Zero(d);
    const VD condition = hn::Div(hn::Add(squares, q), hn::Mul(vn, v));
    const VD relative = hn::Mul(hn::MulAdd(condition, hn::Set(d, c + 3), hn::Set(d, 8.0)), unit);
    const VD of_mean = hn::Mul(hn::Mul(hn::Sqrt(hn::Div(squares, vn)), scale), hn::Set(d, c + 3));
    const VD absolute = hn::Mul(hn::MulAdd(hn::Abs(offset), hn::Set(d, 4.0), of_mean), unit);
    hn::Store(scale, d, b.scale + r);
    hn::Store(offset, d, b.offset + r);
    hn::Store(relative, d, b.relative + r);
    hn::Store(centred ? absolute : hn::Zero(d), d, b.absolute + r);
  }
}

template <class T>
bool all_equal(const T* x, std::size_t n) {
  const double first = read(format_of<T>(), x, 0);
  for (std::size_t i = 1; i < n; ++i) {
    if (read(format_of<T>(), x, static_cast<std::ptrdiff_t>(i)) != first) return false;
  }
  return true;
}

// What a row is whose first estimate is no good: a second one with the mean as shift makes most of them regular.
template <bool kCentred, class T>
HWY_NOINLINE RowKind look_again(const Rule& rule, Batch& b, std::size_t r, const T* x, std::size_t n, double c) {
  const double count = static_cast<double>(n);
  if (!(b.squares[r] < std::numeric_limits<double>::infinity())) return RowKind::hard;
  if (b.squares[r] == 0 || (kCentred && all_equal(x, n))) return RowKind::flat;
  if (!kCentred) return RowKind::hard;
  Batch second{};
  for (std::size_t k = 0; k < batch_rows; ++k) second.squares[k] = 1;
  second.shift[0] = b.sum[r] / count;
  const Sums<InDoubles> sums = sums_of<InDoubles, true, true>(x, n, second.shift[0]);
  second.sum[0] = hn::GetLane(hn::SumOfLanes(D(), sums.sum));
  second.squares[0] = hn::GetLane(hn::SumOfLanes(D(), sums.squares));
  finish(second, kCentred, count, rule.call->epsilon, c);
  b.shift[r] = second.shift[0];
  b.scale[r] = second.scale[0];
  b.offset[r] = second.offset[0];
  b.relative[r] = second.relative[0];
  b.absolute[r] = second.absolute[0];
  return b.relative[r] < 0x1p-36 ? RowKind::regular : RowKind::hard;
}

// How x̂ comes from x: x·scale, x·scale + offset, or (x − shift)·scale + offset.
enum class Centring : std::uint8_t { none, offset, shifted };

// One column of blocks: gain, bias, and the magnitude below which an element's error is not covered by the test's tolerance.
//
// |error of y| <= (relative + 6u)·(|y| + |β|) + absolute·|γ| + u·|y| (finish). The part relative to |y| is at most relative/u units of its
// last place; the rest is at most `budget` units where |y| > a·|γ| + b·|β|. Where a double is rounded to a float before the test, the units
// are those of a float: half a one for that rounding, and one for all the rest.
template <class T>
struct Tolerance {
  HWY_INLINE Tolerance(double relative, double absolute)
      : units(wide ? static_cast<std::int32_t>(budget + relative / u) + 9 : 2),
        a(static_cast<float>((absolute + 0x1p-100) / (budget * unit) * 1.001)),
        b(static_cast<float>((relative + 8 * u) / (budget * unit) * 1.001)) {}

  static constexpr bool wide = std::is_same_v<T, float>;
  static constexpr double budget = wide ? 0x1p16 : 1;
  static constexpr double unit = wide ? u : 0x1p-24;
  std::int32_t units;
  float a, b;
};

struct Column {
  VD g0, g1, b0, b1;
  VF threshold;
};

template <class T, class P>
HWY_INLINE Column column_of(const Affine<T, P>& affine, const P* gamma, const P* beta, VF a, VF b) {
  const std::size_t half = hn::Lanes(D());
  Column p;
  p.g0 = p.g1 = hn::Set(D(), 1.0);
  p.b0 = p.b1 = hn::Zero(D());
  VF gain = hn::Set(F(), 1.0F);
  p.threshold = hn::Set(F(), RoundingTest<T>::least);
  if (affine.gamma != nullptr) {
    p.g0 = load_doubles(gamma);
    p.g1 = load_doubles(gamma + half);
    gain = load_floats(gamma);
    if (affine.one_plus) {
      p.g0 = hn::Add(p.g0, hn::Set(D(), 1.0));
      p.g1 = hn::Add(p.g1, hn::Set(D(), 1.0));
      gain = hn::Add(hn::Abs(gain), hn::Set(F(), 1.0F));
    }
  }
  if (affine.beta != nullptr) {
    p.b0 = load_doubles(beta);
    p.b1 = load_doubles(beta + half);
    p.threshold = hn::MulAdd(hn::Abs(load_floats(beta)), b, p.threshold);
  }
  p.threshold = hn::MulAdd(hn::Abs(gain), a, p.threshold);
  return p;
}

struct Standardized {
  VD low, high;
};

template <Centring kCentring, class T>
HWY_INLINE Standardized standardize(const T* x, VD shift, VD scale, VD offset) {
  VD x0 = load_doubles(x);
  VD x1 = load_doubles(x + hn::Lanes(D()));
  if constexpr (kCentring == Centring::shifted) {
    x0 = hn::Sub(x0, shift);
    x1 = hn::Sub(x1, shift);
  }
  if constexpr (kCentring == Centring::none) return {hn::Mul(x0, scale), hn::Mul(x1, scale)};
  return {hn::MulAdd(x0, scale, offset), hn::MulAdd(x1, scale, offset)};
}

template <class T, class P>
HWY_INLINE Standardized restyle(const Affine<T, P>& affine, const Column& p, const Standardized xhat) {
  if (affine.beta == nullptr) return {hn::Mul(xhat.low, p.g0), hn::Mul(xhat.high, p.g1)};
  return {hn::MulAdd(xhat.low, p.g0, p.b0), hn::MulAdd(xhat.high, p.g1, p.b1)};
}

// The elements of a block that failed the shared test: of this row, by a tighter one; what still fails, one by one.
template <Centring kCentring, class T, class P>
HWY_NOINLINE void settle_block(const Affine<T, P>& affine, Ladder& ladder, const T* x, const P* gamma, const P* beta, T* y,
                               std::size_t column, std::size_t count) {
  const Estimate& e = ladder.estimate;
  const Column p = column_of(affine, gamma, beta, hn::Zero(F()), hn::Zero(F()));
  const Standardized xhat = standardize<kCentring>(x, hn::Set(D(), e.shift), hn::Set(D(), e.scale), hn::Set(D(), e.offset));
  const Standardized value = restyle(affine, p, xhat);
  MF passes = hn::FirstN(F(), 0);
  if constexpr (std::is_same_v<T, float>) {
    // Both ends of the interval round alike. Comparing bits keeps zeros of different sign apart, comparing values lets no NaN pass.
    const VD relative = hn::Set(D(), e.relative + 8 * u), absolute = hn::Set(D(), e.absolute), roundings = hn::Set(D(), 4 * u);
    const auto error = [&](VD h, VD g, VD v) HWY_ATTR {
      return hn::MulAdd(hn::Abs(g), hn::MulAdd(hn::Abs(h), relative, absolute), hn::Mul(hn::Abs(v), roundings));
    };
    const VD e0 = error(xhat.low, p.g0, value.low), e1 = error(xhat.high, p.g1, value.high);
    const VF below = to_floats(hn::Sub(value.low, e0), hn::Sub(value.high, e1));
    const VF above = to_floats(hn::Add(value.low, e0), hn::Add(value.high, e1));
    passes = hn::And(hn::Eq(below, above), hn::RebindMask(F(), hn::Eq(hn::BitCast(I(), below), hn::BitCast(I(), above))));
  } else {
    const Tolerance<T> limit(e.relative, e.absolute);
    RoundingTest<T> test(limit.units);
    test.add(value.low, value.high, to_floats(value.low, value.high));
    passes = test.passes(column_of(affine, gamma, beta, hn::Set(F(), limit.a), hn::Set(F(), limit.b)).threshold);
  }
  if constexpr (kCentring == Centring::none) {
    // A zero in is a zero out, if the gain is finite and there is no bias: what sparse inputs consist of.
    if (affine.beta == nullptr) {
      const MF zero = hn::And(hn::Eq(load_floats(x), hn::Zero(F())), hn::Eq(to_floats(value.low, value.high), hn::Zero(F())));
      passes = hn::Or(passes, zero);
    }
  }
  std::uint8_t bits[HWY_MAX(8, HWY_MAX_BYTES / sizeof(float) / 8)] = {};
  hn::StoreMaskBits(F(), passes, bits);
  for (std::size_t k = 0; k < count; ++k) {
    if ((bits[k / 8] >> (k % 8) & 1) == 0) affine.settle(ladder, x + k, column + k, y + k);
  }
}

// kRows rows of n elements; x and y do not overlap.
template <Centring kCentring, std::size_t kRows, class T, class P>
void apply(const Affine<T, P>& affine, const Batch& batch, std::size_t first, const T* const* x, T* const* y, Ladder* ladders,
           std::size_t n) {
  constexpr std::size_t stretch = 64;  // blocks
  VD shift[kRows], scale[kRows], offset[kRows];
  const T* from[kRows];
  T* to[kRows];
  double relative = 0;
  double absolute = 0;
  for (std::size_t r = 0; r < kRows; ++r) {
    shift[r] = hn::Set(D(), batch.shift[first + r]);
    scale[r] = hn::Set(D(), batch.scale[first + r]);
    offset[r] = hn::Set(D(), batch.offset[first + r]);
    relative = HWY_MAX(relative, batch.relative[first + r]);
    absolute = HWY_MAX(absolute, batch.absolute[first + r]);
    from[r] = x[r];
    to[r] = y[r];
  }
  const Tolerance<T> limit(relative, absolute);
  const VF a = hn::Set(F(), limit.a);
  const VF b = hn::Set(F(), limit.b);
  const std::size_t block = hn::Lanes(F());
  std::size_t i = 0;
  while (i + block <= n) {
    // Blocks that fail are noted, and settled after a stretch of them: a call in the loop would empty the registers.
    std::uint32_t noted[stretch];
    std::size_t failures = 0;
    const std::size_t end = HWY_MIN(n - block, i + (stretch - 1) * block);
    for (; i <= end; i += block) {
      const Column p = column_of(affine, affine.gamma + i, affine.beta + i, a, b);
      RoundingTest<T> test(limit.units);
      HWY_UNROLL(8)
      for (std::size_t r = 0; r < kRows; ++r) {
        const Standardized v = restyle(affine, p, standardize<kCentring>(from[r] + i, shift[r], scale[r], offset[r]));
        const VF value = to_floats(v.low, v.high);
        store_floats(value, to[r] + i);
        test.add(v.low, v.high, value);
      }
      noted[failures] = static_cast<std::uint32_t>(i);
      failures += hn::AllTrue(F(), test.passes(p.threshold)) ? 0 : 1;
    }
    for (std::size_t k = 0; k < failures; ++k) {
      const std::size_t at = noted[k];
      for (std::size_t r = 0; r < kRows; ++r) {
        settle_block<kCentring>(affine, ladders[r], x[r] + at, affine.gamma + at, affine.beta + at, y[r] + at, at, block);
      }
    }
  }
  if (i == n) return;
  // The rest of each row in copies, as whole blocks.
  constexpr std::size_t most = HWY_MAX_BYTES / sizeof(float);
  const std::size_t rest = n - i;
  P gammas[most] = {};
  P betas[most] = {};
  if (affine.gamma != nullptr) std::memcpy(gammas, affine.gamma + i, rest * sizeof(P));
  if (affine.beta != nullptr) std::memcpy(betas, affine.beta + i, rest * sizeof(P));
  const Column p = column_of(affine, gammas, betas, a, b);
  for (std::size_t r = 0; r < kRows; ++r) {
    T source[most] = {};
    T target[most];
    std::memcpy(source, x[r] + i, rest * sizeof(T));
    const Standardized v = restyle(affine, p, standardize<kCentring>(source, shift[r], scale[r], offset[r]));
    const VF value = to_floats(v.low, v.high);
    store_floats(value, target);
    RoundingTest<T> test(limit.units);
    test.add(v.low, v.high, value);
    if (!hn::AllTrue(F(), hn::Or(test.passes(p.threshold), hn::Not(hn::FirstN(F(), rest))))) {
      settle_block<kCentring>(affine, ladders[r], source, gammas, betas, target, i, rest);
    }
    std::memcpy(y[r] + i, target, rest * sizeof(T));
  }
}

template <std::size_t kRows, class T, class P>
void apply(const Affine<T, P>& affine, bool centred, bool shifted, const Batch& batch, std::size_t first, const T* const* x, T* const* y,
           Ladder* ladders, std::size_t n) {
  if (!centred) return apply<Centring::none, kRows>(affine, batch, first, x, y, ladders, n);
  if (shifted) return apply<Centring::shifted, kRows>(affine, batch, first, x, y, ladders, n);
  return apply<Centring::offset, kRows>(affine, batch, first, x, y, ladders, n);
}

// Up to a batch of rows.
template <bool kCentred, class T, class P>
void normalize_batch(const Rule& rule, const Affine<T, P>& affine, const T* const* x, T* const* y, Ladder* ladders, std::size_t count,
                     std::size_t n) {
  const double c = depth<InDoubles>(n);
  Batch batch;
  for (std::size_t r = 0; r < batch_rows; ++r) {
    batch.shift[r] = batch.sum[r] = 0;
    batch.squares[r] = 1;
    if (r >= count) continue;
    const Sums<InDoubles> sums = sums_of<InDoubles, kCentred, false>(x[r], n, 0.0);
    if (kCentred) batch.sum[r] = hn::GetLane(hn::SumOfLanes(D(), sums.sum));
    batch.squares[r] = hn::GetLane(hn::SumOfLanes(D(), sums.squares));
  }
  finish(batch, kCentred, static_cast<double>(n), rule.call->epsilon, c);
  RowKind kinds[batch_rows] = {};
  bool regular = true;
  bool shifted = false;
  for (std::size_t r = 0; r < count; ++r) {
    if (HWY_LIKELY(batch.relative[r] < 0x1p-40)) continue;
    kinds[r] = look_again<kCentred>(rule, batch, r, x[r], n, c);
    regular &= kinds[r] == RowKind::regular;
    shifted |= batch.shift[r] != 0;
  }
  for (std::size_t r = 0; r < count; ++r) {
    if (kinds[r] == RowKind::regular) ladders[r].estimate = batch.estimate(r);
  }
  if (HWY_LIKELY(regular && count == batch_rows)) {
    apply<batch_rows>(affine, kCentred, shifted, batch, 0, x, y, ladders, n);
  } else {
    for (std::size_t r = 0; r < count; ++r) {
      if (kinds[r] == RowKind::regular) {
        apply<1>(affine, kCentred, batch.shift[r] != 0, batch, r, x + r, y + r, ladders + r, n);
      } else if (kinds[r] == RowKind::flat) {
        flat_row(rule, affine, x[r], y[r], n);
      } else {
        for (std::size_t i = 0; i < n; ++i) affine.settle(ladders[r], x[r] + i, i, y[r] + i);
      }
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

// Without vectors, and for f64, the lower rungs do all the work.
template <class T, class P>
void normalize_by_ladder(const Affine<T, P>& affine, const T* const* x, T* const* y, Ladder* ladders, std::size_t count, std::size_t n) {
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t i = 0; i < n; ++i) affine.settle(ladders[r], x[r] + i, i, y[r] + i);
  }
}

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
#if HWY_TARGET != HWY_SCALAR
    if constexpr (!std::is_same_v<T, double>) {
      normalize_batch<kCentred>(rule, affine, x, y, ladders, count, n);
    } else {
      normalize_by_ladder(affine, x, y, ladders, count, n);
    }
#else
    normalize_by_ladder(affine, x, y, ladders, count, n);
#endif
    for (std::size_t r = 0; r < count; ++r) {
      const auto at = static_cast<std::ptrdiff_t>(row + r);
      if (call.mean != nullptr) write(call.statistics, ladders[r].mean(), call.mean, at);
      if (call.rstd != nullptr) write(call.statistics, ladders[r].rstd(), call.rstd, at);
    }
  }
  return true;
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
