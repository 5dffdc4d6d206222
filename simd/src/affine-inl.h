// From sums to estimates, and a block of elements: x̂, y, the test of the rounding, and what follows where it fails.

#if defined(NORMA_SIMD_AFFINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_AFFINE_INL_H_
#undef NORMA_SIMD_AFFINE_INL_H_
#else
#define NORMA_SIMD_AFFINE_INL_H_
#endif

#include <cmath>

#include "sums-inl.h"
#include "wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// Gain and bias of a call.
template <class T, class P>
class Affine {
 public:
  explicit Affine(const Rule& rule)
      : gamma(static_cast<const P*>(rule.call->gamma)),
        beta(static_cast<const P*>(rule.call->beta)),
        one_plus(rule.call->profile.gain_offset && gamma != nullptr) {}

  // y of an element whose gain and bias have that index, from the lower rungs.
  void settle(Ladder& ladder, const T* x, std::size_t index, T* y) const {
    const auto i = static_cast<std::ptrdiff_t>(index);
    const double gain = gamma != nullptr ? read(format_of<P>(), gamma, i) : 1;
    const double bias = beta != nullptr ? read(format_of<P>(), beta, i) : 0;
    const double value = read(format_of<T>(), x, 0);
    write(format_of<T>(), ladder.settle(value, gamma != nullptr ? &gain : nullptr, beta != nullptr ? &bias : nullptr), y, 0);
  }

  // The same of a group of equal elements: x̂ is ±0 (for rms_norm of the sign of x), or NaN where ε = 0.
  void flat(const Rule& rule, const T* x, std::size_t index, T* y) const {
    const auto i = static_cast<std::ptrdiff_t>(index);
    double value = rule.centred() ? 0.0 : read(format_of<T>(), x, 0);
    if (!(rule.call->epsilon > 0)) value = std::numeric_limits<double>::quiet_NaN();
    if (gamma != nullptr) value *= one_plus ? 1 + read(format_of<P>(), gamma, i) : read(format_of<P>(), gamma, i);
    if (beta != nullptr) value += read(format_of<P>(), beta, i);
    write(format_of<T>(), round_double(value, format_of<T>()), y, 0);
  }

  const P* gamma;
  const P* beta;
  bool one_plus;
};

// Whether all elements of a group are the same number; stops at the first that is not. One of given statistics has none.
bool all_equal(const Elements& e) {
  if (e.count() == 0) return true;
  const double first = read(e.format, e.data, 0);
  for (std::size_t i = 0; i < e.runs; ++i) {
    for (std::size_t j = 0; j < e.run; ++j) {
      if (read(e.format, e.data, static_cast<std::ptrdiff_t>(i) * e.stride + static_cast<std::ptrdiff_t>(j)) != first) return false;
    }
  }
  return true;
}

// settle(k) for the elements k < count of a vector that have not passed.
template <class Tag, class Settle>
HWY_INLINE void settle_others(Tag tag, hn::Mask<Tag> passed, std::size_t count, const Settle& settle) {
  if (HWY_LIKELY(hn::AllTrue(tag, passed))) return;
  std::uint8_t bits[HWY_MAX(8, HWY_MAX_BYTES / sizeof(float) / 8)] = {};
  hn::StoreMaskBits(tag, passed, bits);
  for (std::size_t k = 0; k < count; ++k) {
    if ((bits[k / 8] >> (k % 8) & 1) == 0) settle(k);
  }
}

#if HWY_TARGET != HWY_SCALAR

// What a group is: one with a good estimate, one of equal elements, one far from its shift that has to be looked at again with the mean as
// shift, or one for the lower rungs.
enum class GroupKind : std::uint8_t { regular, flat, remote, hard };

// The estimates of N groups, N a multiple of the lanes.
template <std::size_t N>
struct Estimates {
  alignas(64) double sum[N];      // Σd
  alignas(64) double squares[N];  // Σd², d = x − shift
  alignas(64) double shift[N];
  alignas(64) double scale[N];
  alignas(64) double offset[N];
  alignas(64) double relative[N];
  alignas(64) double absolute[N];
  alignas(64) double variance[N];
  alignas(64) double variance_error[N];
  GroupKind kind[N];

  [[nodiscard]] Estimate estimate(std::size_t r) const {
    return {shift[r], scale[r], offset[r], relative[r], absolute[r], variance[r], variance_error[r]};
  }
};

