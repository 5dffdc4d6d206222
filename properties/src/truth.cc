#include "norma/truth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "laws/common.h"
#include "norma/exact.h"
#include "norma/reference.h"

namespace norma::properties {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double to_double(const Real& y) { return std::bit_cast<double>(round(y, Format::f64).bits); }

// The unit in the last place at a value.
double ulp_at(const Real& y, Format format) {
  if (!y.finite()) return 0;
  const Digits d = digits(y);
  return std::ldexp(1.0, info(format).ulp_exponent(d.zero() ? info(format).min_exponent() : d.log2()));
}

// Half the unit in the last place where a number of this size is rounded.
double half_ulp(Format format, double size) {
  if (!std::isfinite(size)) return infinity;
  const int log2 = size == 0 ? info(format).min_exponent() : std::ilogb(size);
  return std::ldexp(1.0, info(format).ulp_exponent(log2) - 1);
}

double unit_roundoff(Format f) { return std::ldexp(1.0, -info(f).precision); }
double g_of(double ku) { return ku < 1 ? ku / (1 - ku) : infinity; }

// What the bounds need of a group.
struct GroupFacts {
  double n = 0;
  double magnitude = 0, squares = 0, largest = 0;  // Σ|x|, Σx², max|x|
  double mean = 0, variance = 0;                   // that the op uses, before epsilon
  double first = 0;
  bool flat = true;  // all elements are equal
};

class Bounds {
 public:
  Bounds(const Case& c, const Arithmetic& a)
      : case_(c),
        op_(info(c.spec.op)),
        arithmetic_(a),
        compute_(a.compute_x ? c.x().format : a.compute.value_or(c.x().format == Format::f64 ? Format::f64 : Format::f32)),
        u_(unit_roundoff(compute_)),
        eta_(std::ldexp(1.0, info(compute_).min_exponent() - info(compute_).fraction_bits())),
        u_sum_(unit_roundoff(a.accumulate.value_or(compute_))) {}

  // Constants of a group.
  struct Constants {
    double root = 1;                      // 1/rstd
    double t = 0;                         // of the mean, in x̂
    double shrink = 0;                    // relative, of rstd, from the mean's error
    double relative = 0;                  // g_{c+K}, and what the algorithm adds
    double of_mean = 0, of_variance = 0;  // absolute
    double reach = 0;                     // what γ is multiplied with, by whatever order of the factors
    bool range = false;
  };
  [[nodiscard]] Constants constants(const GroupFacts& g) const { return constants(g, sums(g.n)); }
  [[nodiscard]] Constants constants(const GroupFacts& g, double depth) const {
    Constants k;
    if (g.n == 0) return k;
    const double epsilon = case_.spec.effective_epsilon();
    const bool outside = case_.spec.profile.epsilon_placement == EpsilonPlacement::outside;
    const double sigma = std::sqrt(std::max(g.variance, 0.0));
    k.root = outside ? sigma + epsilon : std::sqrt(g.variance + epsilon);
    if (op_.given_statistics) {
      k.relative = g_of(9 * u_);
      k.t = wider(Role::mean) ? u_ * std::fabs(g.mean) / k.root : 0;
      k.reach = std::max({1.0, g.largest, std::fabs(g.mean)}) / k.root;
      k.range = out_of_range(g, k.root);
      return k;
    }
    const double mean_square = g.squares / g.n;
    const double a = g.magnitude / g.n;
    const bool welford = by_welford();
    // x/1 is x. By Welford the first update takes in the whole of x, and no later one moves it if all are equal.
    const bool exact = g.flat && (welford || g.n == 1) && unit_roundoff(case_.x().format) >= std::max(u_, u_sum_);
    const double of_sum = g_of((welford ? 2 * depth + 6 : depth + 2) * u_sum_) * a;
    // A mean of a wider format is rounded for the deviations, products are before they are summed.
    const double narrower = u_sum_ < u_ ? u_ : 0;
    const double d = op_.centred && !exact ? of_sum + narrower * (a + of_sum) + (welford ? depth + 2 : 1) * eta_ : 0;
    k.of_mean = d;
    k.relative = g_of(depth * u_sum_ + 9 * u_);
    const double v = k.root * k.root;
    const double wide = outside ? std::sqrt(g.variance + d * d) + epsilon : std::sqrt(v + d * d);
    k.t = wide > 0 ? d / wide : d > 0 ? 1.0 : 0.0;
    k.shrink = wide > 0 ? 1 - k.root / wide : 0;
    // What an algorithm may lose of the variance beyond that; where it may lose all of it, nothing is promised.
    double lost = 0;
    if (arithmetic_.algorithm == Arithmetic::Algorithm::single_pass && op_.centred) {
      lost = g_of((depth + 4) * u_sum_ + 3 * narrower) * (mean_square + g.mean * g.mean);
    } else if (welford && !exact) {
      const double step = g_of((4 * depth + 9) * u_sum_ + 9 * narrower);
      lost = step * sigma * std::sqrt(std::max(g.variance, 0.0) + a * a) + step * step * a * a;
    }
    k.of_variance = d * d + 2 * k.relative * g.variance + lost;
    // ε outside the root is no part of what the loss is taken from.
    if (lost != 0 && outside) {
      k.relative += lost < g.variance ? k.root / (std::sqrt(g.variance - lost) + epsilon) - 1 : infinity;
    } else if (lost != 0) {
      k.relative += lost < v ? 1 / std::sqrt(1 - lost / v) - 1 : infinity;
    }
    k.reach = std::max(1.0, g.largest) / k.root;
    k.range = out_of_range(g, k.root);
    return k;
  }

