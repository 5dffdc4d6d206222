#include "nest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "norma/reference.h"
#include "norma/text.h"

namespace norma {
namespace {

using std::int64_t;

std::string text(const Shape& shape) { return to_text(shape); }

std::string text(double value) { return to_shortest(Format::f64, std::bit_cast<Bits>(value)); }

std::string text(std::string_view s) { return std::string(s); }

Status error(Code code, std::string message) { return {code, std::move(message)}; }

// Kept below 2^62 bytes, so that no offset computed from it overflows.
constexpr int64_t most_elements = int64_t{1} << 58;

Status check_extents(Role role, const Shape& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) return error(Code::bad_shape, text(name(role)) + " has shape " + text(shape) + ": an extent cannot be negative");
    if (extent > 0 && product > most_elements / extent) {
      return error(Code::bad_shape, text(name(role)) + " has shape " + text(shape) + ": more than 2^58 elements");
    }
    product *= std::max<int64_t>(extent, 1);
  }
  return {};
}

// Where the axes of a call lie: those of x, with the channel axis of group and instance norm split in two.
struct Axes {
  Shape x;
  int axis = 0;        // resolved: nonnegative
  int64_t groups = 1;  // of channels
  Grouping grouping = Grouping::trailing;

  [[nodiscard]] int rank() const { return static_cast<int>(x.size()); }
  [[nodiscard]] bool kept(int i) const {
    switch (grouping) {
      case Grouping::trailing:
        return i < axis;
      case Grouping::channel:
      case Grouping::leading_index:
        return i == axis;
      case Grouping::channel_groups:
        return i == 0;  // of the channel axis, `groups` are kept: see make_nest
    }
    return false;
  }
};

Result<Axes> resolve(const Spec& spec, const Shape& x) {
  const OpInfo& op = info(spec.op);
  Axes axes{x, spec.effective_axis(), 1, op.grouping};
  const int rank = axes.rank();
  if (axes.axis < -rank || axes.axis >= rank) {
    return error(Code::bad_axis,
                 "axis " + std::to_string(axes.axis) + " does not exist in x of shape " + text(x) + ": " +
                     (rank == 0 ? "a scalar has no axes" : "expected " + std::to_string(-rank) + " to " + std::to_string(rank - 1)));
  }
  if (axes.axis < 0) axes.axis += rank;
  const bool takes_groups = spec.op == Op::group_norm;
  if (takes_groups != spec.groups.has_value()) {
    return error(Code::bad_groups, text(op.name) + (takes_groups ? " needs the number of groups" : " takes no number of groups"));
  }
  if (axes.grouping != Grouping::channel_groups) return axes;
  if (axes.axis == 0) return error(Code::bad_axis, "axis 0 is the batch: the channel axis of " + text(op.name) + " has to be another one");
  const int64_t channels = x[static_cast<std::size_t>(axes.axis)];
  axes.groups = spec.groups.value_or(channels);
  if (takes_groups && (axes.groups < 1 || channels % axes.groups != 0)) {
    return error(Code::bad_groups, std::to_string(axes.groups) + " groups do not divide " + std::to_string(channels) + " channels evenly");
  }
  return axes;
}

// The shape of one value per group.
Shape statistic_shape(const Axes& axes) {
  const auto at = axes.x.begin() + axes.axis;
  switch (axes.grouping) {
    case Grouping::trailing:
      return {axes.x.begin(), at};
    case Grouping::channel:
    case Grouping::leading_index:
      return {*at};
    case Grouping::channel_groups:
      return {axes.x[0], axes.groups};
  }
  return {};
}

enum class Domain : std::uint8_t { elements, parameter, statistic };

Domain domain(Role role) {
  switch (role) {
    case Role::gamma:
    case Role::beta:
      return Domain::parameter;
    case Role::mean:
    case Role::variance:
    case Role::rstd:
    case Role::running_mean:
    case Role::running_variance:
      return Domain::statistic;
    default:
      return Domain::elements;
  }
}

