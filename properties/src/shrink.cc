#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "norma/generate.h"

namespace norma::properties {
namespace {

// Elements [begin, end) of an axis of what has the shape of x, or of what has the channels.
Tensor cut(const Tensor& t, std::size_t axis, std::int64_t begin, std::int64_t end) {
  Shape shape = t.shape;
  const std::int64_t old = shape[axis];
  shape[axis] = end - begin;
  Tensor to{t.name, t.format, shape, {}};
  std::int64_t inner = info(t.format).bytes();
  for (std::size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  const std::int64_t whole = inner * old;
  for (std::int64_t at = 0; whole != 0 && at < static_cast<std::int64_t>(t.data.size()); at += whole) {
    to.data.insert(to.data.end(), t.data.begin() + at + begin * inner, t.data.begin() + at + end * inner);
  }
  return to;
}

// The case without some of an axis of x. What belongs to a channel or a column goes with it.
std::optional<Case> cut(const Case& c, std::size_t axis, std::int64_t begin, std::int64_t end) {
  Case to = c;
  const auto rank = c.x().shape.size();
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!c.inputs[role]) continue;
    const Tensor& t = *c.inputs[role];
    if (t.shape.size() == rank && t.shape == c.x().shape) {
      to.inputs[role] = cut(t, axis, begin, end);
    } else if (info(c.spec.op).grouping == Grouping::trailing) {
      const std::size_t lead = rank - t.shape.size();  // parameters lie along the last axes
      if (axis >= lead) to.inputs[role] = cut(t, axis - lead, begin, end);
    } else if (axis == 1) {
      to.inputs[role] = cut(t, 0, begin, end);
    }
  }
  if (c.spec.groups && axis == 1 && (end - begin) % *c.spec.groups != 0) return std::nullopt;
  return to;
}

// The case with groups [begin, end) of its channels.
Case with_groups(const Case& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t channels = c.x().shape[1] / *c.spec.groups;
  Case every = c;
  every.spec.groups = 1;  // of which any channels may be cut
  Case to = *cut(every, 1, begin * channels, end * channels);
  to.spec.groups = end - begin;
  return to;
}

// The same call; what the generator said of it does not count.
bool same(const Case& a, const Case& b) {
  bool all = a.spec == b.spec && a.placement == b.placement && a.salt == b.salt;
  for (std::size_t r = 0; r < role_count && all; ++r) {
    const auto role = static_cast<Role>(r);
    all = a.inputs[role] == b.inputs[role] && a.outputs.contain(role) == b.outputs.contain(role);
  }
  return all;
}

Roles without_sum(const Roles& outputs) {
  Roles others{};
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (role != Role::sum && outputs.contain(role)) others = others | Roles{role};
  }
  return others;
}

// A way to make a case smaller, where there is one. Cases are made one at a time: there are hundreds, and one may be large.
using Step = std::function<std::optional<Case>(const Case&)>;

// Numbers [begin, end) of a tensor, each as a simpler one.
Step rewriting(Role role, std::int64_t begin, std::int64_t end, double (*number)(double)) {
  return [=](const Case& c) {
    Case s = c;
    Tensor& t = *s.inputs[role];
    for (std::int64_t i = begin; i < end; ++i) {
      const double v = value_at(t, i);
      if (std::isfinite(v)) set_bits(t, i, nearest_bits(t.format, number(v)));
    }
    return std::optional(std::move(s));
  };
}

