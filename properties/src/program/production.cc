#include "production.h"

#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "norma/case.h"
#include "norma/reference.h"
#include "norma/text.h"

namespace norma::program {
namespace {

Status not_offered(std::string_view what) {
  return {Code::bad_parameter, fmt::format("{}: not offered by the production path; --engine reference computes it", what)};
}

using properties::axis_of;
using properties::contiguous;

std::size_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  return static_cast<std::size_t>(properties::product(begin, end));
}

bool empty(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

Shape without_ones(Shape shape) {
  shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
  return shape;
}

// A gain or bias of rows: what broadcasts to x is right, but only one that is the same for all of them is offered.
Status check_row(Role role, const Shape& shape, const Shape& x, std::size_t axis) {
  bool broadcasts = shape.size() <= x.size();
  bool row = true;
  for (std::size_t i = 1; broadcasts && i <= x.size(); ++i) {
    const std::int64_t extent = i <= shape.size() ? shape[shape.size() - i] : 1;
    broadcasts = extent == 1 || extent == x[x.size() - i];
    row = row && extent == (x.size() - i >= axis ? x[x.size() - i] : 1);
  }
  const std::string expected = to_text(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end()));
  if (!broadcasts) return {Code::bad_shape, fmt::format("{} has shape {}: expected {}", name(role), to_text(shape), expected)};
  return row ? Status{} : not_offered(fmt::format("{} of shape {}, not {}", name(role), to_text(shape), expected));
}

// Shape and memory of one tensor.
template <class Byte>
Status check_view(const Spec& spec, Role role, const BasicView<Byte>& view, const Shape& x) {
  Result<Shape> expected = tensor_shape(spec, x, role);
  if (!expected.ok()) return expected.status();
  const bool elements = role == Role::x || role == Role::residual || role == Role::y || role == Role::sum;
  if (!elements && !contiguous(view)) return not_offered(fmt::format("{} with gaps between its elements", name(role)));
  if ((role == Role::gamma || role == Role::beta) && info(spec.op).grouping == Grouping::trailing) {
    return check_row(role, view.shape, x, static_cast<std::size_t>(axis_of(spec, x.size())));
  }
  if (elements ? view.shape == x : without_ones(view.shape) == without_ones(*expected)) return {};
  return {Code::bad_shape, fmt::format("{} has shape {}: expected {}", name(role), to_text(view.shape), to_text(*expected))};
}

// One format for several tensors: `first`, or f32.
class Common {
 public:
  Common(Role of, Format first) : of_(of), first_(first), format_(first) {}
  [[nodiscard]] Format format() const { return format_; }
  Status add(Role role, Format format) {
    if (format != first_ && format != Format::f32) {
      return not_offered(fmt::format("{} in {} with {} in {}", name(role), info(format).name, name(of_), info(first_).name));
    }
    if (seen_ && format != format_) {
      return not_offered(fmt::format("{} in {} beside {} in {}", name(role), info(format).name, name(seen_by_), info(format_).name));
    }
    seen_ = true;
    seen_by_ = role;
    format_ = format;
    return {};
  }

 private:
  Role of_;
  Format first_;
  Format format_;
  bool seen_ = false;
  Role seen_by_ = Role::x;
};

Status check_offer(const Spec& spec, Mode mode, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  const OpInfo& op = info(spec.op);
  const Profile& profile = spec.profile;
  const bool rows = op.grouping == Grouping::trailing;
  const auto of_op = [&](std::string_view what) { return fmt::format("{} of {}", what, op.name); };
  struct Check {
    bool refused;
    std::string what;
  };
  const std::array<Check, 11> checks{{
      {spec.op == Op::weight_norm, std::string(op.name)},
      {mode != Mode::nearest_even, "rounding other than nearest_even"},
      {profile.epsilon_placement == EpsilonPlacement::outside, "epsilon_placement outside"},
      {profile.variance == Estimator::unbiased && op.estimates_variance(), "variance_estimator unbiased"},
      {profile.cast_before_gain, "cast_before_gain"},
      {inputs[Role::residual] && profile.residual_sum == ResidualSum::exact, "residual_sum exact"},
      {inputs[Role::residual] && !rows, of_op("residual")},
      {outputs[Role::sum] && !inputs[Role::residual], "sum without residual"},
      {outputs[Role::variance].has_value(), of_op("the output variance")},
      {outputs[Role::deviation].has_value(), of_op("the output deviation")},
      {outputs[Role::xhat].has_value(), of_op("the output xhat")},
  }};
  for (const Check& check : checks) {
    if (check.refused) return not_offered(check.what);
  }
  return outputs[Role::y] ? Status{} : not_offered("a call without y");
}

// Formats of all tensors.
Status set_formats(const ByRole<ConstView>& inputs, const ByRole<View>& outputs, simd::Call& call) {
  call.format = inputs[Role::x]->format;
  if (info(call.format).width < 16) return not_offered(fmt::format("x in {}", info(call.format).name));
  Common params(Role::x, call.format);
  Common statistics(Role::x, call.format);
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    for (const bool output : {false, true}) {
      if (output ? !outputs[role].has_value() : !inputs[role].has_value()) continue;
      const Format format = output ? outputs[role]->format : inputs[role]->format;
      switch (role) {
        case Role::x:
        case Role::residual:
        case Role::y:
        case Role::sum:
          if (format == call.format) break;
          return not_offered(fmt::format("{} in {} with x in {}", name(role), info(format).name, info(call.format).name));
        case Role::gamma:
        case Role::beta:
          if (Status s = params.add(role, format); !s.ok()) return s;
          break;
        default:
          if (!output && !outputs[role] && (role == Role::running_mean || role == Role::running_variance)) break;  // nobody asks for it
          if (Status s = statistics.add(role, format); !s.ok()) return s;
          break;
      }
    }
  }
  call.params = params.format();
  call.statistics = statistics.format();
  return {};
}

