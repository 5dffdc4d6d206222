// batch_norm, group_norm and instance_norm: groups that are channels, or runs of them.
//
// In channels_first memory (NCHW) a group consists of contiguous runs, and gain and bias are constant along a channel. In channels_last
// memory (NHWC, and NC) a vector lies across groups: sums, estimates, gain and bias are kept per column, over rows of positions.

#if defined(NORMA_SIMD_CHANNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_CHANNELS_INL_H_
#undef NORMA_SIMD_CHANNELS_INL_H_
#else
#define NORMA_SIMD_CHANNELS_INL_H_
#endif

#include "doubles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// mean and variance of batch_norm_inference, and the estimate that they are.
inline void begin_given(const Rule& rule, std::size_t channel, Ladder& ladder, Counters& counters) {
  const Call& call = *rule.call;
  const auto i = static_cast<std::ptrdiff_t>(channel);
  const double mean = read(call.statistics, call.mean_in, i);
  const double variance = read(call.statistics, call.variance_in, i);
  ladder.begin(rule, mean, variance, counters);
  const double v = variance + call.epsilon;
  const double scale = 1 / std::sqrt(v);
  if (!(scale > 0 && scale < std::numeric_limits<double>::infinity() && std::abs(mean) < std::numeric_limits<double>::infinity())) return;
  ladder.estimate = {mean, scale, 0, 8 * u, 0, variance, 0};
}

// What a call gives per group beside y.
inline void give_statistics(const Rule& rule, Ladder& ladder, std::size_t group) {
  const Call& call = *rule.call;
  const auto i = static_cast<std::ptrdiff_t>(group);
  if (call.mean != nullptr) write(call.statistics, ladder.mean(), call.mean, i);
  if (call.rstd != nullptr) write(call.statistics, ladder.rstd(), call.rstd, i);
  if (call.running_mean != nullptr) {
    write(call.statistics, ladder.running_mean(read(call.statistics, call.running_mean, i)), call.running_mean, i);
  }
  if (call.running_variance != nullptr) {
    write(call.statistics, ladder.running_variance(read(call.statistics, call.running_variance, i)), call.running_variance, i);
  }
}

#if HWY_TARGET != HWY_SCALAR

// Whether y of these channels may go without a test under `fast`: where it cannot come near the end of the format. Under given statistics
// nothing bounds x̂, and halves are rounded twice without the test.
template <class T, class P>
bool untested(const Rule& rule, const Affine<T, P>& affine, std::size_t channel, std::size_t count) {
  if (!std::is_same_v<T, float> || info(rule.call->op).given_statistics) return false;
  return moderate(at_column(affine.gamma, channel), count, 0x1p100) && moderate(at_column(affine.beta, channel), count, 0x1p100);
}

// A sum of many terms, rows or runs, on levels of sixteen, so that its depth stays small.
struct Cascade {
  static constexpr std::size_t width = 16;
  static constexpr std::size_t levels = 4;
  static double depth(std::size_t terms) {
    double sum = 0;
    for (std::size_t level = 1; level < levels; ++level) {
      sum += static_cast<double>(HWY_MIN(width, terms)) + 1;
      terms = (terms + width - 1) / width;
    }
    return sum + static_cast<double>(terms);
  }
};

// One group of contiguous runs.
template <class T, class P>
class GroupOfRuns {
 public:
  GroupOfRuns(const Rule& rule, const Affine<T, P>& affine, const Elements& x, std::size_t channel, std::size_t channels, T* y,
              std::ptrdiff_t y_stride)
      : rule_(rule), affine_(affine), x_(x), channel_(channel), channels_(channels), y_(y), y_stride_(y_stride) {}

  // From the elements to the ladder's estimate.
  GroupKind measure(Ladder& ladder) const {
    Estimates<HWY_MAX_BYTES / sizeof(double)> e;
    for (std::size_t k = 1; k < hn::Lanes(D()); ++k) {
      e.sum[k] = 0;
      e.squares[k] = 1;
    }
    const auto n = static_cast<double>(x_.count());
    const double c = depth<InDoubles>(x_.run) + Cascade::depth(x_.runs);
    // Without a test of the rounding, what is flat has to come out flat: with its first element as shift all differences are zero.
    const bool shifted = rule_.call->accuracy == Accuracy::fast;
    e.shift[0] = shifted ? read(x_.format, x_.data, 0) : 0;
    if (shifted) {
      sums<true>(e.shift[0], e.sum[0], e.squares[0]);
    } else {
      sums<false>(0, e.sum[0], e.squares[0]);
    }
    finish(e, 1, true, n, rule_.call->epsilon, c);
    GroupKind kind = first_look(e.relative[0], e.squares[0], [&] { return all_equal(x_); });
    if (kind == GroupKind::remote) {
      e.shift[0] += e.sum[0] / n;
      sums<true>(e.shift[0], e.sum[0], e.squares[0]);
      finish(e, 1, true, n, rule_.call->epsilon, c);
      kind = second_look(e.relative[0]);
    }
    if (kind == GroupKind::regular) ladder.estimate = e.estimate(0);
    return kind;
  }

