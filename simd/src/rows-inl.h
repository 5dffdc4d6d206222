// layer_norm and rms_norm: groups that are rows, gain and bias that vary along them.

#if defined(NORMA_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_ROWS_INL_H_
#undef NORMA_SIMD_ROWS_INL_H_
#else
#define NORMA_SIMD_ROWS_INL_H_
#endif

#include <cmath>

#include "lanes-inl.h"
#include "wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

// Without vectors the lower rungs do all the work.
template <bool kCentred, class T, class P>
void normalize_rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  const Call& call = *rule.call;
  constexpr double unknown = std::numeric_limits<double>::infinity();
  for (std::size_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(call.x) + static_cast<std::ptrdiff_t>(row) * call.x_stride;
    T* y = static_cast<T*>(call.y) + static_cast<std::ptrdiff_t>(row) * call.y_stride;
    Ladder ladder(rule, {x, format_of<T>(), call.cols}, counters);
    for (std::size_t k = 0; k < call.cols; ++k) {
      const auto i = static_cast<std::ptrdiff_t>(k);
      const double gamma = call.gamma != nullptr ? read(call.params, call.gamma, i) : 1;
      const double beta = call.beta != nullptr ? read(call.params, call.beta, i) : 0;
      const Bits bits = ladder.settle({0, 0, 0, unknown, unknown}, read(format_of<T>(), x, i), call.gamma != nullptr ? &gamma : nullptr,
                                      call.beta != nullptr ? &beta : nullptr);
      write(format_of<T>(), bits, y, i);
    }
  }
}

#else

// Σd and Σd² with d = x − shift.
struct Sums {
  VD sum, squares;

  HWY_INLINE Sums() : sum(hn::Zero(D())), squares(hn::Zero(D())) {}
  HWY_INLINE void add(const Sums& other) {
    sum = hn::Add(sum, other.sum);
    squares = hn::Add(squares, other.squares);
  }
};

// How many elements a leaf of the summation tree has, in vectors, and how many of those one accumulator takes.
constexpr std::size_t run_vectors = 16;
constexpr std::size_t leaf_vectors = 4 * run_vectors;
constexpr std::size_t branch_leaves = 16;

// The most additions between an element and the finished sum: along an accumulator, over the four of them, over the leaves of a branch,
// up the tree of branches, over the lanes, and one for the tail.
inline double depth(std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  const double branches = static_cast<double>(n) / static_cast<double>(leaf_vectors * branch_leaves * lanes);
  return run_vectors + 2 + branch_leaves + 1 + std::ceil(std::log2(HWY_MAX(1.0, branches))) + 1 + std::log2(static_cast<double>(lanes));
}

template <bool kCentred, bool kShifted, class T>
HWY_INLINE void accumulate(const T* x, VD shift, Sums& to) {
  const VD v = load_doubles(x);
  const VD d = kShifted ? hn::Sub(v, shift) : v;
  if (kCentred) to.sum = hn::Add(to.sum, d);
  to.squares = hn::MulAdd(d, d, to.squares);
}

// Vectors [0, vectors), at most a branch.
template <bool kCentred, bool kShifted, class T>
HWY_INLINE Sums sums_of_branch(const T* x, std::size_t vectors, VD shift) {
  const std::size_t lanes = hn::Lanes(D());
  Sums total;
  std::size_t i = 0;
  while (i + 4 <= vectors) {
    const std::size_t end = HWY_MIN(vectors, i + leaf_vectors);
    Sums a, b, c, d;
    for (; i + 4 <= end; i += 4) {
      accumulate<kCentred, kShifted>(x + (i + 0) * lanes, shift, a);
      accumulate<kCentred, kShifted>(x + (i + 1) * lanes, shift, b);
      accumulate<kCentred, kShifted>(x + (i + 2) * lanes, shift, c);
      accumulate<kCentred, kShifted>(x + (i + 3) * lanes, shift, d);
    }
    a.add(b);
    c.add(d);
    a.add(c);
    total.add(a);
  }
  for (; i < vectors; ++i) accumulate<kCentred, kShifted>(x + i * lanes, shift, total);
  return total;
}

template <bool kCentred, bool kShifted, class T>
Sums sums_of_tree(const T* x, std::size_t vectors, VD shift) {
  if (vectors <= leaf_vectors * branch_leaves) return sums_of_branch<kCentred, kShifted>(x, vectors, shift);
  // Whole branches to the left, so that the tree is one of branches.
  std::size_t left = leaf_vectors * branch_leaves;
  while (left * 2 < vectors) left *= 2;
  Sums sums = sums_of_tree<kCentred, kShifted>(x, left, shift);
  sums.add(sums_of_tree<kCentred, kShifted>(x + left * hn::Lanes(D()), vectors - left, shift));
  return sums;
}