  // The largest number whose double is one, and to spare.
  [[nodiscard]] double most() const { return std::ldexp(1.0, info(compute_).max_exponent() - 2); }

  // Whether γ times what it is multiplied with leaves the range of the compute format, by whatever order of the factors.
  [[nodiscard]] bool leaves_range(const Constants& k, double gain) const {
    const double least = std::ldexp(1.0, info(compute_).min_exponent());
    return gain * k.reach >= most() || (gain != 0 && std::isfinite(k.root) && gain < least * k.root);
  }

  // The largest depth for which γ of all that is made of it exists.
  [[nodiscard]] double deepest() const { return std::floor((by_welford() ? 0.25 : 1.0) * (1 - 16 * u_) / u_sum_) - 16; }

  // Of what is computed, in terms of the exact values; it is rounded to its format after that.
  [[nodiscard]] double of_y(const Constants& k, double xhat, double gain, double bias, double ulp_of_xhat) const {
    const double x = std::fabs(xhat);
    const double standardized = k.t + x * k.shrink + k.relative * (x + k.t);
    const int roundings = 2 + (case_.spec.profile.gain_offset ? 1 : 0) + (wider(Role::gamma) || wider(Role::beta) ? 1 : 0);
    const double style = g_of(roundings * u_) * (std::fabs(gain * xhat) + std::fabs(bias));
    double error = standardized + eta_;
    if (case_.spec.profile.cast_before_gain) {
      // What is sure to be rounded to the same number is off by nothing.
      const double about = error + 0x1p-52 * x;
      const bool sure = nearest_bits(case_.format, xhat - about) == nearest_bits(case_.format, xhat + about);
      error = sure ? 0 : error + ulp_of_xhat;
    }
    return std::fabs(gain) * error + style + eta_;
  }
  [[nodiscard]] double of_mean(const Constants& k, double mean) const { return k.of_mean + g_of(2 * u_) * std::fabs(mean); }
  [[nodiscard]] double of_rstd(const Constants& k, double rstd) const { return rstd * (k.shrink + k.relative); }
  // Two weights and two products of what is that large, and their sum; what is taken in is off by `taken`.
  [[nodiscard]] double of_update(double taken, double size) const { return taken + 4 * u_ * size + 2 * eta_; }