std::vector<int64_t> contiguous(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

// A view's strides; 0 along axes that are never walked, whatever it says there.
template <class Byte>
std::vector<int64_t> strides_of(const BasicView<Byte>& view) {
  if (view.strides.empty()) return contiguous(view.shape);
  std::vector<int64_t> strides = view.strides;
  for (std::size_t i = 0; i < std::min(strides.size(), view.shape.size()); ++i) {
    if (view.shape[i] <= 1) strides[i] = 0;
  }
  return strides;
}

// The strides of a tensor along the axes of `expected`, given that its shape is `expected` give or take axes of extent 1.
// False if it is not.
bool match(const Shape& shape, const std::vector<int64_t>& strides, const Shape& expected, std::vector<int64_t>& matched) {
  matched.assign(expected.size(), 0);
  std::size_t j = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 1) continue;
    while (j < shape.size() && shape[j] == 1) ++j;
    if (j == shape.size() || shape[j] != expected[i]) return false;
    matched[i] = strides[j++];
  }
  return std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(j), shape.end(), [](int64_t extent) { return extent == 1; });
}

// As numpy and ONNX broadcast: aligned at the last axis, extents equal or 1.
bool broadcast(const Shape& shape, const std::vector<int64_t>& strides, const Shape& to, std::vector<int64_t>& matched) {
  matched.assign(to.size(), 0);
  if (shape.size() > to.size()) return false;
  const std::size_t skip = to.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (shape[i] != to[skip + i]) return false;
    matched[skip + i] = strides[i];
  }
  return true;
}

// Whether no two elements can share memory, and every offset fits: |stride| of each axis exceeds the reach of the smaller ones.
bool disjoint(const Shape& shape, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] > 1) axes.emplace_back(std::abs(strides[i]), shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

// The lowest and the highest offset of a view.
std::pair<int64_t, int64_t> span(const Shape& shape, const std::vector<int64_t>& strides) {
  int64_t low = 0;
  int64_t high = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return {0, -1};
    (strides[i] < 0 ? low : high) += strides[i] * (shape[i] - 1);
  }
  return {low, high};
}

Status check_strides(Role role, const Shape& shape, const std::vector<int64_t>& strides) {
  if (strides.size() != shape.size()) {
    return error(Code::bad_stride,
                 text(name(role)) + " has " + std::to_string(strides.size()) + " strides for " + std::to_string(shape.size()) + " axes");
  }
  int64_t room = most_elements;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] <= 1) continue;
    if (strides[i] < -room || strides[i] > room || std::abs(strides[i]) > room / (shape[i] - 1)) {
      return error(Code::bad_stride, text(name(role)) + " has strides " + text(strides) + ": they reach further than 2^58 elements");
    }
    room -= std::abs(strides[i]) * (shape[i] - 1);
  }
  return {};
}

// A view whose shape and strides have been checked against the call: the stride along every axis of its domain.
template <class Byte>
Status resolve_view(const Axes& axes, Role role, const BasicView<Byte>& view, bool memory, std::vector<int64_t>& strides) {
  if (Status s = check_extents(role, view.shape); !s.ok()) return s;
  const std::vector<int64_t> own = strides_of(view);
  if (Status s = check_strides(role, view.shape, own); !s.ok()) return s;
  const auto refused = [&](const std::string& expected) {
    return error(Code::bad_shape, text(name(role)) + " has shape " + text(view.shape) + ": expected " + expected);
  };
  switch (domain(role)) {
    case Domain::elements:
      if (view.shape != axes.x) return refused("the shape of x, " + text(axes.x));
      strides = own;
      break;
    case Domain::parameter:
      if (axes.grouping == Grouping::trailing) {
        if (!broadcast(view.shape, own, axes.x, strides)) {
          return refused(text(Shape(axes.x.begin() + axes.axis, axes.x.end())) + ", or what broadcasts to " + text(axes.x));
        }
        break;
      }
      if (const Shape expected{axes.x[static_cast<std::size_t>(axes.axis)]}; !match(view.shape, own, expected, strides)) {
        return refused(text(expected));
      }
      break;
    case Domain::statistic:
      if (const Shape expected = statistic_shape(axes); !match(view.shape, own, expected, strides)) return refused(text(expected));
      break;
  }
  const auto [low, high] = span(view.shape, own);
  if (memory && view.data == nullptr && low <= high) return error(Code::bad_tensor, text(name(role)) + " has elements but no memory");
  return {};
}