// From sums to  x̂ = (x − shift)·scale + offset  and its errors.
//
// With q = S²/n and spread = Σd² − q = nσ², in units of u, c the depth of the sums:
//   Σd is off by (c+1)·Σ|d| <= (c+1)·√(n·Σd²), Σd² by (c+3)·Σd² (differences and products are rounded too);
//   q by 2(c+1)·√(q·Σd²) + 5q <= (c+1)(q + Σd²) + 5q (1/n is rounded, and two products are), and so
//   the spread by (2c+7)·(Σd² + q), v = spread/n + ε by that over n plus 4v, rstd by half of it relative to v, plus 2.
// x̂ adds 3 for its own roundings, and 6·|offset| absolute (`restyled`); the mean's error is (c+4)·√(Σd²/n)·rstd, where √a <= (1 + a)/2.
// Second orders are in the factor 1 + 2^-9, as the relative error of what is used is kept under 2^-12.
template <std::size_t N>
void finish(Estimates<N>& e, std::size_t count, bool centred, double n, double epsilon, double c) {
  const D d;
  const VD per_n = hn::Set(d, 1 / n);
  const VD unit = hn::Set(d, u * (1 + 0x1p-9));
  const VD depth = hn::Set(d, c + 4);
  for (std::size_t r = 0; r < count; r += hn::Lanes(d)) {
    const VD sum = hn::Load(d, e.sum + r);
    const VD squares = hn::Load(d, e.squares + r);
    const VD mean = hn::Mul(sum, per_n);
    const VD q = hn::Mul(sum, mean);
    const VD variance = hn::Mul(hn::Max(hn::Sub(squares, q), hn::Zero(d)), per_n);
    const VD v = hn::Add(variance, hn::Set(d, epsilon));
    const VD scale = hn::Div(hn::Set(d, 1.0), hn::Sqrt(v));
    const VD offset = centred ? hn::Sub(hn::Zero(d), hn::Mul(mean, scale)) : hn::Zero(d);  // of equal elements +0, as x̂ is
    const VD error = hn::Mul(hn::Mul(hn::Add(squares, q), per_n), depth);                  // half of the variance's, in u
    const VD of_scale = hn::Mul(hn::Mul(error, scale), scale);
    const VD relative = hn::Mul(hn::Add(of_scale, hn::Set(d, 10.0)), unit);
    const VD of_mean = hn::Mul(hn::Add(of_scale, depth), hn::Set(d, 0.5));
    const VD absolute = hn::Mul(hn::MulAdd(hn::Abs(offset), hn::Set(d, 6.0), of_mean), unit);
    hn::Store(scale, d, e.scale + r);
    hn::Store(offset, d, e.offset + r);
    hn::Store(relative, d, e.relative + r);
    hn::Store(centred ? absolute : hn::Zero(d), d, e.absolute + r);
    hn::Store(variance, d, e.variance + r);
    hn::Store(hn::Mul(hn::MulAdd(error, hn::Set(d, 2.0), hn::Mul(variance, hn::Set(d, 4.0))), unit), d, e.variance_error + r);
  }
}

// Above this a second look is worth its time; above the next the lower rungs are.
constexpr double good_estimate = 0x1p-40;
constexpr double bearable_estimate = 0x1p-34;

// By the relative error of the first estimate and of the second. `all_equal` is asked only where it matters.
template <class AllEqual>
HWY_INLINE GroupKind first_look(double relative, double squares, const AllEqual& all_equal) {
  if (HWY_LIKELY(relative < good_estimate)) return GroupKind::regular;
  if (!(squares < std::numeric_limits<double>::infinity())) return GroupKind::hard;
  return all_equal() ? GroupKind::flat : GroupKind::remote;
}
HWY_INLINE GroupKind second_look(double relative) { return relative < bearable_estimate ? GroupKind::regular : GroupKind::hard; }

// How x̂ comes from x: x·scale, x·scale + offset, or (x − shift)·scale + offset.
enum class Centring : std::uint8_t { none, offset, shifted };

// What a call's elements may be off by without the test of the rounding noticing, given the largest errors among its groups.
//
// |error of y| <= (relative + 6u)·(|y| + |β|) + absolute·|γ| + u·|y| (finish). The part relative to |y| is at most relative/u units of its
// last place; the rest is at most `budget` units where |y| > a·|γ| + b·|β|. Of 2^28 values that many fail the test, twice; and of values of
// the size of γ as many as lie within a and b, by β a sixteenth of it say: the budget makes both alike. Where a double is rounded to a
// float before the test, the units are those of a float: half a one for that rounding, and one for all the rest.
template <class T>
struct Tolerance {
  Tolerance(double largest_relative, double largest_absolute, bool has_bias) : relative(largest_relative), absolute(largest_absolute) {
    const double fixed = absolute + (has_bias ? relative / 16 : 0);
    const double budget = wide ? HWY_MIN(HWY_MAX(0x1p6, 0x1p14 * std::sqrt(fixed / u)), 0x1p20) : 1;
    units = wide ? static_cast<std::int32_t>(budget + relative / u) + 9 : 2;
    a = static_cast<float>((absolute + 0x1p-100) / (budget * unit) * 1.001);
    b = static_cast<float>((relative + 8 * u) / (budget * unit) * 1.001);
  }