// Extents and layout. The axis exists: every tensor's shape has been checked.
Status set_extents(const Spec& spec, const Shape& x, simd::Call& call) {
  if (empty(x)) return {};  // however many groups there are of nothing
  const std::ptrdiff_t axis = axis_of(spec, x.size());
  const auto at = x.begin() + axis;
  const bool last = at + 1 == x.end();
  switch (info(spec.op).grouping) {
    case Grouping::trailing:
      call.rows = product(x.begin(), at);
      call.cols = product(at, x.end());
      return {};
    case Grouping::channel_groups:
      if (axis != 1 && !last) return not_offered(fmt::format("the channel axis {} of x of shape {}", axis, to_text(x)));
      [[fallthrough]];
    default:
      break;
  }
  call.channels = static_cast<std::size_t>(*at);
  call.groups = static_cast<std::size_t>(spec.groups.value_or(1));
  if (last && axis > 1) {
    call.layout = simd::Layout::channels_last;
    call.cases = static_cast<std::size_t>(x.front());
    call.positions = product(x.begin() + 1, at);
  } else {
    // Batch norm does not tell cases from positions, so any channel axis will do.
    call.cases = product(x.begin(), at);
    call.positions = product(at + 1, x.end());
  }
  return {};
}

// Axes [from, to) of a tensor as one axis: its step, if it has one. A step that is wanted has to be that; of a single place any is.
template <class Byte>
std::optional<std::ptrdiff_t> joint_step(const BasicView<Byte>& view, std::ptrdiff_t from, std::ptrdiff_t to, std::ptrdiff_t wanted) {
  std::ptrdiff_t step = wanted;
  std::ptrdiff_t next = wanted;
  for (std::ptrdiff_t i = to; i-- > from;) {
    const auto at = static_cast<std::size_t>(i);
    if (view.shape[at] == 1) continue;
    if (step == 0) step = next = view.strides[at];
    if (view.strides[at] != next) return std::nullopt;
    next *= view.shape[at];
  }
  return step;
}

// The step from one row to the next of x, residual, sum or y: a row is what lies contiguous (simd.h). With `as_last`, of a tensor of
// [cases, channels, positions...] whose channels lie contiguous.
template <class Byte>
Status set_stride(const Spec& spec, Role role, const BasicView<Byte>& view, bool as_last, std::ptrdiff_t& stride) {
  if (view.strides.empty() || empty(view.shape))
    return as_last ? not_offered(fmt::format("{} in another layout than x", name(role))) : Status{};
  const auto rank = static_cast<std::ptrdiff_t>(view.shape.size());
  const std::ptrdiff_t axis = axis_of(spec, view.shape.size());
  std::optional<std::ptrdiff_t> step;
  if (as_last) {
    step = joint_step(view, axis, axis + 1, 1) ? joint_step(view, axis + 1, rank, 0) : std::nullopt;
    const auto positions = static_cast<std::ptrdiff_t>(product(view.shape.begin() + axis + 1, view.shape.end()));
    if (step && !joint_step(view, 0, axis, *step * positions)) step.reset();
  } else {
    step = joint_step(view, axis, rank, 1) ? joint_step(view, 0, axis, 0) : std::nullopt;
  }
  if (!step || *step < 0) return not_offered(fmt::format("{} with such gaps between its elements", name(role)));
  stride = *step;
  return {};
}