// The stride of a tensor along axis i of x, before the channel axis is split.
int64_t stride_along(const Axes& axes, Role role, const std::vector<int64_t>& strides, int i) {
  const auto at = static_cast<std::size_t>(i);
  switch (domain(role)) {
    case Domain::elements:
      return strides[at];
    case Domain::parameter:
      if (axes.grouping == Grouping::trailing) return strides[at];
      return i == axes.axis ? strides[0] : 0;
    case Domain::statistic:
      if (axes.grouping == Grouping::trailing) return i < axes.axis ? strides[at] : 0;
      if (axes.grouping == Grouping::channel_groups) return i == 0 ? strides[0] : 0;
      return i == axes.axis ? strides[0] : 0;
  }
  return 0;
}

Status check_attributes(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  const OpInfo& op = info(spec.op);
  const double epsilon = spec.effective_epsilon();
  if (!std::isfinite(epsilon) || epsilon < 0) {
    return error(Code::bad_epsilon, "epsilon is " + text(epsilon) + ": expected a finite number, zero or more");
  }
  if (!(spec.momentum >= 0 && spec.momentum <= 1)) {
    return error(Code::bad_momentum, "momentum is " + text(spec.momentum) + ": expected a number from 0 to 1");
  }
  if (spec.profile.variance == Estimator::unbiased && !op.estimates_variance()) {
    return error(Code::bad_parameter, text(op.name) + " estimates no variance: unbiased says nothing about it");
  }
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    if (inputs[role] && !op.inputs.contain(role)) return error(Code::bad_tensor, text(op.name) + " takes no input " + text(name(role)));
    if (!inputs[role] && op.required.contain(role)) return error(Code::bad_tensor, text(op.name) + " needs the input " + text(name(role)));
    if (outputs[role] && !op.outputs.contain(role)) return error(Code::bad_tensor, text(op.name) + " has no output " + text(name(role)));
    if (outputs[role] && !inputs[role] && (role == Role::running_mean || role == Role::running_variance)) {
      return error(Code::bad_tensor, "updating " + text(name(role)) + " needs its old value as an input");
    }
  }
  if (spec.profile.cast_before_gain && outputs[Role::y] == std::nullopt && outputs[Role::xhat]) {
    return error(Code::bad_tensor, "xhat under cast_before_gain needs y: it is rounded to the format of y");
  }
  return {};
}

// Memory of one output must not be that of an input or of another output, save a view that is replaced in place.
Status check_overlap(const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  struct Extent {
    const std::byte* begin;
    const std::byte* end;
  };
  const auto extent = [](const auto& view) {
    const auto [low, high] = span(view.shape, strides_of(view));
    const std::int64_t size = info(view.format).bytes();
    const std::byte* data = view.data;
    return low > high ? Extent{nullptr, nullptr} : Extent{data + low * size, data + (high + 1) * size};
  };
  const auto overlap = [](const Extent& a, const Extent& b) { return std::less<>{}(a.begin, b.end) && std::less<>{}(b.begin, a.end); };
  for (std::size_t o = 0; o < role_count; ++o) {
    const auto out = static_cast<Role>(o);
    if (!outputs[out]) continue;
    const View& view = *outputs[out];
    for (std::size_t i = 0; i < role_count; ++i) {
      const auto other = static_cast<Role>(i);
      if (i < o && outputs[other] && overlap(extent(view), extent(*outputs[other]))) {
        return error(Code::bad_tensor,
                     "the outputs " + text(name(other)) + " and " + text(name(out)) + " may share memory: their spans overlap");
      }
      if (!inputs[other] || !overlap(extent(view), extent(*inputs[other]))) continue;
      const ConstView& source = *inputs[other];
      const bool same =
          view.data == source.data && view.shape == source.shape && view.format == source.format && strides_of(view) == strides_of(source);
      const bool replaces = domain(out) == domain(other) && (domain(out) == Domain::elements || out == other);
      if (!same || !replaces) {
        return error(Code::bad_tensor, "the output " + text(name(out)) + " may share memory with the input " + text(name(other)) +
                                           ": their spans overlap, and it is not that very view");
      }
    }
  }
  return {};
}

}  // namespace

