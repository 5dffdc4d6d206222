// Vectors of double-doubles: sums over a group for the second rung of the ladder, and elements of f64.

#if defined(NORMA_SIMD_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_WIDE_INL_H_
#undef NORMA_SIMD_WIDE_INL_H_
#else
#define NORMA_SIMD_WIDE_INL_H_
#endif

#include "double_double.h"
#include "lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// hi + lo, lane by lane: the arithmetic of double_double.h.
struct Pair {
  VD hi, lo;
};

HWY_INLINE Pair two_sum(VD a, VD b) {
  const VD s = hn::Add(a, b);
  const VD t = hn::Sub(s, a);
  return {s, hn::Add(hn::Sub(a, hn::Sub(s, t)), hn::Sub(b, t))};
}
HWY_INLINE Pair fast_two_sum(VD a, VD b) {
  const VD s = hn::Add(a, b);
  return {s, hn::Sub(b, hn::Sub(s, a))};
}
// Without a fused multiply-add as Dekker's split product. |a|, |b| < 2^500; exact for products of at least 2^-960.
HWY_INLINE Pair two_product(VD a, VD b) {
  const VD p = hn::Mul(a, b);
#if HWY_NATIVE_FMA
  return {p, hn::MulSub(a, b, p)};
#else
  const VD split = hn::Set(D(), 0x1p27 + 1);
  const VD ca = hn::Mul(a, split), cb = hn::Mul(b, split);
  const VD ah = hn::Sub(ca, hn::Sub(ca, a)), bh = hn::Sub(cb, hn::Sub(cb, b));
  const VD al = hn::Sub(a, ah), bl = hn::Sub(b, bh);
  const VD cross = hn::Add(hn::Mul(ah, bl), hn::Mul(al, bh));
  return {p, hn::Add(hn::Add(hn::Sub(hn::Mul(ah, bh), p), cross), hn::Mul(al, bl))};
#endif
}
HWY_INLINE Pair add(const Pair a, const Pair b) {
  const Pair s = two_sum(a.hi, b.hi);
  const Pair t = two_sum(a.lo, b.lo);
  const Pair v = fast_two_sum(s.hi, hn::Add(s.lo, t.hi));
  return fast_two_sum(v.hi, hn::Add(t.lo, v.lo));
}
HWY_INLINE Pair multiply(const Pair a, const Pair b) {
  const Pair p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, hn::Add(p.lo, hn::Add(hn::Mul(a.hi, b.lo), hn::Mul(a.lo, b.hi))));
}

// A running sum and the sum of its rounding errors.
struct Compensated {
  VD sum, error;

  HWY_INLINE Compensated() : sum(hn::Zero(D())), error(hn::Zero(D())) {}

  HWY_INLINE void add(VD x, VD low) {
    const Pair s = two_sum(sum, x);
    error = hn::Add(error, hn::Add(s.lo, low));
    sum = s.hi;
  }
  [[nodiscard]] DoubleDouble total() const {
    alignas(64) double sums[HWY_MAX_BYTES / sizeof(double)];
    alignas(64) double errors[HWY_MAX_BYTES / sizeof(double)];
    hn::Store(sum, D(), sums);
    hn::Store(error, D(), errors);
    DoubleDouble all;
    for (std::size_t i = 0; i < hn::Lanes(D()); ++i) all = all + simd::two_sum(sums[i], errors[i]);
    return all;
  }
};

constexpr std::size_t chunk = 1024;

// As norma::simd::read, but within the loop.
template <class T>
double read_one(Format format, const T* from) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  } else {
    return read(format, from, 0);
  }
}