 private:
  [[nodiscard]] bool by_welford() const { return arithmetic_.algorithm == Arithmetic::Algorithm::welford && op_.centred; }
  // A tensor of a format that the compute format does not hold is rounded when it is read.
  [[nodiscard]] bool wider(Role role) const {
    return case_.inputs[role] && info(case_.inputs[role]->format).precision > info(compute_).precision;
  }
  [[nodiscard]] double sums(double n) const {
    switch (arithmetic_.depth) {
      case Arithmetic::Depth::pairwise:
        return std::ceil(std::log2(std::max(n, 1.0))) + 1;
      case Arithmetic::Depth::lanes: {
        const auto lanes = static_cast<double>(arithmetic_.lanes);
        return std::ceil(n / lanes) + std::ceil(std::log2(lanes)) + 1;
      }
      case Arithmetic::Depth::sequential:
        break;
    }
    return std::max(n - 1, 0.0);
  }
  // Squares and sums stay normal and finite in the compute format, with room to spare, or do not matter beside epsilon. What is not finite
  // to begin with is no matter of range.
  [[nodiscard]] bool out_of_range(const GroupFacts& g, double root) const {
    if (!std::isfinite(g.largest)) return false;
    const double most = this->most();
    const double least = std::ldexp(1.0, info(compute_).min_exponent() + info(compute_).precision);
    const double v = root * root;
    return !(g.squares < most && g.n * g.largest < most && v < most && v > least && g.largest / root < most);
  }

  const Case& case_;
  const OpInfo& op_;
  const Arithmetic& arithmetic_;
  Format compute_;
  double u_, eta_, u_sum_;  // eta: the smallest subnormal number, which bounds the error of a product that underflows
};

std::vector<GroupFacts> facts_of(const Case& c, const Membership& m) {
  std::vector<GroupFacts> groups(static_cast<std::size_t>(m.groups));
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    GroupFacts& g = groups[static_cast<std::size_t>(m.group[static_cast<std::size_t>(i)])];
    double x = value_at(c.x(), i);
    if (c.inputs[Role::residual]) x += value_at(*c.inputs[Role::residual], i);
    g.flat = g.flat && !c.inputs[Role::residual] && (g.n == 0 || x == g.first);
    if (g.n == 0) g.first = x;
    g.n += 1;
    g.magnitude += std::fabs(x);
    g.squares += x * x;
    g.largest = std::isnan(x) ? infinity : std::max(g.largest, std::fabs(x));
  }
  return groups;
}

// The bound of what is rounded to its format last. An error may carry a value into the next binade, where that rounding is coarser.
double with_last_rounding(const Element& e, Format format, double computed) {
  const double bound = computed + half_ulp(format, std::fabs(e.exact) + computed);
  return std::isnan(bound) ? infinity : bound;
}

// For errors that are not counted in ulp.
double distance(Format format, Bits got, double exact) {
  const double value = value_of(format, got);
  if (std::isnan(value) || !std::isfinite(exact)) return infinity;
  if (std::isfinite(value)) return std::fabs(value - exact);
  return std::signbit(value) == std::signbit(exact) ? std::max(0.0, least_infinite(format) - std::fabs(exact)) : infinity;
}

// The least whole number from `least` on for which `covers`, which stays true once it is; infinity where none up to `most` is.
template <class Covers>
double least_depth(double least, double most, Covers&& covers) {
  if (covers(least)) return least;
  double step = 1;
  for (double low = least; low < most; step *= 2) {
    const double high = std::min(low + step, most);
    if (!covers(high)) {
      low = high;
      continue;
    }
    for (least = high; least - low > 1;) {
      const double middle = std::floor(low + (least - low) / 2);
      (covers(middle) ? least : low) = middle;
    }
    return least;
  }
  return infinity;
}

}  // namespace

bool promises(const Arithmetic& declared, const Case& c) {
  const Arithmetic& a = declared.of(c.spec.op);
  return a.algorithm == Arithmetic::Algorithm::correctly_rounded || a.compute_x || !a.compute ||
         info(*a.compute).precision >= info(c.x().format).precision;
}

double least_infinite(Format format) { return std::ldexp(1 - 0x1p-10, info(format).max_exponent()) * 2; }

bool within_bound(const Element& e, Format format, Bits got) {
  if (same_number(format, got, e.rounded)) return true;
  if (decode(format, e.rounded).kind == Kind::nan) return false;
  if (std::isinf(e.bound)) return true;
  return e.distance <= e.bound * bound_slack;
}