// The simplest first.
std::vector<Step> steps(const Case& c, const Wish& wish) {
  std::vector<Step> all;
  const auto cutting = [&](std::size_t axis, std::int64_t begin, std::int64_t end) {
    all.emplace_back([=](const Case& of) { return cut(of, axis, begin, end); });
  };
  for (std::size_t axis = 0; axis < c.x().shape.size(); ++axis) {
    const std::int64_t n = c.x().shape[axis];
    for (std::int64_t keep = 1; keep < n; keep *= 2) cutting(axis, 0, keep);
    if (n > 1) cutting(axis, n - n / 2, n), cutting(axis, 0, n - 1), cutting(axis, 1, n);
  }
  if (const std::int64_t groups = c.spec.groups.value_or(1); groups > 1) {
    const auto keeping = [&](std::int64_t begin, std::int64_t end) {
      all.emplace_back([=](const Case& of) { return std::optional(with_groups(of, begin, end)); });
    };
    for (std::int64_t g = 0; g < groups; ++g) keeping(g, g + 1);
    keeping(0, groups - 1);
  }
  const auto without = [&](void (*change)(Case&)) {
    all.emplace_back([=](const Case& of) {
      Case s = of;
      change(s);
      return std::optional(std::move(s));
    });
  };
  without([](Case& s) { s.placement = {}; });
  without([](Case& s) { s.placement.row_gap = 0; });
  without([](Case& s) { s.placement.offset = 0; });
  without([](Case& s) { s.placement.channels_last = false; });
  without([](Case& s) { s.placement.in_place = false; });
  if (wish.affine == Affine::any) {
    without([](Case& s) { s.inputs[Role::gamma].reset(), s.spec.profile.gain_offset = s.spec.profile.cast_before_gain = false; });
    without([](Case& s) { s.inputs[Role::beta].reset(); });
  }
  without([](Case& s) { s.spec.profile = {}; });
  without([](Case& s) { s.spec.profile.gain_offset = false; });
  without([](Case& s) { s.spec.profile.cast_before_gain = false; });
  without([](Case& s) {
    s.inputs[Role::residual].reset();
    s.outputs = without_sum(s.outputs);
  });
  without([](Case& s) { s.spec.momentum = Spec().momentum; });
  if (c.spec.epsilon != 1.0) {
    without([](Case& s) { s.spec.epsilon = 1.0; });
    without([](Case& s) { s.spec.epsilon = 1e-5; });
  }
  without([](Case& s) { s.salt = 0; });
  without([](Case& s) { s.salt /= 2; });
  // Numbers: all at once, then fewer at a time.
  for (const Role role :
       {Role::gamma, Role::beta, Role::x, Role::residual, Role::mean, Role::variance, Role::running_mean, Role::running_variance}) {
    if (!c.inputs[role]) continue;
    const std::int64_t n = size_of(*c.inputs[role]);
    for (std::int64_t width = n, parts = 1; width >= 1 && parts <= 16; width = width == 1 ? 0 : (width + 1) / 2, parts *= 2) {
      for (std::int64_t begin = 0; begin < n; begin += width) {
        const std::int64_t end = std::min(n, begin + width);
        const bool one = role == Role::gamma || role == Role::variance || role == Role::running_variance;
        all.push_back(rewriting(
            role, begin, end, one ? +[](double) { return 1.0; } : +[](double) { return 0.0; }));
        all.push_back(rewriting(role, begin, end, [](double v) { return std::fabs(v) < 0x1p40 ? std::trunc(v) : v; }));
        all.push_back(rewriting(role, begin, end, [](double v) { return v == 0 ? v : std::copysign(std::ldexp(1.0, std::ilogb(v)), v); }));
        all.push_back(rewriting(role, begin, end, [](double v) { return std::fabs(v); }));
      }
    }
  }
  return all;
}

std::optional<Case> taken(const Step& step, const Case& c, const Wish& wish) {
  std::optional<Case> s = step(c);
  if (!s || same(*s, c) || !fits(*s, wish)) return std::nullopt;
  return s;
}

}  // namespace

std::vector<Case> smaller(const Case& c, const Wish& wish) {
  std::vector<Case> all;
  for (const Step& step : steps(c, wish)) {
    if (std::optional<Case> s = taken(step, c, wish)) all.push_back(std::move(*s));
  }
  return all;
}

rc::Shrinkable<Case> shrinkable(Case c, const Wish& wish) {
  return rc::shrinkable::shrinkRecur(std::move(c), [wish](const Case& larger) {
    return rc::seq::mapMaybe(rc::seq::fromContainer(steps(larger, wish)),
                             [wish, of = std::make_shared<const Case>(larger)](const Step& step) -> rc::Maybe<Case> {
                               if (std::optional<Case> s = taken(step, *of, wish)) return std::move(*s);
                               return rc::Nothing;
                             });
  });
}

}  // namespace norma::properties