template <bool kCentred, bool kShifted, class T>
Sums sums_of_row(const T* x, std::size_t n, double shift) {
  const std::size_t lanes = hn::Lanes(D());
  const VD vshift = hn::Set(D(), shift);
  const std::size_t vectors = n / lanes;
  Sums sums = sums_of_tree<kCentred, kShifted>(x, vectors, vshift);
  if (const std::size_t rest = n - vectors * lanes; rest != 0) {
    T tail[HWY_MAX_BYTES / sizeof(double)] = {};
    std::memcpy(tail, x + vectors * lanes, rest * sizeof(T));
    const VD v = load_doubles(tail);
    const VD d = hn::IfThenElseZero(hn::FirstN(D(), rest), kShifted ? hn::Sub(v, vshift) : v);
    if (kCentred) sums.sum = hn::Add(sums.sum, d);
    sums.squares = hn::MulAdd(d, d, sums.squares);
  }
  return sums;
}

constexpr double u = 0x1p-53;

// What a row comes to: an estimate whose errors are bounded, or one of the cases that are not worth a vector.
enum class RowKind : std::uint8_t { regular, flat, hard, not_finite };
struct Row {
  Estimate estimate;
  RowKind kind = RowKind::regular;
};

// With q = S²/n and spread = Σd² − q = nσ², in units of u, c the depth of the sums:
//   Σd is off by (c+1)·Σ|d| <= (c+1)·√(n·Σd²), Σd² by (c+3)·Σd² (differences and products are rounded too);
//   q by 2(c+1)·√(q·Σd²) + 4q <= (c+1)(q + Σd²) + 4q, and so
//   the spread by (2c+6)·(Σd² + q), v = spread/n + ε by that over n plus 3v, rstd by half of it relative to v, plus 2.
// x̂ = (x − shift)·scale + offset adds 3 for its own roundings, and 3·|offset| absolute; the mean's error is (c+3)·√(Σd²/n)·rstd.
// Second orders are in the factor 1 + 2^-9, as the relative error is kept under 2^-12.
inline Row finish(const Rule& rule, std::size_t count, double c, double shift, double sum, double squares) {
  Row row;
  const double n = static_cast<double>(count);
  if (!(squares < std::numeric_limits<double>::infinity())) {
    row.kind = RowKind::not_finite;
    row.estimate.relative = row.estimate.absolute = std::numeric_limits<double>::infinity();
    return row;
  }
  const double mean = sum / n;
  const double q = sum * mean;
  const double spread = HWY_MAX(0.0, squares - q);
  const double v = spread / n + rule.call->epsilon;
  const double scale = 1 / std::sqrt(v);
  const double relative = ((c + 3) * (squares + q) / (n * v) + 8) * (u * (1 + 0x1p-9));
  row.estimate.shift = shift;
  row.estimate.scale = scale;
  row.estimate.offset = rule.centred() ? -mean * scale : 0;
  row.estimate.relative = relative;
  row.estimate.absolute =
      rule.centred() ? ((c + 3) * std::sqrt(squares / n) * scale + 4 * std::abs(row.estimate.offset)) * (u * (1 + 0x1p-9)) : 0;
  if (!(relative < 0x1p-30)) row.kind = RowKind::hard;
  return row;
}

template <class T>
bool all_equal(const T* x, std::size_t n) {
  const double first = read(format_of<T>(), x, 0);
  for (std::size_t i = 1; i < n; ++i) {
    if (read(format_of<T>(), x, static_cast<std::ptrdiff_t>(i)) != first) return false;
  }
  return true;
}

template <bool kCentred, class T>
Row measure(const Rule& rule, const T* x, std::size_t n, double c) {
  const Sums first = sums_of_row<kCentred, false>(x, n, 0.0);
  const double sum = hn::GetLane(hn::SumOfLanes(D(), first.sum));
  const double squares = hn::GetLane(hn::SumOfLanes(D(), first.squares));
  Row row = finish(rule, n, c, 0, sum, squares);
  if (HWY_LIKELY(row.kind == RowKind::regular && row.estimate.relative < 0x1p-40)) return row;
  if (row.kind == RowKind::not_finite) return row;
  if (squares == 0 || (kCentred && all_equal(x, n))) {
    row.kind = RowKind::flat;
    return row;
  }
  if (kCentred) {
    const double shift = sum / static_cast<double>(n);
    const Sums second = sums_of_row<kCentred, true>(x, n, shift);
    row = finish(rule, n, c, shift, hn::GetLane(hn::SumOfLanes(D(), second.sum)), hn::GetLane(hn::SumOfLanes(D(), second.squares)));
  }
  return row;
}