Result<Truth> truth_of(const Case& c, const Arithmetic& declared, const ByRole<Tensor>* got, Depth* depth) {
  const Arithmetic& arithmetic = declared.of(c.spec.op);
  const OpInfo& op = info(c.spec.op);
  Truth truth;
  ByRole<ConstView> inputs;
  ByRole<View> wanted;
  ByRole<Tensor> room;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (c.inputs[role]) inputs[role] = c.inputs[role]->view();
    const bool for_bounds = role == Role::xhat || role == Role::mean || role == Role::variance;
    if (!c.outputs.contain(role) && !(for_bounds && op.outputs.contain(role))) continue;
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
    if (!shape.ok()) return shape.status();
    const bool statistic = role == Role::mean || role == Role::rstd || role == Role::variance;
    const Format format = role == Role::y || role == Role::xhat || role == Role::sum || role == Role::deviation ? c.format
                          : statistic && got != nullptr && (*got)[role]                                         ? (*got)[role]->format
                          : c.inputs[role]                                                                      ? c.inputs[role]->format
                                                                                                                : Format::f32;
    room[role] = tensor_of(role, format, *shape);
    wanted[role] = View{format, room[role]->data.data(), *shape, {}};
    truth.outputs[role].emplace(static_cast<std::size_t>(size_of(*room[role])));
  }
  std::vector<double> ulp_of_xhat(static_cast<std::size_t>(c.elements()));
  const Status status = evaluate(c.spec, inputs, wanted, Mode::nearest_even, [&](Role role, std::int64_t offset, const Real& value) {
    Element& e = (*truth.outputs[role])[static_cast<std::size_t>(offset)];
    const Format format = room[role]->format;
    e.exact = to_double(value);
    e.ulp = ulp_at(value, format);
    e.rounded = round(value, format).bits;
    if (role == Role::xhat) ulp_of_xhat[static_cast<std::size_t>(offset)] = e.ulp;
    if (got == nullptr || !(*got)[role]) return;
    const Bits bits = bits_at(*(*got)[role], offset);
    e.error = ulp_error(value, format, bits);
    e.distance = e.error < std::numeric_limits<double>::max() ? e.error * e.ulp : distance(format, bits, e.exact);
  });
  if (!status.ok()) return status;
  if (c.spec.profile.cast_before_gain) {
    // There the reference's x̂ is rounded; the bound wants what was rounded.
    Spec before = c.spec;
    before.profile.cast_before_gain = false;
    ByRole<View> only;
    only[Role::xhat] = wanted[Role::xhat];
    const Status s = evaluate(before, inputs, only, Mode::nearest_even, [&](Role, std::int64_t offset, const Real& value) {
      (*truth.outputs[Role::xhat])[static_cast<std::size_t>(offset)].exact = to_double(value);
    });
    if (!s.ok()) return s;
  }

  const Membership m = membership(c);  // not before the reference has found that this is a call
  std::vector<GroupFacts> groups = facts_of(c, m);
  // Groups without elements have statistics all the same.
  for (const Role role : {Role::mean, Role::rstd, Role::variance, Role::running_mean, Role::running_variance}) {
    if (truth.outputs[role]) groups.resize(std::max(groups.size(), truth.outputs[role]->size()));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto at = static_cast<std::int64_t>(g);
    if (op.given_statistics) {
      groups[g].mean = value_at(*c.inputs[Role::mean], at);
      groups[g].variance = value_at(*c.inputs[Role::variance], at);
      continue;
    }
    if (truth.outputs[Role::mean]) groups[g].mean = (*truth.outputs[Role::mean])[g].exact;
    if (truth.outputs[Role::variance]) groups[g].variance = (*truth.outputs[Role::variance])[g].exact;
  }
  const Bounds bounds(c, arithmetic);
  const bool exact = arithmetic.algorithm == Arithmetic::Algorithm::correctly_rounded;
  std::vector<Bounds::Constants> constants;
  for (const GroupFacts& g : groups) constants.push_back(bounds.constants(g));
  const auto parameter = [&](Role role, std::size_t i, double none) {
    if (!c.inputs[role]) return none;
    const std::int64_t count = size_of(*c.inputs[role]);
    const double value = value_at(*c.inputs[role], m.parameter[i] % count);
    return role == Role::gamma && c.spec.profile.gain_offset ? 1 + value : value;
  };
  const auto finish = [&](Role role, auto&& bound) {
    if (!truth.outputs[role]) return;
    Elements& elements = *truth.outputs[role];
    for (std::size_t i = 0; i < elements.size(); ++i) {
      Element& e = elements[i];
      const bool per_element = role == Role::y || role == Role::xhat;
      const std::size_t g = per_element ? static_cast<std::size_t>(m.group[i]) : i;
      // Somebody may multiply γ by 1/root first, or by μ/root. Who rounds correctly has no range to leave.
      const double gain = role == Role::y ? std::fabs(parameter(Role::gamma, i, 1)) : 0;
      e.range = !exact && g < constants.size() && (constants[g].range || bounds.leaves_range(constants[g], gain));
      // Of an infinite sum of squares rstd is 0, and everything finite times that.
      const bool infinite = !op.given_statistics && g < groups.size() && !std::isfinite(groups[g].largest);
      const double computed = exact || infinite ? 0 : bound(i, g, e);
      e.bound = exact ? e.ulp / 2 : with_last_rounding(e, room[role]->format, computed);
    }
  };
  const auto of_y = [&](const Bounds::Constants& k, std::size_t i, const Element& e) {
    return bounds.of_y(k, e.xhat, parameter(Role::gamma, i, 1), parameter(Role::beta, i, 0), ulp_of_xhat[i]);
  };
  if (truth.outputs[Role::y]) {
    for (std::size_t i = 0; i < truth.outputs[Role::y]->size(); ++i) {
      Element& e = (*truth.outputs[Role::y])[i];
      const auto g = static_cast<std::size_t>(m.group[i]);
      e.xhat = (*truth.outputs[Role::xhat])[i].exact;
      e.condition = groups[g].magnitude / groups[g].n / constants[g].root;
      e.size = std::fabs(parameter(Role::gamma, i, 1)) * std::max(1.0, std::fabs(e.xhat)) + std::fabs(parameter(Role::beta, i, 0));
    }
  }
  finish(Role::y, [&](std::size_t i, std::size_t g, const Element& e) { return of_y(constants[g], i, e); });
  finish(Role::mean, [&](std::size_t, std::size_t g, const Element& e) { return bounds.of_mean(constants[g], e.exact); });
  finish(Role::rstd, [&](std::size_t, std::size_t g, const Element& e) { return bounds.of_rstd(constants[g], e.exact); });
  // The running statistics by the errors of what they take in; an empty batch is nothing to take in.
  finish(Role::running_mean, [&](std::size_t i, std::size_t g, const Element&) {
    if (groups[g].n == 0) return 0.0;
    const double old = std::fabs(value_at(*c.inputs[Role::running_mean], static_cast<std::int64_t>(i)));
    return bounds.of_update(constants[g].of_mean, old + std::fabs(groups[g].mean));
  });
  finish(Role::running_variance, [&](std::size_t i, std::size_t g, const Element&) {
    if (groups[g].n == 0) return 0.0;
    const double old = std::fabs(value_at(*c.inputs[Role::running_variance], static_cast<std::int64_t>(i)));
    const double n = groups[g].n;
    const double factor = n > 1 ? n / (n - 1) : 1;
    return bounds.of_update(factor * constants[g].of_variance, old + factor * groups[g].variance);
  });
  finish(Role::sum, [&](std::size_t, std::size_t, const Element&) { return 0; });
  if (depth == nullptr || got == nullptr || !(*got)[Role::y]) return truth;
  for (std::size_t i = 0; i < truth.y().size(); ++i) {
    const Element& e = truth.y()[i];
    if (e.range || !std::isfinite(e.exact) || e.error <= 0.5 || std::isinf(depth->least)) continue;
    const auto g = static_cast<std::size_t>(m.group[i]);
    const double least = least_depth(depth->least, bounds.deepest(), [&](double d) {
      Element at = e;
      at.bound = with_last_rounding(e, c.format, of_y(bounds.constants(groups[g], d), i, e));
      return within_bound(at, c.format, bits_at(*(*got)[Role::y], static_cast<std::int64_t>(i)));
    });
    if (least > depth->least) *depth = {least, static_cast<std::int64_t>(i)};
  }
  return truth;
}

}  // namespace norma::properties
