#include "kernel.h"

#ifdef __FAST_MATH__
#error "Norma's kernels are compiled without -ffast-math: they are compared bit by bit."
#endif

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <limits>

#include "norma/case.h"

namespace norma::properties {
namespace {

double read(const ConstView& v, std::int64_t at) { return value_of(v.format, load(v.format, v.data + at * info(v.format).bytes())); }
void write(const View& v, std::int64_t at, double value) {
  store(v.format, nearest_bits(v.format, value), v.data + at * info(v.format).bytes());
}
double rounded(Format format, double value) { return value_of(format, nearest_bits(format, value)); }
ConstView reading(const View& v) { return {v.format, v.data, v.shape, v.strides}; }

// Where the elements of a tensor lie, in logical order.
template <class V>
std::vector<std::int64_t> offsets(const V& view, bool ignore_strides) {
  std::int64_t count = 1;
  for (const std::int64_t extent : view.shape) count *= extent;
  std::vector<std::int64_t> at(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t a = view.shape.size(); a-- > 0; rest /= view.shape[a]) {
      if (!view.strides.empty()) offset += rest % view.shape[a] * view.strides[a];
    }
    at[static_cast<std::size_t>(i)] = view.strides.empty() || ignore_strides ? i : offset;
  }
  return at;
}

template <class Real>
class Kernel {
 public:
  Kernel(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, const Recipe& recipe)
      : spec_(spec), op_(info(spec.op)), in_(inputs), out_(outputs), recipe_(recipe) {}

  Status run() {
    const ConstView& x = *in_[Role::x];
    Case shape_only;  // for the membership
    shape_only.spec = spec_;
    shape_only.inputs[Role::x] = tensor_of(Role::x, x.format, x.shape);
    if (is(Fault::wrong_axis) && op_.grouping == Grouping::trailing) shape_only.spec.axis = -1;
    Membership m = membership(shape_only);
    const std::int64_t n = shape_only.elements();
    const Membership right = [&] {
      shape_only.spec = spec_;
      return membership(shape_only);
    }();
    m.parameter = right.parameter;
    if (is(Fault::groups_swapped) && spec_.op == Op::group_norm) swap_groups(m);
    if (is(Fault::whole_batch)) std::fill(m.group.begin(), m.group.end(), 0);
    parameters_ = in_[Role::gamma] ? count_of(in_[Role::gamma]->shape) : in_[Role::beta] ? count_of(in_[Role::beta]->shape) : 1;

    const std::vector<std::int64_t> at = offsets(x, is(Fault::stride_ignored));
    const std::vector<std::int64_t> to = offsets(*out_[Role::y], is(Fault::y_stride_ignored));
    values_.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::size_t from = is(Fault::index_overflow) ? i & 0xffff : i;
      values_[i] = static_cast<Real>(read(x, at[from]));
      if (is(Fault::flushes_subnormals) && std::fabs(values_[i]) < std::ldexp(1.0, info(x.format).min_exponent())) values_[i] = 0;
    }
    if (in_[Role::residual]) add_residual(x.format);
    std::vector<std::vector<std::size_t>> groups(static_cast<std::size_t>(std::max(m.groups, right.groups)));
    for (std::size_t i = 0; i < m.group.size(); ++i) groups[static_cast<std::size_t>(m.group[i])].push_back(i);
    for (std::size_t g = 0; g < groups.size(); ++g) group(g, groups[g], m, to);
    if (n == 0 && is(Fault::empty_unguarded)) empty_batch();
    misbehave(n, to);
    return {};
  }

 private:
  [[nodiscard]] bool is(Fault fault) const { return recipe_.fault == fault; }
  static std::int64_t count_of(const Shape& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }

  void swap_groups(Membership& m) const {
    const std::int64_t groups = *spec_.groups;
    for (std::size_t i = 0; i < m.group.size(); ++i) m.group[i] = m.group[i] / groups * groups + m.parameter[i] % groups;
  }