// How x̂ comes from x: x·scale, x·scale + offset, or (x − shift)·scale + offset.
enum class Centring : std::uint8_t { none, offset, shifted };

// Up to four rows at once, so that gain, bias and thresholds are made once for all of them. x and y may not overlap.
template <class T, class P>
class RowsApplier {
 public:
  static constexpr std::size_t max_rows = 4;

  RowsApplier(const Rule& rule, Counters& counters)
      : rule_(rule),
        counters_(counters),
        gamma_(static_cast<const P*>(rule.call->gamma)),
        beta_(static_cast<const P*>(rule.call->beta)),
        one_plus_(rule.call->profile.gain_offset && gamma_ != nullptr) {}

  template <Centring kCentring, std::size_t kRows>
  void apply(const T* const* x, T* const* y, const Row* rows, Ladder* ladders, std::size_t n) {
    const Thresholds limits(rows, kRows);
    Lines<kRows> lines(x, y, rows);
    const std::size_t block = hn::Lanes(F());
    std::size_t i = 0;
    while (i + block <= n) {
      // What fails the test is noted, and settled after a stretch of blocks: a call in the loop would empty the registers.
      Failures<kRows> failures;
      const std::size_t end = HWY_MIN(n - block, i + (stretch - 1) * block);
      for (; i <= end; i += block) {
        const Parameters p = parameters(gamma_ + i, beta_ + i, limits);
        HWY_UNROLL(4)
        for (std::size_t r = 0; r < kRows; ++r) {
          failures.note(i, r,
                        step<kCentring>(p, lines.scale[r], lines.offset[r], lines.shift[r], limits.test, lines.x[r] + i, lines.y[r] + i));
        }
      }
      for (std::size_t k = 0; k < failures.count; ++k) {
        const std::size_t r = failures.row[k];
        const std::size_t at = failures.column[k];
        settle(ladders[r], rows[r].estimate, x[r] + at, y[r] + at, at, failures.passed[k]);
      }
    }
    if (i == n) return;
    constexpr std::size_t most = HWY_MAX_BYTES / sizeof(float);
    T from[most] = {};
    T to[most];
    P gammas[most] = {};
    P betas[most] = {};
    const std::size_t rest = n - i;
    if (gamma_ != nullptr) std::memcpy(gammas, gamma_ + i, rest * sizeof(P));
    if (beta_ != nullptr) std::memcpy(betas, beta_ + i, rest * sizeof(P));
    const Parameters p = parameters(gammas, betas, limits);
    for (std::size_t r = 0; r < kRows; ++r) {
      std::memcpy(from, x[r] + i, rest * sizeof(T));
      const MF passes = step<kCentring>(p, lines.scale[r], lines.offset[r], lines.shift[r], limits.test, from, to);
      std::uint8_t passed[mask_bytes];
      hn::StoreMaskBits(F(), hn::Or(passes, hn::Not(hn::FirstN(F(), rest))), passed);
      settle(ladders[r], rows[r].estimate, from, to, i, passed);
      std::memcpy(y[r] + i, to, rest * sizeof(T));
    }
  }

