// Groups that lie across a vector: channels_last memory.

#if defined(NORMA_SIMD_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_COLUMNS_INL_H_
#undef NORMA_SIMD_COLUMNS_INL_H_
#else
#define NORMA_SIMD_COLUMNS_INL_H_
#endif

#include "channels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

// Columns [first, first + width) of some lines of x, a slice of them at a time.
template <class T, class P>
class Slice {
 public:
  static constexpr std::size_t most = slice_columns;
  static constexpr std::size_t padded = most + HWY_MAX_BYTES / sizeof(float);

  Slice(const Affine<T, P>& affine, const T* x, std::ptrdiff_t x_stride, T* y, std::ptrdiff_t y_stride, std::size_t first,
        std::size_t width, std::size_t lines)
      : affine_(affine), x_(x), x_stride_(x_stride), y_(y), y_stride_(y_stride), first_(first), width_(width), lines_(lines) {}

  // Σd and Σd² of each column, d = x − shift.
  void sums(const double* shift, double* sum, double* squares) const {
    alignas(64) double parts[Cascade::levels - 1][2][padded];
    for (auto& level : parts) {
      for (double(&part)[padded] : level) std::memset(part, 0, whole(width_) * sizeof(double));
    }
    for (std::size_t line = 0, tile = 1; line < lines_; line += Cascade::width, ++tile) {
      const std::size_t end = HWY_MIN(lines_, line + Cascade::width);
      for (std::size_t c = 0; c < width_; c += hn::Lanes(F())) add_tile(line, end, c, shift, parts[0][0] + c, parts[0][1] + c);
      for (std::size_t level = 1, every = Cascade::width; level + 1 < Cascade::levels; ++level, every *= Cascade::width) {
        if (tile % every != 0 && end != lines_) break;
        for (std::size_t k = 0; k < 2; ++k) {
          for (std::size_t c = 0; c < width_; ++c) parts[level][k][c] += parts[level - 1][k][c];
          std::memset(parts[level - 1][k], 0, whole(width_) * sizeof(double));
        }
      }
    }
    const auto& totals = parts[Cascade::levels - 2];
    std::memcpy(sum, totals[0], width_ * sizeof(double));
    std::memcpy(squares, totals[1], width_ * sizeof(double));
  }

  // What is the same for all lines, column by column, of whole blocks; beyond the width whatever does no harm.
  struct Constants {
    alignas(64) double shift[padded];
    alignas(64) double scale[padded];
    alignas(64) double offset[padded];
    alignas(64) double relative[padded];
    alignas(64) double absolute[padded];
  };
  static std::size_t whole(std::size_t width) { return (width + hn::Lanes(F()) - 1) / hn::Lanes(F()) * hn::Lanes(F()); }

  // settle(column, x, y) for all of a column.
  template <class Settle>
  void settle_column(std::size_t column, const Settle& settle) const {
    for (std::size_t l = 0; l < lines_; ++l) {
      const auto line = static_cast<std::ptrdiff_t>(l);
      settle(column, x_ + line * x_stride_ + column, y_ + line * y_stride_ + column);
    }
  }

  // The same for each element that the test leaves open.
  template <Centring kCentring, bool kTest, bool kQuiet, class Settle>
  void apply(const Constants& constants, const Tolerance<T>& limit, const Settle& settle) const {
    constexpr std::size_t tile = 64;  // lines
    const VF a = hn::Set(F(), limit.a), b = hn::Set(F(), limit.b);
    const std::size_t block = hn::Lanes(F());
    for (std::size_t start = 0; start < lines_; start += tile) {
      const std::size_t count = HWY_MIN(tile, lines_ - start);
      for (std::size_t c = 0; c < width_; c += block) {
        const std::size_t valid = HWY_MIN(block, width_ - c);
        const Column p = column_of_slice(c, valid, a, b);
        const Standard s = restyled({block_of(constants.shift + c), block_of(constants.scale + c), block_of(constants.offset + c)}, p);
        const T* x = x_ + static_cast<std::ptrdiff_t>(start) * x_stride_ + c;
        T* y = y_ + static_cast<std::ptrdiff_t>(start) * y_stride_ + c;
        std::uint8_t noted[tile / shared];
        std::size_t failures = 0;
        if (HWY_LIKELY(valid == block)) {
          failures = apply_blocks<kCentring, kTest, kQuiet>(s, p.threshold, limit.units, x, x_stride_, y, y_stride_, count, valid, noted);
        } else {
          T source[tile * HWY_MAX_BYTES / sizeof(float)];
          T target[tile * HWY_MAX_BYTES / sizeof(float)];
          const auto step = static_cast<std::ptrdiff_t>(block);
          std::memset(source, 0, count * block * sizeof(T));
          for (std::size_t l = 0; l < count; ++l) {
            std::memcpy(source + l * block, x + static_cast<std::ptrdiff_t>(l) * x_stride_, valid * sizeof(T));
          }
          failures = apply_blocks<kCentring, kTest, kQuiet>(s, p.threshold, limit.units, source, step, target, step, count, valid, noted);
          for (std::size_t l = 0; l < count; ++l) {
            std::memcpy(y + static_cast<std::ptrdiff_t>(l) * y_stride_, target + l * block, valid * sizeof(T));
          }
        }
        for (std::size_t k = 0; k < failures; ++k) {
          const Errors errors = errors_of(p, block_of(constants.relative + c), block_of(constants.absolute + c));
          for (std::size_t l = noted[k]; l < HWY_MIN(count, noted[k] + shared); ++l) {
            T* to = y + static_cast<std::ptrdiff_t>(l) * y_stride_;
            T source[HWY_MAX_BYTES / sizeof(float)] = {};
            std::memcpy(source, x + static_cast<std::ptrdiff_t>(l) * x_stride_, valid * sizeof(T));
            settle_others(F(), certain<kCentring>(standardize<kCentring>(source, s), errors, source), valid,
                          [&](std::size_t lane) { settle(c + lane, source + lane, to + lane); });
          }
        }
      }
    }
  }

