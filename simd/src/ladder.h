// The rungs of the ladder below the vectors: an element whose first estimate lies too near a rounding boundary is looked at again with a
// tighter bound, then in double-double arithmetic, and what even that leaves open is decided with integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "norma/group.h"
#include "norma/simd.h"

namespace norma::simd {

// hi + lo, |lo| <= ulp(hi)/2.
struct DoubleDouble {
  double hi = 0;
  double lo = 0;
};

// The elements of a group, wherever they lie: `runs` runs of `run` elements each, `stride` elements from one run to the next.
struct Elements {
  const void* data = nullptr;
  Format format = Format::f32;
  std::size_t run = 0;
  std::size_t runs = 1;
  std::ptrdiff_t stride = 0;

  [[nodiscard]] std::size_t count() const { return run * runs; }
};

// With d = x − shift over a group: Σd and Σd², and bounds on their errors.
struct WideMoments {
  double shift = 0;
  DoubleDouble sum, squares;
  double sum_error = 0, squares_error = 0;
};
// Of finite elements of moderate size: no square overflows and none that counts underflows. Otherwise the errors are not finite.
using WideMomentsFunction = WideMoments (*)(const Elements& elements, double shift);

// What all groups of a call share.
struct Rule {
  const Call* call = nullptr;
  Spec spec;
  WideMomentsFunction moments = nullptr;
  std::size_t together = 1;  // groups to a unit of columns
  bool stream = false;       // y is so large that it had better not displace x from the caches, and every row of it is aligned

  [[nodiscard]] bool centred() const { return info(spec.op).centred; }
};

// What the first rung knows of a group:  x̂ = (x − shift)·scale + offset  up to  relative·|x̂| + absolute. At first it knows nothing.
struct Estimate {
  double shift = 0, scale = 0, offset = 0;
  double relative = std::numeric_limits<double>::infinity(), absolute = std::numeric_limits<double>::infinity();
  double variance = 0, variance_error = std::numeric_limits<double>::infinity();
};

// The statistics in double-double; errors that are not finite say that they are of no use.
struct WideStatistics {
  double shift = 0;
  DoubleDouble mean;  // of x − shift
  DoubleDouble rstd;
  DoubleDouble variance;      // without epsilon
  double mean_error = 0;      // absolute
  double rstd_error = 0;      // relative
  double variance_error = 0;  // absolute
};

// A group's lower rungs. Statistics in double-double and in integers are made when first asked for.
class Ladder {
 public:
  Estimate estimate;

  void begin(const Rule& rule, const Elements& elements, Counters& counters) {
    estimate = {};
    rule_ = &rule;
    elements_ = elements;
    counters_ = &counters;
    given_.reset();
    wide_.reset();
    exact_.reset();
  }
  // The same for given statistics.
  void begin(const Rule& rule, double mean, double variance, Counters& counters);
  [[nodiscard]] const Elements& elements() const { return elements_; }

  // y for an element x; a null gamma or beta is none.
  [[nodiscard]] Bits settle(double x, const double* gamma, const double* beta);
  [[nodiscard]] Bits mean();
  [[nodiscard]] Bits rstd();
  [[nodiscard]] const WideStatistics& wide();
  // From the old value of a running statistic to the new one; of an empty group the old one.
  [[nodiscard]] Bits running_mean(double old);
  [[nodiscard]] Bits running_variance(double old);

 private:
  // The mean, and the variance the profile wants, as far as the estimate or the wide sums know them.
  struct Known {
    DoubleDouble value;
    double error = 0;
  };
  [[nodiscard]] Known estimated_mean() const;
  [[nodiscard]] Known wide_mean();
  [[nodiscard]] std::optional<Bits> updated(double old, Known statistic) const;
  [[nodiscard]] const Group& exact();
  [[nodiscard]] std::optional<Bits> settle_wide(double x, const double* gamma, const double* beta);
  [[nodiscard]] Bits settle_exactly(double x, const double* gamma, const double* beta);

  const Rule* rule_ = nullptr;
  Elements elements_;
  Counters* counters_ = nullptr;
  std::optional<std::pair<double, double>> given_;  // mean and variance
  std::optional<WideStatistics> wide_;
  std::unique_ptr<Group> exact_;  // what few groups need
};

// Room for N ladders, of which the first few exist.
template <std::size_t N>
class Ladders {
 public:
  explicit Ladders(std::size_t count) : count_(count) { std::uninitialized_default_construct_n(data(), count_); }
  ~Ladders() { std::destroy_n(data(), count_); }
  Ladders(const Ladders&) = delete;
  Ladders& operator=(const Ladders&) = delete;
  [[nodiscard]] Ladder* data() { return reinterpret_cast<Ladder*>(room_); }

 private:
  std::size_t count_;
  alignas(Ladder) std::byte room_[N * sizeof(Ladder)];
};

// `value` rounded to `format`, to nearest even; a NaN becomes the canonical one.
[[nodiscard]] Bits round_double(double value, Format format);
// The bits on which all of [value − error, value + error] agree, if they do; never those of a zero, whose sign is another matter.
[[nodiscard]] std::optional<Bits> round_within(DoubleDouble value, double error, Format format);

[[nodiscard]] double read(Format format, const void* from, std::ptrdiff_t index);
void write(Format format, Bits bits, void* to, std::ptrdiff_t index);

}  // namespace norma::simd