// Strides of all tensors like x, which have one layout.
Status set_strides(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, simd::Call& call) {
  const bool channels = info(spec.op).grouping != Grouping::trailing && call.layout == simd::Layout::channels_first;
  bool as_last = false;
  if (Status s = set_stride(spec, Role::x, *inputs[Role::x], false, call.x_stride); !s.ok()) {
    as_last = channels && set_stride(spec, Role::x, *inputs[Role::x], true, call.x_stride).ok();
    if (!as_last) return s;
    call.layout = simd::Layout::channels_last;
  }
  Status status;
  if (inputs[Role::residual]) status = set_stride(spec, Role::residual, *inputs[Role::residual], as_last, call.residual_stride);
  if (status.ok() && outputs[Role::sum]) status = set_stride(spec, Role::sum, *outputs[Role::sum], as_last, call.sum_stride);
  if (status.ok()) status = set_stride(spec, Role::y, *outputs[Role::y], as_last, call.y_stride);
  return status;
}

}  // namespace

struct Threads::Arena {
  explicit Arena(std::size_t count) : arena(static_cast<int>(count)), threads(count) {
    // oneTBB would not go beyond the number of processors by itself. One limit for all arenas: of several, the least holds.
    static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, most_threads);
  }
  tbb::task_arena arena;
  std::size_t threads;
};

Threads::Threads(std::size_t threads) : arena_(std::make_unique<Arena>(threads)) {}
Threads::~Threads() = default;
std::size_t Threads::threads() const { return arena_->threads; }

void Threads::run(std::size_t tasks, void (*task)(void* context, std::size_t i), void* context) {
  arena_->arena.execute([&] {
    tbb::parallel_for(
        std::size_t{0}, tasks, [&](std::size_t i) { task(context, i); }, tbb::simple_partitioner());
  });
}

Threads& kept_threads(int count) {
  static std::map<int, Threads> all;
  return all.try_emplace(count, static_cast<std::size_t>(count)).first->second;
}

std::size_t all_threads() { return static_cast<std::size_t>(std::max(1, tbb::info::default_concurrency())); }

Status produce(const Spec& spec, Mode mode, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, const Production& how) {
  if (!inputs[Role::x]) return {Code::bad_tensor, "x is missing"};
  const Shape& x = inputs[Role::x]->shape;
  if (Status s = check_offer(spec, mode, inputs, outputs); !s.ok()) return s;
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    if (inputs[role]) {
      if (Status s = check_view(spec, role, *inputs[role], x); !s.ok()) return s;
    }
    if (!outputs[role]) continue;
    if (Status s = check_view(spec, role, *outputs[role], x); !s.ok()) return s;
    if ((role == Role::running_mean || role == Role::running_variance) && !inputs[role]) {
      return {Code::bad_tensor, fmt::format("updating {} needs its old value as an input", name(role))};
    }
    const bool statistic = role == Role::mean || role == Role::rstd;
    if (statistic && empty(x) && !empty(outputs[role]->shape)) return not_offered(fmt::format("{} of groups without elements", name(role)));
  }

  simd::Call call;
  call.op = spec.op;
  call.accuracy = how.accuracy;
  call.executor = how.executor;
  call.counters = how.counters;
  call.profile = spec.profile;
  call.profile.residual_sum = ResidualSum::rounded;  // says nothing where nothing is added
  call.epsilon = spec.effective_epsilon();
  call.momentum = spec.momentum;
  if (Status s = set_formats(inputs, outputs, call); !s.ok()) return s;
  if (Status s = set_extents(spec, x, call); !s.ok()) return s;
  if (Status s = set_strides(spec, inputs, outputs, call); !s.ok()) return s;

  const auto in = [&](Role role) -> const void* { return inputs[role] ? inputs[role]->data : nullptr; };
  const auto out = [&](Role role) -> void* { return outputs[role] ? outputs[role]->data : nullptr; };
  call.x = in(Role::x);
  call.residual = in(Role::residual);
  call.gamma = in(Role::gamma);
  call.beta = in(Role::beta);
  call.mean_in = in(Role::mean);
  call.variance_in = in(Role::variance);
  call.y = out(Role::y);
  call.sum = out(Role::sum);
  call.mean = out(Role::mean);
  call.rstd = out(Role::rstd);
  call.running_mean = out(Role::running_mean);
  call.running_variance = out(Role::running_variance);
  // simd updates running statistics where they are; nothing is written before it has agreed to the call.
  ByRole<std::vector<std::byte>> updated;
  for (const auto& [role, place] : {std::pair{Role::running_mean, &call.running_mean}, {Role::running_variance, &call.running_variance}}) {
    if (!outputs[role] || in(role) == out(role)) continue;
    const Shape& shape = outputs[role]->shape;
    const auto* old = static_cast<const std::byte*>(in(role));
    updated[role].emplace(old, old + product(shape.begin(), shape.end()) * info(outputs[role]->format).bytes());
    *place = updated[role]->data();
  }
  if (Status s = simd::normalize(call); !s.ok()) return s;
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    if (updated[role]) std::copy(updated[role]->begin(), updated[role]->end(), static_cast<std::byte*>(out(role)));
  }
  return {};
}

}  // namespace norma::program