 private:
  static HWY_INLINE Block block_of(const double* from) { return {hn::LoadU(D(), from), hn::LoadU(D(), from + hn::Lanes(D()))}; }

  [[nodiscard]] Column column_of_slice(std::size_t c, std::size_t valid, VF a, VF b) const {
    P gammas[HWY_MAX_BYTES / sizeof(float)] = {};
    P betas[HWY_MAX_BYTES / sizeof(float)] = {};
    if (affine_.gamma != nullptr) std::memcpy(gammas, affine_.gamma + first_ + c, valid * sizeof(P));
    if (affine_.beta != nullptr) std::memcpy(betas, affine_.beta + first_ + c, valid * sizeof(P));
    return column_of(affine_, gammas, betas, a, b);
  }

  HWY_NOINLINE void add_tile(std::size_t line, std::size_t end, std::size_t c, const double* shift, double* sum, double* squares) const {
    const std::size_t half = hn::Lanes(D());
    const std::size_t valid = HWY_MIN(2 * half, width_ - c);
    const Block s = block_of(shift + c);
    Sums<InDoubles> low, high;
    const auto add = [&](const T* from) HWY_ATTR {
      const VD d0 = hn::Sub(load_doubles(from), s.low);
      const VD d1 = hn::Sub(load_doubles(from + half), s.high);
      low.sum = hn::Add(low.sum, d0);
      high.sum = hn::Add(high.sum, d1);
      low.squares = hn::MulAdd(d0, d0, low.squares);
      high.squares = hn::MulAdd(d1, d1, high.squares);
    };
    for (; line < end; ++line) {
      const T* from = x_ + static_cast<std::ptrdiff_t>(line) * x_stride_ + c;
      if (HWY_LIKELY(valid == 2 * half)) {
        add(from);
      } else {
        T source[HWY_MAX_BYTES / sizeof(float)] = {};
        std::memcpy(source, from, valid * sizeof(T));
        add(source);
      }
    }
    const auto accumulate = [&](VD v, double* to) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(D(), to), v), D(), to); };
    accumulate(low.sum, sum);
    accumulate(high.sum, sum + half);
    accumulate(low.squares, squares);
    accumulate(high.squares, squares + half);
  }

  const Affine<T, P>& affine_;
  const T* x_;
  std::ptrdiff_t x_stride_;
  T* y_;
  std::ptrdiff_t y_stride_;
  std::size_t first_, width_, lines_;
};

// Some groups of adjacent channels over the same lines. Their columns are more than a slice only if that is one group.
template <class T, class P>
class GroupsOfColumns {
 public:
  static constexpr std::size_t most = slice_columns;

  GroupsOfColumns(const Rule& rule, const Affine<T, P>& affine, Ladder* ladders, const T* x, std::ptrdiff_t x_stride, T* y,
                  std::size_t first_channel, std::size_t groups, std::size_t lines)
      : rule_(rule),
        affine_(affine),
        ladders_(ladders),
        x_(x),
        x_stride_(x_stride),
        y_(y),
        first_(first_channel),
        groups_(groups),
        channels_(channels_of_group(*rule.call)),
        lines_(lines) {}