  // A row of equal elements: x̂ is ±0, or NaN where ε = 0.
  void flat(const T* x, T* y, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) {
      const auto i = static_cast<std::ptrdiff_t>(k);
      const double zero = rule_.centred() ? 0.0 : read(format_of<T>(), x, i);
      double value = rule_.call->epsilon > 0 ? zero : std::numeric_limits<double>::quiet_NaN();
      if (gamma_ != nullptr) value *= (one_plus_ ? 1.0 : 0.0) + read(format_of<P>(), gamma_, i);
      if (beta_ != nullptr) value += read(format_of<P>(), beta_, i);
      write(format_of<T>(), round_double(value, format_of<T>()), y, i);
    }
  }

  // One by one: a row with an infinity or a NaN (mean NaN, or rstd zero), or one whose statistics are too uncertain.
  void one_by_one(Ladder& ladder, const Estimate& estimate, const T* x, T* y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) settle_one(ladder, estimate, x[i], i, y + i);
  }

 private:
  struct Thresholds {
    // |error of y| <= (relative + 6u)·(|y| + |β|) + absolute·|γ| + u·|y| (finish). The part relative to |y| is at most `relative/u` units
    // of its last place; the rest is at most `budget` units where |y| > a·|γ| + b·|β|. Where a double is rounded to a float before the
    // test, the units are those of a float: half a one for that rounding, and one for all the rest.
    HWY_INLINE Thresholds(const Row* rows, std::size_t count)
        : Thresholds(largest(rows, count, &Estimate::relative) + 8 * u, largest(rows, count, &Estimate::absolute)) {}
    HWY_INLINE Thresholds(double relative, double absolute)
        : test(wide ? static_cast<std::int32_t>(budget + relative / u) + 1 : 2),
          a(hn::Set(F(), static_cast<float>((absolute + 0x1p-100) / (budget * unit) * 1.001))),
          b(hn::Set(F(), static_cast<float>(relative / (budget * unit) * 1.001))),
          least(hn::Set(F(), RoundingTest<T>::least)) {}
    static HWY_INLINE double largest(const Row* rows, std::size_t count, double Estimate::*error) {
      double most = 0;
      for (std::size_t r = 0; r < count; ++r) most = HWY_MAX(most, rows[r].estimate.*error);
      return most;
    }

    static constexpr bool wide = std::is_same_v<T, float>;
    static constexpr double budget = wide ? 0x1p16 : 1;
    static constexpr double unit = wide ? u : 0x1p-24;
    RoundingTest<T> test;
    VF a, b, least;
  };

  static constexpr std::size_t stretch = 64;  // blocks
  static constexpr std::size_t mask_bytes = HWY_MAX(8, HWY_MAX_BYTES / sizeof(float) / 8);

  // The blocks of a stretch in which some element failed the test.
  template <std::size_t kRows>
  struct Failures {
    HWY_INLINE void note(std::size_t first, std::size_t r, MF passes) {
      column[count] = static_cast<std::uint32_t>(first);
      row[count] = static_cast<std::uint8_t>(r);
      hn::StoreMaskBits(F(), passes, passed[count]);
      count += hn::AllTrue(F(), passes) ? 0 : 1;
    }
    std::size_t count = 0;
    std::uint32_t column[stretch * kRows + 1];
    std::uint8_t row[stretch * kRows + 1];
    std::uint8_t passed[stretch * kRows + 1][mask_bytes];
  };

  // Rows in registers.
  template <std::size_t kRows>
  struct Lines {
    HWY_INLINE Lines(const T* const* from, T* const* to, const Row* rows) {
      for (std::size_t r = 0; r < kRows; ++r) {
        scale[r] = hn::Set(D(), rows[r].estimate.scale);
        offset[r] = hn::Set(D(), rows[r].estimate.offset);
        shift[r] = hn::Set(D(), rows[r].estimate.shift);
        x[r] = from[r];
        y[r] = to[r];
      }
    }
    VD scale[kRows], offset[kRows], shift[kRows];
    const T* x[kRows];
    T* y[kRows];
  };

  struct Parameters {
    VD g0, g1, b0, b1;
    VF threshold;
  };
  HWY_INLINE Parameters parameters(const P* gamma, const P* beta, const Thresholds& limits) const {
    const std::size_t half = hn::Lanes(D());
    const VD one = hn::Set(D(), 1.0);
    Parameters p{one, one, hn::Zero(D()), hn::Zero(D()), limits.least};
    VF gain = hn::Set(F(), 1.0F);
    if (gamma_ != nullptr) {
      p.g0 = load_doubles(gamma);
      p.g1 = load_doubles(gamma + half);
      gain = load_floats(gamma);
      if (one_plus_) {
        p.g0 = hn::Add(p.g0, one);
        p.g1 = hn::Add(p.g1, one);
        gain = hn::Add(hn::Abs(gain), hn::Set(F(), 1.0F));
      }
    }
    if (beta_ != nullptr) {
      p.b0 = load_doubles(beta);
      p.b1 = load_doubles(beta + half);
      p.threshold = hn::MulAdd(hn::Abs(load_floats(beta)), limits.b, p.threshold);
    }
    p.threshold = hn::MulAdd(hn::Abs(gain), limits.a, p.threshold);
    return p;
  }

  template <Centring kCentring>
  HWY_INLINE MF step(const Parameters p, VD scale, VD offset, VD shift, const RoundingTest<T> test, const T* HWY_RESTRICT x,
                     T* HWY_RESTRICT y) const {
    VD x0 = load_doubles(x);
    VD x1 = load_doubles(x + hn::Lanes(D()));
    if constexpr (kCentring == Centring::shifted) {
      x0 = hn::Sub(x0, shift);
      x1 = hn::Sub(x1, shift);
    }
    x0 = kCentring == Centring::none ? hn::Mul(x0, scale) : hn::MulAdd(x0, scale, offset);
    x1 = kCentring == Centring::none ? hn::Mul(x1, scale) : hn::MulAdd(x1, scale, offset);
    const VD y0 = beta_ != nullptr ? hn::MulAdd(x0, p.g0, p.b0) : hn::Mul(x0, p.g0);
    const VD y1 = beta_ != nullptr ? hn::MulAdd(x1, p.g1, p.b1) : hn::Mul(x1, p.g1);
    const VF value = to_floats(y0, y1);
    store_floats(value, y);
    return test.passes(y0, y1, value, p.threshold);
  }

  // Elements of a block at column `first` that failed the test.
  HWY_NOINLINE void settle(Ladder& ladder, const Estimate& estimate, const T* x, T* y, std::size_t first, const std::uint8_t* passed) {
    for (std::size_t k = 0; k < hn::Lanes(F()); ++k) {
      if ((passed[k / 8] >> (k % 8) & 1) == 0) settle_one(ladder, estimate, x[k], first + k, y + k);
    }
  }

  void settle_one(Ladder& ladder, const Estimate& estimate, const T& x, std::size_t column, T* y) {
    const auto i = static_cast<std::ptrdiff_t>(column);
    const double gamma = gamma_ != nullptr ? read(format_of<P>(), gamma_, i) : 1;
    const double beta = beta_ != nullptr ? read(format_of<P>(), beta_, i) : 0;
    write(format_of<T>(),
          ladder.settle(estimate, read(format_of<T>(), &x, 0), gamma_ != nullptr ? &gamma : nullptr, beta_ != nullptr ? &beta : nullptr), y,
          0);
  }

  const Rule& rule_;
  Counters& counters_;
  const P* gamma_;
  const P* beta_;
  bool one_plus_;
};