  void apply(Ladder& ladder, GroupKind kind) const {
    const bool test = rule_.call->accuracy == Accuracy::correctly_rounded;
    const bool given = info(rule_.spec.op).given_statistics;
    const std::size_t positions = x_.run / channels_;
    for (std::size_t k = 0; k < channels_; ++k) {
      const T* x = static_cast<const T*>(x_.data) + k * positions;
      T* y = y_ + k * positions;
      const std::size_t channel = channel_ + k;
      if (kind == GroupKind::regular) {
        if (!test && untested(rule_, affine_, channel, 1)) {
          apply_channel<Centring::shifted, false, true>(ladder, channel, x, y, positions);
        } else if (given) {
          apply_channel<Centring::shifted, true, true>(ladder, channel, x, y, positions);
        } else if (ladder.estimate.shift != 0) {
          apply_channel<Centring::shifted, true, false>(ladder, channel, x, y, positions);
        } else {
          apply_channel<Centring::offset, true, false>(ladder, channel, x, y, positions);
        }
        continue;
      }
      for (std::size_t i = 0; i < x_.runs; ++i, x += x_.stride, y += y_stride_) {
        for (std::size_t p = 0; p < positions; ++p) {
          if (kind == GroupKind::flat) {
            affine_.flat(rule_, x + p, channel, y + p);
          } else {
            affine_.settle(ladder, x + p, channel, y + p);
          }
        }
      }
    }
  }

 private:
  template <bool kShifted>
  void sums(double shift, double& sum, double& squares) const {
    Sums<InDoubles> levels[Cascade::levels];
    for (std::size_t i = 0; i < x_.runs; ++i) {
      const T* x = static_cast<const T*>(x_.data) + static_cast<std::ptrdiff_t>(i) * x_.stride;
      levels[0].add(sums_of<InDoubles, true, kShifted>(x, x_.run, hn::Set(D(), shift)));
      for (std::size_t level = 0, every = Cascade::width; level + 1 < Cascade::levels && (i + 1) % every == 0;
           ++level, every *= Cascade::width) {
        levels[level + 1].add(levels[level]);
        levels[level] = Sums<InDoubles>();
      }
    }
    for (std::size_t level = 1; level < Cascade::levels; ++level) levels[level].add(levels[level - 1]);
    sum = hn::GetLane(hn::SumOfLanes(D(), levels[Cascade::levels - 1].sum));
    squares = hn::GetLane(hn::SumOfLanes(D(), levels[Cascade::levels - 1].squares));
  }

  // The runs of a channel, of n elements each.
  template <Centring kCentring, bool kTest, bool kQuiet>
  void apply_channel(Ladder& ladder, std::size_t channel, const T* x, T* y, std::size_t n) const {
    constexpr std::size_t most = HWY_MAX_BYTES / sizeof(float);
    const Estimate& e = ladder.estimate;
    const Tolerance<T> limit(e.relative, e.absolute, affine_.beta != nullptr);
    P gammas[most] = {};
    P betas[most] = {};
    for (std::size_t k = 0; k < most; ++k) {
      if (affine_.gamma != nullptr) std::memcpy(gammas + k, affine_.gamma + channel, sizeof(P));  // of any alignment
      if (affine_.beta != nullptr) std::memcpy(betas + k, affine_.beta + channel, sizeof(P));
    }
    const Column p = column_of(affine_, gammas, betas, hn::Set(F(), limit.a), hn::Set(F(), limit.b));
    const Standard s = restyled(standard_of(e), p);
    const Errors errors = errors_of(p, e);
    const std::size_t block = hn::Lanes(F());
    const auto closer = [&](const T* from, T* to, std::size_t first, std::size_t count) HWY_ATTR {
      settle_others(F(), certain<kCentring>(standardize<kCentring>(from, s), errors, from), count, [&](std::size_t lane) {
        if (lane >= first) affine_.settle(ladder, from + lane, channel, to + lane);
      });
    };
    const auto step = static_cast<std::ptrdiff_t>(block);
    for (std::size_t run = 0; run < x_.runs; ++run, x += x_.stride, y += y_stride_) {
      std::size_t i = 0;
      while (i + block <= n) {
        std::uint8_t noted[stretch];
        const std::size_t count = HWY_MIN(stretch * shared, (n - i) / block);
        const std::size_t failures =
            apply_blocks<kCentring, kTest, kQuiet>(s, p.threshold, limit.units, x + i, step, y + i, step, count, block, noted);
        for (std::size_t k = 0; k < failures; ++k) {
          for (std::size_t at = noted[k]; at < HWY_MIN(count, noted[k] + shared); ++at)
            closer(x + i + at * block, y + i + at * block, 0, block);
        }
        i += count * block;
      }
      if (i == n) continue;
      // The rest as the end of the last whole block, or in a copy.
      const std::size_t rest = n - i;
      const std::size_t done = n < block ? 0 : block - rest;
      T copy[most] = {};
      T target[most];
      if (done == 0) std::memcpy(copy, x, n * sizeof(T));
      const T* source = done == 0 ? copy : x + i - done;
      RoundingTest<T> test(limit.units);
      put<kTest, kQuiet>(standardize<kCentring>(source, s), target, test);
      const MF asked = hn::AndNot(hn::FirstN(F(), done), hn::FirstN(F(), done + rest));
      if (kTest && !hn::AllFalse(F(), hn::AndNot(test.passes(p.threshold), asked))) closer(source, target, done, done + rest);
      std::memcpy(y + i, target + done, rest * sizeof(T));
    }
  }