Result<Nest> make_nest(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, bool memory) {
  if (Status s = check_attributes(spec, inputs, outputs); !s.ok()) return s;
  const Shape& x = inputs[Role::x]->shape;
  if (Status s = check_extents(Role::x, x); !s.ok()) return s;
  Result<Axes> resolved = resolve(spec, x);
  if (!resolved.ok()) return resolved.status();
  const Axes& axes = *resolved;

  ByRole<std::vector<int64_t>> in;
  ByRole<std::vector<int64_t>> out;
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    if (inputs[role]) {
      if (Status s = resolve_view(axes, role, *inputs[role], true, in[role].emplace()); !s.ok()) return s;
    }
    if (outputs[role]) {
      const View& view = *outputs[role];
      if (Status s = resolve_view(axes, role, view, memory, out[role].emplace()); !s.ok()) return s;
      if (!view.strides.empty() && !disjoint(view.shape, view.strides)) {
        return error(Code::bad_stride, "the output " + text(name(role)) + " has strides " + text(view.strides) + " for shape " +
                                           text(view.shape) + ": elements may share memory");
      }
    }
  }
  if (memory) {
    if (Status s = check_overlap(inputs, outputs); !s.ok()) return s;
  }

  Nest nest{{}, {}, 1, 1};
  const auto push = [&](bool kept, const Loop& loop) {
    (kept ? nest.over_groups : nest.in_group).push_back(loop);
    (kept ? nest.groups : nest.n) *= loop.extent;
  };
  for (int i = 0; i < axes.rank(); ++i) {
    Loop loop{x[static_cast<std::size_t>(i)], {}};
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (in[role]) loop.stride.in[r] = stride_along(axes, role, *in[role], i);
      if (out[role]) loop.stride.out[r] = stride_along(axes, role, *out[role], i);
    }
    if (axes.grouping != Grouping::channel_groups || i != axes.axis) {
      push(axes.kept(i), loop);
      continue;
    }
    // Channel c is channel c mod k of group c div k, k = channels/groups.
    const int64_t k = axes.groups == 0 ? 0 : loop.extent / axes.groups;
    Loop outer{axes.groups, {}};
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const bool statistic = domain(role) == Domain::statistic;
      if (in[role]) outer.stride.in[r] = statistic ? (*in[role])[1] : k * loop.stride.in[r];
      if (out[role]) outer.stride.out[r] = statistic ? (*out[role])[1] : k * loop.stride.out[r];
    }
    loop.extent = k;
    push(true, outer);
    push(false, loop);
  }
  const bool running = outputs[Role::running_variance] && spec.profile.running_variance == Estimator::unbiased;
  if (nest.n == 1 && nest.groups > 0 && (spec.profile.variance == Estimator::unbiased || running)) {
    return error(Code::bad_shape,
                 "x of shape " + text(x) + " has one value per group: an unbiased " + (running ? "running " : "") + "variance needs two");
  }
  return nest;
}

Result<Shape> tensor_shape(const Spec& spec, const Shape& x, Role role) {
  if (Status s = check_extents(Role::x, x); !s.ok()) return s;
  if (const OpInfo& op = info(spec.op); !op.inputs.contain(role) && !op.outputs.contain(role)) {
    return error(Code::bad_tensor, text(op.name) + " has no tensor " + text(name(role)));
  }
  Result<Axes> axes = resolve(spec, x);
  if (!axes.ok()) return axes.status();
  switch (domain(role)) {
    case Domain::elements:
      return x;
    case Domain::statistic:
      return statistic_shape(*axes);
    case Domain::parameter:
      if (axes->grouping == Grouping::trailing) return Shape(x.begin() + axes->axis, x.end());
      return Shape{x[static_cast<std::size_t>(axes->axis)]};
  }
  return x;
}

}  // namespace norma