  void measure() {
    const double n = static_cast<double>(lines_) * static_cast<double>(channels_);
    const double c = Cascade::depth(lines_) + static_cast<double>(channels_);
    std::memset(e_.shift, 0, sizeof e_.shift);
    if (rule_.call->accuracy == Accuracy::fast) {  // as in GroupOfRuns
      for (std::size_t g = 0; g < groups_; ++g) e_.shift[g] = read(format_of<T>(), x_, static_cast<std::ptrdiff_t>(g * channels_));
    }
    sums();
    finish(e_, groups_, true, n, rule_.call->epsilon, c);
    bool again = false;
    for (std::size_t g = 0; g < groups_; ++g) {
      e_.kind[g] = first_look(e_.relative[g], e_.squares[g], [&] { return all_equal(ladders_[g].elements()); });
      if (HWY_LIKELY(e_.kind[g] != GroupKind::remote)) continue;
      e_.shift[g] += e_.sum[g] / n;
      again = true;
    }
    if (again) {
      sums();
      finish(e_, groups_, true, n, rule_.call->epsilon, c);
    }
    for (std::size_t g = 0; g < groups_; ++g) {
      if (e_.kind[g] == GroupKind::remote) e_.kind[g] = second_look(e_.relative[g]);
      if (e_.kind[g] == GroupKind::regular) ladders_[g].estimate = e_.estimate(g);
    }
  }

  void apply() const {
    double relative = 0;
    double absolute = 0;
    for (std::size_t g = 0; g < groups_; ++g) {
      const Estimate& e = ladders_[g].estimate;
      if (!known(e)) continue;
      relative = HWY_MAX(relative, e.relative);
      absolute = HWY_MAX(absolute, e.absolute);
    }
    const Tolerance<T> limit(relative, absolute, affine_.beta != nullptr);
    const std::size_t columns = groups_ * channels_;
    for (std::size_t c = 0; c < columns; c += most) {
      const std::size_t width = HWY_MIN(most, columns - c);
      typename Slice<T, P>::Constants k;
      for (std::size_t i = 0; i < (Slice<T, P>::whole(width)); ++i) {
        const Estimate& e = ladders_[(c + HWY_MIN(i, width - 1)) / channels_].estimate;
        k.shift[i] = e.shift;
        // Not a number where nothing is known: then no element passes the test.
        k.scale[i] = known(e) ? e.scale : std::numeric_limits<double>::quiet_NaN();
        k.offset[i] = e.offset;
        k.relative[i] = e.relative;
        k.absolute[i] = e.absolute;
      }
      const auto settle = [&](std::size_t column, const T* x, T* y) {
        const std::size_t g = (c + column) / channels_;
        const std::size_t channel = first_ + c + column;
        if (e_.kind[g] == GroupKind::flat) {
          affine_.flat(rule_, x, channel, y);
        } else {
          affine_.settle(ladders_[g], x, channel, y);
        }
      };
      const Slice<T, P> slice = slice_at(c, width);
      bool shifted = false;
      for (std::size_t g = 0; g < groups_; ++g) shifted |= ladders_[g].estimate.shift != 0;
      const auto plain = [&](std::size_t i, std::size_t count) {
        bool all = untested(rule_, affine_, first_ + c + i, count);
        for (std::size_t k = i; k < i + count; ++k) all &= known(ladders_[(c + k) / channels_].estimate);
        return all;
      };
      if (std::is_same_v<T, float> && rule_.call->accuracy == Accuracy::fast && !info(rule_.spec.op).given_statistics) {
        slice.template apply<Centring::shifted, false, true>(k, limit, settle);
        // Column by column, so that which are slices together makes no difference.
        for (std::size_t i = plain(0, width) ? width : 0; i < width; ++i) {
          if (!plain(i, 1)) slice.settle_column(i, settle);
        }
      } else if (info(rule_.spec.op).given_statistics) {
        slice.template apply<Centring::shifted, true, true>(k, limit, settle);
      } else if (shifted) {
        slice.template apply<Centring::shifted, true, false>(k, limit, settle);
      } else {
        slice.template apply<Centring::offset, true, false>(k, limit, settle);
      }
    }
  }

  GroupKind& kind(std::size_t g) { return e_.kind[g]; }

 private:
  static bool known(const Estimate& e) { return e.relative < std::numeric_limits<double>::infinity(); }

  [[nodiscard]] Slice<T, P> slice_at(std::size_t c, std::size_t width) const {
    return {affine_, x_ + c, x_stride_, y_ + c, rule_.call->y_stride, first_ + c, width, lines_};
  }