  const Rule& rule_;
  const Affine<T, P>& affine_;
  Elements x_;
  std::size_t channel_, channels_;
  T* y_;
  std::ptrdiff_t y_stride_;
};

#endif  // HWY_TARGET != HWY_SCALAR

// Groups [begin, end) of a call in channels_first memory.
template <class T, class P>
bool normalize_runs(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  const Call& call = *rule.call;
  const bool given = info(call.op).given_statistics;
  const bool whole_batch = info(call.op).grouping == Grouping::channel;
  const std::size_t channels = channels_of_group(call);
  const std::size_t groups = call.channels / channels;
  const Affine<T, P> affine(rule);
  Elements e{nullptr, call.format, channels * call.positions, whole_batch ? call.cases : 1, call.x_stride};
  T* copy = nullptr;
  if (call.y == call.x) {
    copy = reinterpret_cast<T*>(scratch(e.count() * sizeof(T)));
    if (copy == nullptr) return false;
  }
  Ladder ladder;
  for (std::size_t g = begin; g < end; ++g) {
    const std::size_t first_channel = g % groups * channels;
    const auto row = static_cast<std::ptrdiff_t>(whole_batch ? 0 : g / groups);
    const auto offset = static_cast<std::ptrdiff_t>(first_channel * call.positions);
    Elements x = e;
    x.data = static_cast<const T*>(call.x) + row * call.x_stride + offset;
    T* y = static_cast<T*>(call.y) + row * call.y_stride + offset;
    if (copy != nullptr) {
      for (std::size_t i = 0; i < x.runs; ++i) {
        std::memcpy(copy + i * x.run, static_cast<const T*>(x.data) + static_cast<std::ptrdiff_t>(i) * x.stride, x.run * sizeof(T));
      }
      x.data = copy;
      x.stride = static_cast<std::ptrdiff_t>(x.run);
    }
    if (given) {
      begin_given(rule, first_channel, ladder, counters);
    } else {
      ladder.begin(rule, x, counters);
    }
    if constexpr (std::is_same_v<T, double>) {
      normalize_doubles(rule, affine, ladder, x, y, call.y_stride, first_channel, channels, 0);
    } else {
#if HWY_TARGET != HWY_SCALAR
      const GroupOfRuns<T, P> group(rule, affine, x, first_channel, channels, y, call.y_stride);
      const GroupKind kind = !given ? group.measure(ladder) : ladder.estimate.scale > 0 ? GroupKind::regular : GroupKind::hard;
      group.apply(ladder, kind);
#else
      for (std::size_t i = 0; i < x.runs; ++i) {
        for (std::size_t j = 0; j < x.run; ++j) {
          const T* from = static_cast<const T*>(x.data) + static_cast<std::ptrdiff_t>(i) * x.stride + static_cast<std::ptrdiff_t>(j);
          T* to = y + static_cast<std::ptrdiff_t>(i) * call.y_stride + static_cast<std::ptrdiff_t>(j);
          affine.settle(ladder, from, first_channel + j / call.positions, to);
        }
      }
#endif
    }
    give_statistics(rule, ladder, g);
  }
  return true;
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