// The rows of a call, in batches.
template <bool kCentred, class T, class P>
void normalize_rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  const Call& call = *rule.call;
  const std::size_t n = call.cols;
  const double c = depth(n);
  RowsApplier<T, P> applier(rule, counters);
  constexpr std::size_t most = RowsApplier<T, P>::max_rows;
  for (std::size_t row = begin; row < end;) {
    const std::size_t count = HWY_MIN(most, end - row);
    const T* x[most];
    T* y[most];
    Row rows[most];
    bool regular = true;
    bool shifted = false;
    for (std::size_t r = 0; r < count; ++r) {
      const auto at = static_cast<std::ptrdiff_t>(row + r);
      x[r] = static_cast<const T*>(call.x) + at * call.x_stride;
      y[r] = static_cast<T*>(call.y) + at * call.y_stride;
      rows[r] = measure<kCentred>(rule, x[r], n, c);
      regular &= rows[r].kind == RowKind::regular;
      shifted |= rows[r].estimate.shift != 0;
    }
    const Elements elements{x[0], format_of<T>(), n};
    const auto of_row = [&](std::size_t r) {
      Elements e = elements;
      e.data = x[r];
      return e;
    };
    if (regular && count == most) {
      Ladder ladders[most] = {
          {rule, of_row(0), counters}, {rule, of_row(1), counters}, {rule, of_row(2), counters}, {rule, of_row(3), counters}};
      if (!kCentred)
        applier.template apply<Centring::none, most>(x, y, rows, ladders, n);
      else if (shifted)
        applier.template apply<Centring::shifted, most>(x, y, rows, ladders, n);
      else
        applier.template apply<Centring::offset, most>(x, y, rows, ladders, n);
    } else {
      for (std::size_t r = 0; r < count; ++r) {
        Ladder ladder(rule, of_row(r), counters);
        if (rows[r].kind == RowKind::flat)
          applier.flat(x[r], y[r], n);
        else if (rows[r].kind != RowKind::regular)
          applier.one_by_one(ladder, rows[r].estimate, x[r], y[r], n);
        else if (!kCentred)
          applier.template apply<Centring::none, 1>(x + r, y + r, rows + r, &ladder, n);
        else if (shifted)
          applier.template apply<Centring::shifted, 1>(x + r, y + r, rows + r, &ladder, n);
        else
          applier.template apply<Centring::offset, 1>(x + r, y + r, rows + r, &ladder, n);
      }
    }
    row += count;
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