  static constexpr bool wide = std::is_same_v<T, float>;
  static constexpr double unit = wide ? u : 0x1p-24;
  double relative, absolute;
  std::int32_t units;
  float a, b;
};

// Two vectors of doubles: a block.
struct Block {
  VD low, high;
};
HWY_INLINE Block both(VD v) { return {v, v}; }
HWY_INLINE Block both(double v) { return both(hn::Set(D(), v)); }

// Gain, bias, and the magnitude of y below which a block's errors are not covered by the tolerance.
struct Column {
  Block gain, bias;
  VF threshold;
};

// Null stays null.
template <class P>
HWY_INLINE const P* at_column(const P* values, std::size_t i) {
  return values == nullptr ? values : values + i;
}

// Whether these gains or biases are so small that no y comes near the end of the format, where an error could make it infinite: |x̂| <= √n.
template <class P>
bool moderate(const P* values, std::size_t n, double most) {
  if (values == nullptr) return true;
  const VF limit = hn::Set(F(), static_cast<float>(most));
  MF good = hn::FirstN(F(), hn::Lanes(F()));
  std::size_t i = 0;
  for (; i + hn::Lanes(F()) <= n; i += hn::Lanes(F())) good = hn::And(good, hn::Lt(hn::Abs(load_floats(values + i)), limit));
  bool all = hn::AllTrue(F(), good);
  for (; i < n; ++i) all &= std::abs(read(format_of<P>(), values, static_cast<std::ptrdiff_t>(i))) < most;
  return all;
}

template <class T, class P>
HWY_INLINE Column column_of(const Affine<T, P>& affine, const P* gamma, const P* beta, VF a, VF b) {
  const std::size_t half = hn::Lanes(D());
  const VD nothing = hn::Set(D(), -0.0);  // what changes no sum, not even a zero
  Column p{both(1.0), both(nothing), hn::Set(F(), smallest_normal<T>)};
  VF gain = hn::Set(F(), 1.0F);
  if (affine.gamma != nullptr) {
    const VD more = affine.one_plus ? hn::Set(D(), 1.0) : nothing;
    p.gain = {hn::Add(load_doubles(gamma), more), hn::Add(load_doubles(gamma + half), more)};
    gain = hn::Add(hn::Abs(load_floats(gamma)), hn::Set(F(), affine.one_plus ? 1.0F : 0.0F));
  }
  if (affine.beta != nullptr) {
    p.bias = {load_doubles(beta), load_doubles(beta + half)};
    p.threshold = hn::MulAdd(hn::Abs(load_floats(beta)), b, p.threshold);
  }
  p.threshold = hn::MulAdd(gain, a, p.threshold);
  return p;
}

template <Centring kCentring>
HWY_INLINE VD standardize(VD x, VD shift, VD scale, VD offset) {
  if constexpr (kCentring == Centring::none) {
    return hn::Mul(x, scale);
  } else if constexpr (kCentring == Centring::offset) {
    return hn::MulAdd(x, scale, offset);
  } else {
    return hn::MulAdd(hn::Sub(x, shift), scale, offset);
  }
}

HWY_INLINE Block restyle(const Column& p, const Block xhat) {
  return {hn::MulAdd(xhat.low, p.gain.low, p.bias.low), hn::MulAdd(xhat.high, p.gain.high, p.bias.high)};
}

struct Standard {
  Block shift, scale, offset;
};
HWY_INLINE Standard standard_of(const Estimate& e) { return {both(e.shift), both(e.scale), both(e.offset)}; }

template <Centring kCentring, class T>
HWY_INLINE Block standardize(const T* x, const Standard& s) {
  return {standardize<kCentring>(load_doubles(x), s.shift.low, s.scale.low, s.offset.low),
          standardize<kCentring>(load_doubles(x + hn::Lanes(D())), s.shift.high, s.scale.high, s.offset.high)};
}

// Where gain and bias are those of many elements, x̂ and y in one step:  y = (x − shift)·(scale·γ) + (offset·γ + β).
//
// The roundings of difference, scale·γ and product are 3u·|γ|(|x̂| + |offset|) where there is no fused operation, that of offset·γ is one of
// it, those of the sums are u·(|γ·offset| + |β|) and u·|y|. With the one of offset itself that is 6u·|γ·offset|, as in `finish`; the others
// are within what x̂ and y are allowed there and in `Tolerance`. Of a gain that is not finite only the test makes sense, which fails.
HWY_INLINE Standard restyled(const Standard& s, const Column& p) {
  return {s.shift, {hn::Mul(s.scale.low, p.gain.low), hn::Mul(s.scale.high, p.gain.high)}, restyle(p, s.offset)};
}