  void sums() {
    for (std::size_t g = 0; g < HWY_MIN(most, groups_ + hn::Lanes(D())); ++g) {
      e_.sum[g] = 0;
      e_.squares[g] = g < groups_ ? 0 : 1;
    }
    const std::size_t columns = groups_ * channels_;
    for (std::size_t c = 0; c < columns; c += most) {
      const std::size_t width = HWY_MIN(most, columns - c);
      double shift[Slice<T, P>::padded];
      double sum[most];
      double squares[most];
      for (std::size_t i = 0; i < (Slice<T, P>::whole(width)); ++i) shift[i] = e_.shift[(c + HWY_MIN(i, width - 1)) / channels_];
      slice_at(c, width).sums(shift, sum, squares);
      for (std::size_t i = 0; i < width; ++i) {
        e_.sum[(c + i) / channels_] += sum[i];
        e_.squares[(c + i) / channels_] += squares[i];
      }
    }
  }

  const Rule& rule_;
  const Affine<T, P>& affine_;
  Ladder* ladders_;
  const T* x_;
  std::ptrdiff_t x_stride_;
  T* y_;
  std::size_t first_, groups_, channels_, lines_;
  Estimates<most> e_;
};

#endif  // HWY_TARGET != HWY_SCALAR

// Units [begin, end) of a call in channels_last memory: of each case, or of the batch, some adjacent groups.
template <class T, class P>
bool normalize_columns(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  const Call& call = *rule.call;
  const bool given = info(call.op).given_statistics;
  const bool whole_batch = info(call.op).grouping == Grouping::channel;
  const std::size_t channels = channels_of_group(call);
  const std::size_t groups = call.channels / channels;
  const std::size_t together = rule.together;
  const std::size_t units_of_case = (groups + together - 1) / together;
  const std::size_t lines = whole_batch ? call.cases * call.positions : call.positions;
  const Affine<T, P> affine(rule);
  T* copy = nullptr;
  if (call.y == call.x) {
    copy = reinterpret_cast<T*>(scratch(lines * HWY_MIN(together, groups) * channels * sizeof(T)));
    if (copy == nullptr) return false;
  }
  Ladders<slice_columns> of_unit(HWY_MIN(together, groups));
  Ladder* ladders = of_unit.data();
  for (std::size_t unit = begin; unit < end; ++unit) {
    const std::size_t of_case = unit / units_of_case;
    const std::size_t first_group = unit % units_of_case * together;
    const std::size_t count = HWY_MIN(together, groups - first_group);
    const std::size_t first_channel = first_group * channels;
    const std::size_t width = count * channels;
    const auto line = static_cast<std::ptrdiff_t>(of_case * lines);
    const T* x = static_cast<const T*>(call.x) + line * call.x_stride + first_channel;
    T* y = static_cast<T*>(call.y) + line * call.y_stride + first_channel;
    std::ptrdiff_t x_stride = call.x_stride;
    if (copy != nullptr) {
      for (std::size_t i = 0; i < lines; ++i)
        std::memcpy(copy + i * width, x + static_cast<std::ptrdiff_t>(i) * x_stride, width * sizeof(T));
      x = copy;
      x_stride = static_cast<std::ptrdiff_t>(width);
    }
    for (std::size_t g = 0; g < count; ++g) {
      if (given) {
        begin_given(rule, first_channel + g, ladders[g], counters);
      } else {
        ladders[g].begin(rule, {x + g * channels, call.format, channels, lines, x_stride}, counters);
      }
    }
    if constexpr (std::is_same_v<T, double>) {
      normalize_double_columns(rule, affine, ladders, channels, x, x_stride, y, call.y_stride, first_channel, width, lines);
    } else {
#if HWY_TARGET != HWY_SCALAR
      GroupsOfColumns<T, P> columns(rule, affine, ladders, x, x_stride, y, first_channel, count, lines);
      if (given) {
        for (std::size_t g = 0; g < count; ++g) columns.kind(g) = GroupKind::regular;
      } else {
        columns.measure();
      }
      columns.apply();
#else
      for (std::size_t i = 0; i < lines; ++i) {
        const auto at = static_cast<std::ptrdiff_t>(i);
        for (std::size_t c = 0; c < width; ++c) {
          affine.settle(ladders[c / channels], x + at * x_stride + c, first_channel + c, y + at * call.y_stride + c);
        }
      }
#endif
    }
    for (std::size_t g = 0; g < count; ++g) give_statistics(rule, ladders[g], (whole_batch ? 0 : of_case * groups) + first_group + g);
  }
  return true;
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
