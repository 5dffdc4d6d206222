#include "ladder.h"

#include <bit>
#include <cmath>

#include "double_double.h"

namespace norma::simd {
namespace {

Digits digits_of(double value) {
  const Decoded v = decode(Format::f64, std::bit_cast<Bits>(value));
  if (v.significand == 0) return {v.negative};
  const int shift = std::countl_zero(v.significand);
  return {v.negative, v.significand << shift, v.exponent - shift, false};
}

// hi + lo, for finite hi ≠ 0 and |lo| <= ulp(hi).
Digits digits_of(double hi, double lo) {
  Digits d = digits_of(hi);
  const double units = std::ldexp(std::signbit(hi) ? -lo : lo, -d.exponent);  // exact: |units| <= 2^11, or it underflows to a sticky bit
  // What is too small for an exponent is a step down where it is negative; a zero is none, whatever its sign.
  const bool vanished = lo != 0 && units == 0;
  const double whole = vanished && std::signbit(units) ? -1 : std::floor(units);
  d.sticky = whole != units || vanished;
  const auto step = static_cast<std::int64_t>(whole);
  const std::uint64_t moved = d.significand + static_cast<std::uint64_t>(step);
  if (step >= 0 && moved < d.significand) {
    d.sticky |= (moved & 1) != 0;
    d.significand = moved >> 1 | std::uint64_t{1} << 63;
    ++d.exponent;
  } else if (std::bit_width(moved) < 64) {  // below a power of two the digits are twice as fine
    const double finer = vanished ? whole : std::floor(units * 2);
    d.significand = (d.significand << 1) + static_cast<std::uint64_t>(static_cast<std::int64_t>(finer));
    d.sticky = finer != units * 2 || vanished;
    --d.exponent;
  } else {
    d.significand = moved;
  }
  return d;
}

// Neither so large that a product with its like overflows, nor so small that the error of one underflows.
bool moderate(double value) { return std::abs(value) > 0x1p-450 && std::abs(value) < 0x1p450; }

}  // namespace

Bits round_double(double value, Format format) {
  const FormatInfo& f = info(format);
  if (std::isnan(value)) return f.quiet_nan();
  if (std::isinf(value)) return f.overflow() | (std::signbit(value) ? f.sign_bit() : 0);
  return round(digits_of(value), format).bits;
}

std::optional<Bits> round_within(DoubleDouble value, double error, Format format) {
  const double magnitude = std::abs(value.hi);
  // NaN compares false.
  if (!(magnitude < 0x1p1000 && magnitude > 0x1p-900 && error < magnitude)) return std::nullopt;
  const bool tight = error < magnitude * u * 0.25;
  const double slack = error * (1 + 0x1p-10) + 4 * u * magnitude;
  const Bits below = tight ? round(digits_of(value.hi, value.lo - error), format).bits : round_double(value.hi - slack, format);
  const Bits above = tight ? round(digits_of(value.hi, value.lo + error), format).bits : round_double(value.hi + slack, format);
  if (below != above) return std::nullopt;
  return below;
}

double read(Format format, const void* from, std::ptrdiff_t index) {
  const auto* at = static_cast<const std::byte*>(from) + index * info(format).bytes();
  if (format == Format::f64) return std::bit_cast<double>(load(format, at));
  if (format == Format::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(load(format, at)));
  if (format == Format::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(load(format, at)) << 16);
  const Decoded v = decode(format, load(format, at));
  const double sign = v.negative ? -1.0 : 1.0;
  if (v.kind == Kind::nan) return std::numeric_limits<double>::quiet_NaN();
  if (v.kind == Kind::infinite) return sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(static_cast<double>(v.significand), v.exponent);
}

void write(Format format, Bits bits, void* to, std::ptrdiff_t index) {
  store(format, bits, static_cast<std::byte*>(to) + index * info(format).bytes());
}

const WideStatistics& Ladder::wide() {
  if (wide_) return *wide_;
  WideStatistics& w = wide_.emplace();
  if (given_) {
    w.shift = given_->first;
    const DoubleDouble v = two_sum(given_->second, rule_->call->epsilon);
    w.rstd = reciprocal_root(v);
    w.rstd_error = moderate(v.hi) ? 64 * u * u : std::numeric_limits<double>::infinity();
    return w;
  }
  const bool centred = rule_->centred();
  const auto n = static_cast<double>(elements_.count());
  WideMoments m = rule_->moments(elements_, 0);
  if (centred && !(m.squares.hi < 0x1p20 * (m.squares.hi - m.sum.hi * m.sum.hi / n))) m = rule_->moments(elements_, m.sum.hi / n);
  w.shift = m.shift;
  DoubleDouble spread = m.squares;
  double spread_error = m.squares_error;
  if (centred) {
    w.mean = m.sum / n;
    w.mean_error = m.sum_error / n + 4 * u * u * std::abs(w.mean.hi);
    // S²/n = S·mean: errors |S|·δmean + |mean|·δS and rounding; then one subtraction.
    const DoubleDouble square = m.sum * w.mean;
    spread = spread - square;
    spread_error += 2 * std::abs(m.sum.hi) * w.mean_error + 16 * u * u * (std::abs(square.hi) + m.squares.hi);
  }
  w.variance = spread / n;
  w.variance_error = spread_error / n + 8 * u * u * w.variance.hi;
  const DoubleDouble v = w.variance + rule_->call->epsilon;
  w.rstd = reciprocal_root(v);
  const double v_error = (spread_error / n + 8 * u * u * (v.hi + spread.hi / n)) / v.hi;
  w.rstd_error = v_error < 0x1p-30 && moderate(v.hi) ? v_error + 64 * u * u : std::numeric_limits<double>::infinity();
  return w;
}

const Group& Ladder::exact() {
  if (exact_ != nullptr) return *exact_;
  if (given_) return *(exact_ = std::make_unique<Group>(rule_->spec, from_double(given_->first), from_double(given_->second)));
  Moments moments(info(rule_->spec.op), Mode::nearest_even);
  const auto* data = static_cast<const std::byte*>(elements_.data);
  const int bytes = info(elements_.format).bytes();
  for (std::size_t i = 0; i < elements_.runs; ++i) {
    const std::byte* at = data + static_cast<std::ptrdiff_t>(i) * elements_.stride * bytes;
    for (std::size_t j = 0; j < elements_.run; ++j, at += bytes) {
      moments.add(Dyadic(decode(elements_.format, load(elements_.format, at))));
    }
  }
  return *(exact_ = std::make_unique<Group>(rule_->spec, static_cast<std::int64_t>(elements_.count()), std::move(moments)));
}

void Ladder::begin(const Rule& rule, double mean, double variance, Counters& counters) {
  begin(rule, Elements{}, counters);
  given_.emplace(mean, variance);
}

Bits Ladder::settle(double x, const double* gamma, const double* beta) {
  const Format format = rule_->call->format;
  const double gain = gamma == nullptr ? 1.0 : rule_->call->profile.gain_offset ? 1.0 + *gamma : *gamma;
  const double xhat =
      rule_->centred() ? (x - estimate.shift) * estimate.scale + estimate.offset : x * estimate.scale;  // keeps the sign of a zero
  const double xhat_error = std::abs(xhat) * (estimate.relative + 4 * u) + estimate.absolute;
  const double product = xhat * gain;
  const double y = beta != nullptr ? product + *beta : product;
  const double error = std::abs(gain) * (xhat_error + 4 * u * std::abs(xhat)) + 4 * u * std::abs(y);
  if (error < std::numeric_limits<double>::infinity()) {
    // A product that is exactly zero, of known sign, leaves beta alone: sparse inputs of rms_norm, pruned channels. Where zero is merely
    // possible its sign is not known.
    const bool certain = gain == 0 ? std::abs(xhat) > xhat_error : x == 0 && !rule_->centred();
    const bool zero = gain == 0 && beta != nullptr && *beta != 0;
    const Bits below = round_double(certain || zero ? y : y - error, format);
    const bool apart = std::abs(y) > error && format != Format::f64;  // doubles cannot tell what rounds to doubles
    if (certain || zero || (apart && below == round_double(y + error, format))) return below;
  }
  if (const std::optional<Bits> bits = settle_wide(x, gamma, beta)) {
    ++counters_->double_double;
    return *bits;
  }
  ++counters_->exact;
  return settle_exactly(x, gamma, beta);
}

std::optional<Bits> Ladder::settle_wide(double x, const double* gamma, const double* beta) {
  if (!std::isfinite(x)) return std::nullopt;
  const WideStatistics& w = wide();
  const DoubleDouble deviation = two_sum(x, -w.shift) - w.mean;
  const DoubleDouble xhat = deviation * w.rstd;
  const DoubleDouble gain = gamma == nullptr                   ? DoubleDouble{1, 0}
                            : rule_->call->profile.gain_offset ? two_sum(1.0, *gamma)
                                                               : DoubleDouble{*gamma, 0};
  DoubleDouble y = xhat * gain;
  for (const double factor : {deviation.hi, w.rstd.hi, xhat.hi, gain.hi, y.hi}) {
    if (!moderate(factor)) return std::nullopt;
  }
  const double deviation_error = w.mean_error + 4 * u * u * (std::abs(x - w.shift) + std::abs(w.mean.hi));
  double error = std::abs(gain.hi) * (std::abs(xhat.hi) * (w.rstd_error + 32 * u * u) + 2 * w.rstd.hi * deviation_error);
  if (beta != nullptr) {
    error += 4 * u * u * (std::abs(y.hi) + std::abs(*beta));
    y = y + *beta;
  }
  return round_within(y, error, rule_->call->format);
}

Bits Ladder::settle_exactly(double x, const double* gamma, const double* beta) {
  const Group& g = exact();
  const Dyadic bias = beta != nullptr ? from_double(*beta) : Dyadic();
  Dyadic gain = gamma != nullptr ? from_double(*gamma) : Dyadic(1);
  if (rule_->call->profile.gain_offset && gamma != nullptr) gain = add(Dyadic(1), gain);
  const Dyadic deviation = g.deviation(from_double(x), info(rule_->spec.op), Mode::nearest_even);
  return round(affine(gamma != nullptr ? &gain : nullptr, deviation, g.kappa, beta != nullptr ? &bias : nullptr), rule_->call->format).bits;
}

Ladder::Known Ladder::estimated_mean() const {
  const double mean = estimate.shift - estimate.offset / estimate.scale;  // where x̂ = 0
  return {{mean, 0}, estimate.absolute / estimate.scale * 1.0001 + 4 * u * (std::abs(mean) + std::abs(estimate.shift))};
}

Ladder::Known Ladder::wide_mean() {
  const WideStatistics& w = wide();
  return {w.mean + w.shift, w.mean_error + 8 * u * u * (std::abs(w.shift) + std::abs(w.mean.hi))};
}

std::optional<Bits> Ladder::updated(double old, Known statistic) const {
  const DoubleDouble momentum{rule_->spec.momentum, 0};
  const DoubleDouble complement = two_sum(1, -rule_->spec.momentum);
  const bool of_new = rule_->spec.profile.momentum == Momentum::weight_of_new;
  const DoubleDouble kept = (of_new ? complement : momentum) * old;
  const DoubleDouble taken = statistic.value * (of_new ? momentum : complement);
  const double error = statistic.error + 32 * u * u * (std::abs(kept.hi) + std::abs(taken.hi));  // both weights are at most 1
  return round_within(kept + taken, error, rule_->call->statistics);
}

Bits Ladder::mean() {
  const Format format = rule_->call->statistics;
  for (const bool first : {true, false}) {
    const Known known = first ? estimated_mean() : wide_mean();
    if (const std::optional<Bits> bits = round_within(known.value, known.error, format)) return *bits;
  }
  const Group& g = exact();
  return round(affine(nullptr, g.sum, Surd::ratio(1, g.s), nullptr), format).bits;
}

Bits Ladder::rstd() {
  const Format format = rule_->call->statistics;
  const double error = estimate.scale * (estimate.relative + 4 * u);
  if (const std::optional<Bits> bits = round_within({estimate.scale, 0}, error, format)) return *bits;
  const WideStatistics& w = wide();
  if (const std::optional<Bits> bits = round_within(w.rstd, w.rstd.hi * w.rstd_error, format)) return *bits;
  const Group& g = exact();
  return round(affine(nullptr, Dyadic(g.s), g.kappa, nullptr), format).bits;
}

Bits Ladder::running_mean(double old) {
  const Format format = rule_->call->statistics;
  for (const bool first : {true, false}) {
    if (const std::optional<Bits> bits = updated(old, first ? estimated_mean() : wide_mean())) return *bits;
  }
  Bits bits = 0;
  with_running_mean(rule_->spec, exact(), from_double(old), Mode::nearest_even, [&](const Real& y) { bits = round(y, format).bits; });
  return bits;
}

Bits Ladder::running_variance(double old) {
  const Format format = rule_->call->statistics;
  const auto n = static_cast<double>(elements_.count());
  const bool biased = rule_->spec.profile.running_variance == Estimator::biased;
  const DoubleDouble factor = biased ? DoubleDouble{1, 0} : DoubleDouble{n, 0} / (n - 1);  // of one element not finite
  const auto with_factor = [&](DoubleDouble value, double error) {
    return Known{value * factor, factor.hi * 1.0001 * (error + 16 * u * u * value.hi)};
  };
  if (const auto bits = updated(old, with_factor({estimate.variance, 0}, estimate.variance_error))) return *bits;
  const WideStatistics& w = wide();
  if (const auto bits = updated(old, with_factor(w.variance, w.variance_error))) return *bits;
  Bits bits = 0;
  with_running_variance(rule_->spec, exact(), from_double(old), Mode::nearest_even, [&](const Real& y) { bits = round(y, format).bits; });
  return bits;
}

}  // namespace norma::simd