  void add_residual(Format format) {
    const std::vector<std::int64_t> at = offsets(*in_[Role::residual], false);
    std::vector<std::int64_t> to;
    if (out_[Role::sum]) to = offsets(*out_[Role::sum], false);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<Real>(rounded(format, static_cast<double>(values_[i]) + read(*in_[Role::residual], at[i])));
      if (out_[Role::sum]) write(*out_[Role::sum], to[i], static_cast<double>(values_[i]));
    }
  }

  // One step of a sum, as wide as the fault allows.
  [[nodiscard]] Real kept(Real sum) const {
    if (is(Fault::accumulates_f16)) return static_cast<Real>(rounded(Format::f16, static_cast<double>(sum)));
    if (is(Fault::accumulates_bf16)) return static_cast<Real>(rounded(Format::bf16, static_cast<double>(sum)));
    return sum;
  }

  template <class Term>
  [[nodiscard]] Real sum_of(const std::vector<std::size_t>& members, const Term& term, bool of_squares) {
    static thread_local unsigned calls = 0;
    int lanes = recipe_.lanes;
    if (is(Fault::order_of_rows) && in_[Role::x]->shape[0] > 1) lanes = 8;
    if (is(Fault::order_of_address) && std::bit_cast<std::uintptr_t>(in_[Role::x]->data) % 64 != 0) lanes = 8;
    if (is(Fault::order_of_calls) && ++calls % 3 == 0) lanes = 8;
    if (is(Fault::partials_dropped)) lanes = 32;
    std::size_t count = members.size();
    if (is(Fault::tail_dropped) || (is(Fault::tail_dropped_in_variance) && of_squares)) count = count < 4 ? count : count / 4 * 4;
    if (is(Fault::size_band) && count > 32 && count <= 64) --count;
    std::vector<Real> partial(static_cast<std::size_t>(lanes));
    for (std::size_t k = 0; k < count; ++k) {
      Real& sum = partial[k % partial.size()];
      sum = kept(sum + term(values_[members[k]]));
    }
    if (is(Fault::tail_counted_twice) && count % 4 != 0 && count > 4) partial[0] += term(values_[members[count - 1]]);
    Real total = 0;
    // The last stage is run by as many lanes as the last block had elements.
    const std::size_t read = is(Fault::partials_dropped) && count > 32 && count % 32 != 0 ? count % 32 : partial.size();
    for (std::size_t k = 0; k < read; ++k) total = kept(total + partial[k]);
    return total;
  }

  struct Moments {
    Real mean = 0, variance = 0;
    Real over_n = 0;  // the variance that running statistics start from
  };
  [[nodiscard]] Moments moments(std::size_t g, const std::vector<std::size_t>& members) {
    Moments s;
    if (op_.given_statistics) {
      const auto at = static_cast<std::int64_t>(g);
      s.mean = static_cast<Real>(read(*in_[Role::mean], at));
      s.variance = static_cast<Real>(read(*in_[Role::variance], at));
      if (is(Fault::variance_f16)) s.variance = static_cast<Real>(rounded(Format::f16, static_cast<double>(s.variance)));
      return s;
    }
    auto n = static_cast<Real>(members.size());
    if (is(Fault::count_f16)) n = static_cast<Real>(rounded(Format::f16, static_cast<double>(members.size())));
    if (is(Fault::padded_count)) n = static_cast<Real>((members.size() + 3) / 4 * 4);
    const bool centred = (op_.centred && !is(Fault::mean_not_subtracted)) || is(Fault::mean_subtracted);
    const auto square = [&](Real d) {
      return is(Fault::squares_f16) ? static_cast<Real>(rounded(Format::f16, static_cast<double>(d) * static_cast<double>(d))) : d * d;
    };
    if (recipe_.algorithm == Arithmetic::Algorithm::welford && centred) {
      Real count = 0, spread = 0;
      for (const std::size_t i : members) {
        count += 1;
        const Real d = values_[i] - s.mean;
        s.mean += d / count;
        spread += d * (values_[i] - s.mean);
      }
      s.variance = spread / n;
    } else {
      if (centred)
        s.mean = sum_of(
                     members, [](Real v) { return v; }, false) /
                 n;
      if (is(Fault::mean_rounded)) s.mean = static_cast<Real>(rounded(Format::bf16, static_cast<double>(s.mean)));
      if (is(Fault::stale_mean)) std::swap(s.mean, last_mean_), s.mean = g == 0 ? last_mean_ : s.mean;
      if (is(Fault::single_pass) && centred) {
        s.variance = sum_of(
                         members, [](Real v) { return v * v; }, true) /
                         n -
                     s.mean * s.mean;
      } else {
        const Real mean = s.mean;
        s.variance = sum_of(
                         members, [&](Real v) { return square(v - mean); }, true) /
                     n;
      }
    }
    if (is(Fault::variance_cut) && s.variance < static_cast<Real>(1e-6)) s.variance = 0;
    if (is(Fault::blocks_merged_plainly) && members.size() > 8 && centred) {
      // Two blocks of unequal length, and the plain average of both means.
      const std::vector<std::size_t> head(members.begin(), members.begin() + 8), rest(members.begin() + 8, members.end());
      const Real of_head = sum_of(
                               head, [](Real v) { return v; }, false) /
                           8;
      s.mean = (of_head + sum_of(
                              rest, [](Real v) { return v; }, false) /
                              static_cast<Real>(rest.size())) /
               2;
    }
    s.over_n = s.variance;
    const bool unbiased = is(Fault::variance_unbiased) ? op_.centred : spec_.profile.variance == Estimator::unbiased && op_.centred;
    if (unbiased && (members.size() > 1 || !is(Fault::variance_unbiased))) s.variance *= n / (n - 1);
    return s;
  }

  [[nodiscard]] Real reciprocal(Real variance) const {
    auto epsilon = static_cast<Real>(spec_.effective_epsilon());
    if (is(Fault::epsilon_fixed)) epsilon = static_cast<Real>(1e-5);
    if (is(Fault::epsilon_floored)) epsilon = std::max(epsilon, static_cast<Real>(1e-5));
    if (is(Fault::epsilon_f16)) epsilon = static_cast<Real>(rounded(Format::f16, spec_.effective_epsilon()));
    if (is(Fault::epsilon_lost)) epsilon = 0;
    const bool outside = is(Fault::epsilon_outside) || spec_.profile.epsilon_placement == EpsilonPlacement::outside;
    Real rstd = outside ? 1 / (std::sqrt(variance) + epsilon) : 1 / std::sqrt(variance + epsilon);
    if (is(Fault::epsilon_maximum)) rstd = 1 / std::sqrt(std::max(variance, epsilon));
    if (is(Fault::no_root)) rstd = 1 / (variance + epsilon);
    if (is(Fault::rstd_bf16)) rstd = static_cast<Real>(rounded(Format::bf16, static_cast<double>(rstd)));
    if (is(Fault::rstd_approximate)) rstd *= static_cast<Real>(1 + 0x1p-12);
    return rstd;
  }

  void group(std::size_t g, std::vector<std::size_t>& members, const Membership& m, const std::vector<std::int64_t>& to) {
    if (members.empty()) return;
    if (is(Fault::crashes_at_one) && members.size() == 1) kill(getpid(), SIGSEGV);
    if (is(Fault::row_leak) && members.back() + 1 < values_.size() && members.size() > 1) {
      values_[members.back()] = values_[members.back() + 1];
    }
    Moments s = moments(g, members);
    if (is(Fault::nan_swallowed) && (std::isnan(s.variance) || std::isinf(s.variance))) s = {0, 1};
    Real mean = s.mean, rstd = reciprocal(s.variance);
    if (is(Fault::one_value_unguarded) && members.size() == 1 && !op_.given_statistics) rstd = 1 / std::sqrt(s.variance);
    const auto at = static_cast<std::int64_t>(g);
    if (is(Fault::normalizes_by_running) && out_[Role::running_mean] && out_[Role::running_variance]) {
      mean = static_cast<Real>(read(reading(*out_[Role::running_mean]), at));
      rstd = reciprocal(std::fabs(static_cast<Real>(read(reading(*out_[Role::running_variance]), at))));
    }
    const Format format = out_[Role::y]->format;
    for (const std::size_t i : members) {
      if (is(Fault::leaves_last) && i + 1 == values_.size()) continue;
      if (is(Fault::reads_after_writing)) values_[i] = static_cast<Real>(again(i, to[i]));
      const bool centred = op_.centred || is(Fault::mean_subtracted);
      Real v = (centred && !is(Fault::mean_not_subtracted) ? values_[i] - mean : values_[i]) * rstd;
      if (is(Fault::folded_offset) && centred)
        v = values_[i] * rstd + static_cast<Real>(rounded(Format::f32, static_cast<double>(-mean * rstd)));
      if (is(Fault::clipped)) v = std::clamp(v, static_cast<Real>(-4), static_cast<Real>(4));
      if (spec_.profile.cast_before_gain || is(Fault::cast_before_gain)) v = static_cast<Real>(rounded(format, static_cast<double>(v)));
      v = style(v, m.parameter[i], static_cast<std::int64_t>(i));
      if (is(Fault::flushes_subnormals) && std::fabs(v) < std::ldexp(1.0, info(format).min_exponent())) v = 0;
      if (is(Fault::zero_unsigned) && v == 0) v = 0;
      write(*out_[Role::y], to[i], static_cast<double>(v));
    }
    give(at, members.size(), s, rstd);
  }

  // In place the element may be what an earlier step has made of its neighbour.
  [[nodiscard]] double again(std::size_t i, std::int64_t at) const {
    const bool in_place = static_cast<const void*>(in_[Role::x]->data) == static_cast<const void*>(out_[Role::y]->data);
    return in_place && i != 0 ? read(reading(*out_[Role::y]), std::max<std::int64_t>(0, at - 1)) : static_cast<double>(values_[i]);
  }

  [[nodiscard]] Real style(Real v, std::int64_t parameter, std::int64_t i) const {
    if (is(Fault::parameter_off_by_one)) parameter = (parameter + 1) % parameters_;
    if (is(Fault::parameter_not_broadcast)) parameter = i % parameters_;
    const bool with_gamma = in_[Role::gamma] && !is(Fault::gamma_ignored);
    Real gain = with_gamma ? static_cast<Real>(read(*in_[Role::gamma], parameter)) : 1;
    if (with_gamma && (spec_.profile.gain_offset || is(Fault::unit_offset_added))) {
      gain = 1 + gain;
      if (is(Fault::unit_offset_rounded)) gain = static_cast<Real>(rounded(in_[Role::gamma]->format, static_cast<double>(gain)));
    }
    const bool with_beta = in_[Role::beta] && !is(Fault::beta_ignored);
    const Real bias = with_beta ? static_cast<Real>(read(*in_[Role::beta], parameter)) : 0;
    if (is(Fault::beta_before_gain) && with_beta) return (v + bias) * gain;
    if (with_gamma) v *= gain;
    return with_beta ? v + bias : v;
  }

  void give(std::int64_t g, std::size_t count, const Moments& s, Real rstd) {
    if (out_[Role::mean])
      write(*out_[Role::mean], g, static_cast<double>(is(Fault::mean_without_last) ? s.mean * static_cast<Real>(0.875) : s.mean));
    if (out_[Role::rstd]) write(*out_[Role::rstd], g, static_cast<double>(is(Fault::rstd_is_variance) ? s.variance : rstd));
    auto weight = static_cast<Real>(spec_.momentum);
    const bool of_old = (spec_.profile.momentum == Momentum::weight_of_old) != is(Fault::momentum_swapped);
    if (of_old) weight = 1 - weight;
    const auto n = static_cast<Real>(count);
    bool unbiased = spec_.profile.running_variance == Estimator::unbiased;
    if (is(Fault::running_ignored_estimator)) unbiased = !unbiased && count > 1;
    if (is(Fault::one_value_running_unguarded)) unbiased = true;
    const auto update = [&](Role role, Real taken) {
      if (!out_[role]) return;
      const auto old = static_cast<Real>(read(reading(*out_[role]), g));
      write(*out_[role], g, static_cast<double>((1 - weight) * old + weight * taken));
    };
    const Real variance = unbiased ? s.over_n * n / (n - 1) : s.over_n;
    update(Role::running_mean, is(Fault::running_in_one_buffer) ? variance : s.mean);
    update(Role::running_variance, variance);
  }

  void empty_batch() {
    for (const Role role : {Role::running_mean, Role::running_variance}) {
      if (!out_[role]) continue;
      for (std::int64_t g = 0; g < count_of(out_[role]->shape); ++g) write(*out_[role], g, std::numeric_limits<double>::quiet_NaN());
    }
  }

  void misbehave(std::int64_t n, const std::vector<std::int64_t>& to) {
    const View& y = *out_[Role::y];
    if (n == 0) return;
    const std::int64_t last = *std::max_element(to.begin(), to.end());
    if (is(Fault::writes_beyond) && n % 4 != 0) write(y, last + 1, 0);
    if (is(Fault::writes_before)) write(y, -1, 0);
    if (is(Fault::writes_input)) const_cast<std::byte*>(in_[Role::x]->data)[0] = std::byte{0};
  }

  const Spec& spec_;
  const OpInfo& op_;
  const ByRole<ConstView>& in_;
  const ByRole<View>& out_;
  const Recipe& recipe_;
  std::vector<Real> values_;
  std::int64_t parameters_ = 1;
  Real last_mean_ = 0;
};

}  // namespace

Status normalize_plainly(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, const Recipe& recipe) {
  if (spec.op == Op::weight_norm || !outputs[Role::y]) return {Code::bad_parameter, "weight_norm, or a call without y"};
  if (inputs[Role::x]->format == Format::f64) return Kernel<double>(spec, inputs, outputs, recipe).run();
  return Kernel<float>(spec, inputs, outputs, recipe).run();
}

}  // namespace norma::properties