// Elements [first, first + count) of a group, as doubles.
template <class T>
void gather(const Elements& e, std::size_t first, std::size_t count, double* to) {
  const T* data = static_cast<const T*>(e.data);
  if (e.run == 1) {  // a channel of channels_last memory
    const T* from = data + static_cast<std::ptrdiff_t>(first) * e.stride;
    for (std::size_t i = 0; i < count; ++i, from += e.stride) to[i] = read_one(e.format, from);
    return;
  }
  std::size_t row = first / e.run;
  std::size_t at = first % e.run;
  for (std::size_t i = 0; i < count; ++row, at = 0) {
    const T* from = data + static_cast<std::ptrdiff_t>(row) * e.stride + at;
    const std::size_t end = i + HWY_MIN(count - i, e.run - at);
    for (; i + hn::Lanes(D()) <= end; i += hn::Lanes(D()), from += hn::Lanes(D())) hn::StoreU(load_doubles(from), D(), to + i);
    for (; i < end; ++i, ++from) to[i] = read_one(e.format, from);
  }
}
void gather(const Elements& e, std::size_t first, std::size_t count, double* to) {
  switch (e.format) {
    case Format::f64:
      return gather<double>(e, first, count, to);
    case Format::f32:
      return gather<float>(e, first, count, to);
    case Format::f16:
      return gather<float16_t>(e, first, count, to);
    default:
      return gather<bfloat16_t>(e, first, count, to);
  }
}

// With d = x − shift in double-double (exactly, by two_sum): Σd and Σd².
//
// Errors, in units of Σ|d| and Σd². Within a chunk a lane adds at most m = 1024/2 terms: the compensation of a sum of m terms errs by at
// most (m·u)²/(1 − m·u) of the absolute sum, under 2^-87, for either sum; forming an error term from three parts, without d.lo², adds
// 2^-103, adding up the lanes 3u² for each of eight at most. Each chunk is added to the totals with 3u². So 2^-86 + 2^-104·chunks bounds
// each, and the factor 1.001 the rounding of the absolute sum. What fills up the last vector is d = 0.
WideMoments WideMomentsOf(const Elements& elements, double shift) {
  WideMoments m;
  m.shift = shift;
  const std::size_t n = elements.count();
  alignas(64) double x[chunk];
  double absolute = 0;  // Σ|d|, roughly
  VD largest = hn::Zero(D());
  VD least = hn::Set(D(), 0x1p1000);  // but for zeros
  const VD minus_shift = hn::Set(D(), -shift);
  for (std::size_t first = 0; first < n; first += chunk) {
    const std::size_t count = HWY_MIN(chunk, n - first);
    gather(elements, first, count, x);
    const std::size_t lanes = hn::Lanes(D());
    const std::size_t padded = (count + lanes - 1) / lanes * lanes;
    for (std::size_t i = count; i < padded; ++i) x[i] = shift;
    Compensated sum;
    Compensated squares;
    VD magnitudes = hn::Zero(D());
    for (std::size_t i = 0; i < padded; i += lanes) {
      const Pair d = two_sum(hn::Load(D(), x + i), minus_shift);
      const Pair square = two_product(d.hi, d.hi);
      sum.add(d.hi, d.lo);
      squares.add(square.hi, hn::Add(square.lo, hn::Mul(hn::Add(d.hi, d.hi), d.lo)));
      const VD magnitude = hn::Abs(d.hi);
      magnitudes = hn::Add(magnitudes, magnitude);
      largest = hn::Max(largest, magnitude);
      least = hn::IfThenElse(hn::Eq(magnitude, hn::Zero(D())), least, hn::Min(least, magnitude));
    }
    m.sum = m.sum + sum.total();
    m.squares = m.squares + squares.total();
    absolute += hn::GetLane(hn::SumOfLanes(D(), magnitudes));
  }
  const double relative = 0x1p-86 + 0x1p-104 * (static_cast<double>(n) / chunk + 1);
  // Squares that add up to 2^1000, or one whose error term may have underflowed, say nothing. A NaN makes the errors NaN by itself.
  const bool moderate = hn::GetLane(hn::MaxOfLanes(D(), largest)) < 0x1p500 / HWY_MAX(1.0, std::sqrt(static_cast<double>(n))) &&
                        hn::GetLane(hn::MinOfLanes(D(), least)) > 0x1p-450;
  m.sum_error = moderate ? relative * absolute * 1.001 : std::numeric_limits<double>::infinity();
  m.squares_error = moderate ? relative * m.squares.hi * 1.001 : std::numeric_limits<double>::infinity();
  return m;
}