// A block of y to the format of T, and what the test of the rounding says of it.
template <bool kTest, bool kQuiet, class T>
HWY_INLINE void put(const Block& v, T* y, RoundingTest<T>& test) {
  const VF value = to_floats(v.low, v.high);
  store_floats<!kTest>(kQuiet ? quieted(value) : value, y);
  if (kTest) test.add(v.low, v.high, value);
}

// Blocks with the same constants, in steps of elements. As many as `shared` have one verdict on the first `valid` elements of each; the
// verdicts that fail are noted, by the number of their first block, and counted: what follows from them would take the registers of this
// loop.
constexpr std::size_t shared = 4;
constexpr std::size_t stretch = 64;  // verdicts, before what they say is followed up
template <Centring kCentring, bool kTest, bool kQuiet, class T>
HWY_NOINLINE std::size_t apply_blocks(const Standard& standard, VF threshold, std::int32_t units, const T* x, std::ptrdiff_t x_step, T* y,
                                      std::ptrdiff_t y_step, std::size_t count, std::size_t valid, std::uint8_t* noted) {
  const Standard s = standard;
  const MF beyond = hn::Not(hn::FirstN(F(), valid));
  std::size_t failures = 0;
  for (std::size_t k = 0; k < count; k += shared) {
    RoundingTest<T> test(units);
    const auto step = [&](std::ptrdiff_t j)
                          HWY_ATTR { put<kTest, kQuiet>(standardize<kCentring>(x + j * x_step, s), y + j * y_step, test); };
    if (HWY_LIKELY(k + shared <= count)) {
      step(0), step(1), step(2), step(3);
    } else {
      for (std::size_t j = k; j < count; ++j) step(static_cast<std::ptrdiff_t>(j - k));
    }
    x += static_cast<std::ptrdiff_t>(shared) * x_step;
    y += static_cast<std::ptrdiff_t>(shared) * y_step;
    if (kTest) {
      noted[failures] = static_cast<std::uint8_t>(k);
      failures += hn::AllTrue(F(), hn::Or(test.passes(threshold), beyond)) ? 0 : 1;
    }
  }
  return failures;
}

// The errors of y in a block: of_y·|y| + fixed. As in `Tolerance`, with |γ·x̂| <= |y| + |β|.
struct Errors {
  Block of_y, fixed;
};
HWY_INLINE Errors errors_of(const Column& p, const Block& relative, const Block& absolute) {
  const auto of_y = [](VD r) HWY_ATTR { return hn::Add(r, hn::Set(D(), 12 * u)); };
  const auto fixed = [](VD gain, VD bias, VD r, VD a) HWY_ATTR {
    const VD of_bias = hn::MulAdd(hn::Abs(bias), hn::Add(r, hn::Set(D(), 8 * u)), hn::Set(D(), 0x1p-400));
    return hn::MulAdd(hn::Abs(gain), a, of_bias);
  };
  return {{of_y(relative.low), of_y(relative.high)},
          {fixed(p.gain.low, p.bias.low, relative.low, absolute.low), fixed(p.gain.high, p.bias.high, relative.high, absolute.high)}};
}
HWY_INLINE Errors errors_of(const Column& p, const Estimate& e) { return errors_of(p, both(e.relative), both(e.absolute)); }

// Which elements of a block of y are sure to be correctly rounded, by their own errors: what is asked where the test that blocks share has
// failed. Both ends of the interval of each element round alike.
template <Centring kCentring, class T>
HWY_INLINE MF certain(const Block& v, const Errors& e, const T* x) {
  const VD e0 = hn::MulAdd(hn::Abs(v.low), e.of_y.low, e.fixed.low);
  const VD e1 = hn::MulAdd(hn::Abs(v.high), e.of_y.high, e.fixed.high);
  const VF below = to_floats(hn::Sub(v.low, e0), hn::Sub(v.high, e1));
  const VF above = to_floats(hn::Add(v.low, e0), hn::Add(v.high, e1));
  MF passes = round_alike<T>(below, above);
  if constexpr (kCentring == Centring::none) {
    // What is zero stays zero, and y is the bias, which may lie halfway between two values: so it is in sparse inputs.
    const VF rounded = to_floats(v.low, v.high);
    const MF known = hn::And(hn::Eq(load_floats(x), hn::Zero(F())), hn::Lt(hn::Abs(rounded), hn::Inf(F())));
    passes = hn::Or(passes, hn::AndNot(halfway<T>(rounded), known));
  }
  return passes;
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