// ---- Elements of f64, whose first rung this is ---------------------------------------------------------------------------------------

// What Ladder::settle_wide needs of a group, lane by lane.
struct WideConstants {
  static constexpr std::size_t most = HWY_MAX_BYTES / sizeof(double);
  alignas(64) double shift[most], mean_hi[most], mean_lo[most], rstd_hi[most], rstd_lo[most], relative[most], absolute[most];

  void set(std::size_t lane, const WideStatistics& w) {
    constexpr double square = 0x1p-106;  // u²
    shift[lane] = w.shift;
    mean_hi[lane] = -w.mean.hi;
    mean_lo[lane] = -w.mean.lo;
    rstd_hi[lane] = w.rstd.hi;
    rstd_lo[lane] = w.rstd.lo;
    relative[lane] = w.rstd_error + 64 * square;
    absolute[lane] = w.mean_error + 8 * square * std::abs(w.mean.hi);
  }
};

// A vector of y as Ladder::settle_wide computes it, and which of it is sure to be correctly rounded: where hi + (lo ± error) rounds to hi.
// The errors are those of settle_wide with more of u²: at least 4·u²·|y| is left over for rounding lo ± error, which is half an ulp of y at
// most and so errs by u²·|y|.
struct WideResult {
  VD y;
  hn::Mask<D> passes;
};
HWY_INLINE WideResult wide_block(VD x, const WideConstants& k, const Pair gain, VD bias, bool has_bias) {
  const D d;
  const VD square = hn::Set(d, 0x1p-106);
  const Pair raw = two_sum(x, hn::Neg(hn::Load(d, k.shift)));
  const Pair deviation = add(raw, {hn::Load(d, k.mean_hi), hn::Load(d, k.mean_lo)});
  const Pair xhat = multiply(deviation, {hn::Load(d, k.rstd_hi), hn::Load(d, k.rstd_lo)});
  const Pair product = multiply(xhat, gain);
  Pair y = product;
  const VD moved = hn::MulAdd(hn::Abs(raw.hi), hn::Mul(square, hn::Set(d, 8.0)), hn::Load(d, k.absolute));
  const VD of_xhat = hn::MulAdd(hn::Abs(xhat.hi), hn::Load(d, k.relative), hn::Mul(hn::Add(moved, moved), hn::Load(d, k.rstd_hi)));
  VD error = hn::Mul(hn::Abs(gain.hi), of_xhat);
  if (has_bias) {
    const Pair s = two_sum(product.hi, bias);
    y = fast_two_sum(s.hi, hn::Add(product.lo, s.lo));
    error = hn::MulAdd(hn::Add(hn::Abs(product.hi), hn::Abs(bias)), hn::Mul(square, hn::Set(d, 8.0)), error);
  }
  // Everything of moderate size, as there; NaN fails.
  const VD least = hn::Min(hn::Min(hn::Abs(deviation.hi), hn::Abs(xhat.hi)), hn::Min(hn::Abs(product.hi), hn::Abs(y.hi)));
  const VD most = hn::Max(hn::Max(hn::Abs(deviation.hi), hn::Abs(xhat.hi)), hn::Max(hn::Abs(product.hi), hn::Abs(y.hi)));
  const auto moderate = hn::And(hn::Gt(least, hn::Set(d, 0x1p-450)), hn::Lt(most, hn::Set(d, 0x1p450)));
  const auto alike = hn::And(hn::Eq(y.hi, hn::Add(y.hi, hn::Sub(y.lo, error))), hn::Eq(y.hi, hn::Add(y.hi, hn::Add(y.lo, error))));
  const auto sound = hn::And(moderate, hn::Lt(hn::Abs(gain.hi), hn::Set(d, 0x1p450)));
  return {y.hi, hn::And(sound, alike)};
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
