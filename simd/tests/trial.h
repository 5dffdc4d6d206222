// One call of the production path and the same call of the reference, from one description. Every output is compared bit for bit, and
// every byte that belongs to no output has to be what it was.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "norma/simd.h"
#include "scale.h"
#include "testing.h"

namespace norma::simd {

using testing::Random;
using testing::Tensor;

inline constexpr Op offered_ops[] = {Op::layer_norm,           Op::rms_norm,   Op::batch_norm_training,
                                     Op::batch_norm_inference, Op::group_norm, Op::instance_norm};
inline constexpr Format offered_formats[] = {Format::f32, Format::f64, Format::f16, Format::bf16};

[[nodiscard]] inline bool by_row(const Call& c) { return info(c.op).grouping == Grouping::trailing; }
[[nodiscard]] inline bool channels_first(const Call& c) { return c.layout == Layout::channels_first; }

// The shape of x for the reference, and its channel axis.
[[nodiscard]] inline Shape shape_of(const Call& c) {
  const auto extent = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  if (by_row(c)) return {extent(c.rows), extent(c.cols)};
  return channels_first(c) ? Shape{extent(c.cases), extent(c.channels), extent(c.positions)}
                           : Shape{extent(c.cases), extent(c.positions), extent(c.channels)};
}
[[nodiscard]] inline Spec spec_of(const Call& c) {
  Spec spec = testing::spec_of(c.op, c.epsilon, by_row(c) || !channels_first(c) ? -1 : 1);
  spec.profile = c.profile;
  spec.momentum = c.momentum;
  if (c.op == Op::group_norm) spec.groups = static_cast<std::int64_t>(c.groups);
  return spec;
}

// What lies contiguous, and how often.
[[nodiscard]] inline std::size_t lines(const Call& c) { return by_row(c) ? c.rows : channels_first(c) ? c.cases : c.cases * c.positions; }
[[nodiscard]] inline std::size_t line_length(const Call& c) {
  return by_row(c) ? c.cols : channels_first(c) ? c.channels * c.positions : c.channels;
}
[[nodiscard]] inline std::size_t elements(const Call& c) { return lines(c) * line_length(c); }
[[nodiscard]] inline std::size_t parameters(const Call& c) { return by_row(c) ? c.cols : c.channels; }

// Where an element belongs, asked of every element.
struct Membership {
  std::size_t group;
  std::size_t parameter;
};
[[nodiscard]] inline Membership membership(const Call& c, std::size_t i) {
  if (by_row(c)) return {i / c.cols, i % c.cols};
  const std::size_t channel = channels_first(c) ? i / c.positions % c.channels : i % c.channels;
  const std::size_t instance = i / (c.channels * c.positions);
  if (c.op == Op::group_norm) return {instance * c.groups + channel / (c.channels / c.groups), channel};
  return {c.op == Op::instance_norm ? instance * c.channels + channel : channel, channel};
}
[[nodiscard]] inline std::size_t group_count(const Call& c) {
  if (by_row(c)) return c.rows;
  return c.op == Op::group_norm ? c.cases * c.groups : c.op == Op::instance_norm ? c.cases * c.channels : c.channels;
}

[[nodiscard]] inline bool large(Role role) { return role == Role::x || role == Role::residual || role == Role::y || role == Role::sum; }
[[nodiscard]] inline Format format_of(const Call& c, Role role) {
  return large(role) ? c.format : role == Role::gamma || role == Role::beta ? c.params : c.statistics;
}
[[nodiscard]] inline Shape shape_of(const Call& c, Role role) {
  if (large(role)) return shape_of(c);
  const bool per_group = role == Role::rstd || (role == Role::mean && !info(c.op).given_statistics);
  return {static_cast<std::int64_t>(per_group ? group_count(c) : parameters(c))};
}

struct Place {
  std::size_t offset = 0;     // bytes past an address divisible by 64
  std::ptrdiff_t stride = 0;  // as in a Call
};

struct Trial {
  Call call;  // without pointers and strides
  ByRole<Tensor> inputs;
  std::vector<Role> outputs{Role::y};
  ByRole<Place> places;
  ByRole<Role> on;  // outputs in the memory of an input
  std::string note;

  Tensor& fill(Role role, const std::vector<double>& values) {
    inputs[role] = Tensor::of(format_of(call, role), shape_of(call, role), values);
    return *inputs[role];
  }
  [[nodiscard]] bool wants(Role role) const { return std::find(outputs.begin(), outputs.end(), role) != outputs.end(); }
};

[[nodiscard]] inline std::string text(const Trial& t) {
  const Call& c = t.call;
  std::ostringstream out;
  out << info(c.op).name << (c.accuracy == Accuracy::fast ? " fast " : " ") << info(c.format).name << " params " << info(c.params).name
      << " statistics " << info(c.statistics).name;
  if (by_row(c))
    out << " rows " << c.rows << " cols " << c.cols;
  else
    out << " cases " << c.cases << " channels " << c.channels << " positions " << c.positions << " groups " << c.groups
        << (channels_first(c) ? " channels first" : " channels last");
  out << " epsilon " << std::hexfloat << c.epsilon << (c.profile.gain_offset ? " gain offset" : "");
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (t.inputs[role] && role != Role::x) out << " +" << name(role);
    if (t.on[role]) out << " " << name(role) << " on " << name(*t.on[role]);
    if (t.places[role]) out << " " << name(role) << " at " << t.places[role]->offset << " stride " << t.places[role]->stride;
  }
  out << " " << t.note;
  return out.str();
}

// Lines of a tensor in memory, anywhere, with known bytes around and between them.
class Slab {
 public:
  static constexpr std::byte canary{0xA5};

  Slab(std::size_t count, std::size_t length, Format format, Place place)
      : count_(count),
        length_(length),
        width_(static_cast<std::size_t>(info(format).bytes())),
        stride_(place.stride == 0 ? static_cast<std::ptrdiff_t>(length) : place.stride) {
    const std::size_t step = static_cast<std::size_t>(std::abs(stride_)) * width_;
    bytes_.assign(192 + place.offset + (count == 0 ? 0 : count - 1) * step + length * width_, canary);
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(bytes_.data()) % 64;
    first_ = 128 - misaligned + place.offset;
    if (stride_ < 0 && count > 0) first_ += (count - 1) * step;
  }
  [[nodiscard]] std::byte* data() { return bytes_.data() + first_; }
  void put(const Tensor& t) {
    for_each_line(
        [&](std::size_t line, std::size_t at) { std::memcpy(&bytes_[at], t.bytes().data() + line * length_ * width_, length_ * width_); });
  }
  [[nodiscard]] Tensor get(Format format, Shape shape) {
    Tensor t(format, std::move(shape));
    for (std::size_t i = 0; i < t.size(); ++i) {
      t.set(i, load(format, &bytes_[line_at(i / length_) + i % length_ * width_]));
    }
    return t;
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  // No byte outside the lines has changed.
  [[nodiscard]] bool clean() {
    std::vector<std::byte> rest = bytes_;
    for_each_line(
        [&](std::size_t, std::size_t at) { std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(at), length_ * width_, canary); });
    return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == canary; });
  }

 private:
  [[nodiscard]] std::size_t line_at(std::size_t line) const {
    return first_ + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(line) * stride_ * static_cast<std::ptrdiff_t>(width_));
  }
  template <class F>
  void for_each_line(const F& f) {
    for (std::size_t i = 0; i < count_ && length_ > 0; ++i) f(i, line_at(i));
  }
  std::size_t count_, length_, width_;
  std::ptrdiff_t stride_;
  std::size_t first_ = 0;
  std::vector<std::byte> bytes_;
};

// Puts a pointer and a stride where a Call has them.
inline void point(Call& c, Role role, bool output, std::byte* data, std::ptrdiff_t stride) {
  switch (role) {
    case Role::x:
      c.x = data, c.x_stride = stride;
      break;
    case Role::residual:
      c.residual = data, c.residual_stride = stride;
      break;
    case Role::y:
      c.y = data, c.y_stride = stride;
      break;
    case Role::sum:
      c.sum = data, c.sum_stride = stride;
      break;
    case Role::gamma:
      c.gamma = data;
      break;
    case Role::beta:
      c.beta = data;
      break;
    case Role::mean:
      if (output)
        c.mean = data;
      else
        c.mean_in = data;
      break;
    case Role::variance:
      c.variance_in = data;
      break;
    case Role::rstd:
      c.rstd = data;
      break;
    case Role::running_mean:
      c.running_mean = data;
      break;
    case Role::running_variance:
      c.running_variance = data;
      break;
    default:
      FAIL() << "a call has no " << name(role);
  }
}

// MMX instructions take the registers of long double, and it is NaN until they are given back: no compiler's business, unasked.
[[nodiscard]] inline bool long_double_is_free() {
#if HWY_ARCH_X86
  std::array<std::uint32_t, 7> environment{};
  asm volatile("fnstenv %0\n\tfldenv %0" : "+m"(environment));
  return (environment[2] & 0xffff) == 0xffff;
#else
  return true;
#endif
}

// Runs the production path; a failure says what was refused, or which memory was touched.
[[nodiscard]] inline ::testing::AssertionResult run(const Trial& t, ByRole<Tensor>& results) {
  Call call = t.call;
  ByRole<Slab> slabs, updated;
  const auto place = [&](ByRole<Slab>& to, Role role, bool output) {
    const Place at = t.places[role].value_or(Place{});
    const Shape shape = shape_of(call, role);
    const std::size_t count = large(role) ? lines(call) : 1;
    to[role].emplace(count, large(role) ? line_length(call) : static_cast<std::size_t>(shape[0]), format_of(call, role), at);
    if (t.inputs[role] && !(output && role == Role::mean)) to[role]->put(*t.inputs[role]);
    point(call, role, output, to[role]->data(), large(role) ? at.stride : 0);
  };
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (t.inputs[role] && !t.wants(role)) place(slabs, role, false);
  }
  ByRole<Slab> before = slabs;
  for (const Role role : t.outputs) {
    if (!t.on[role]) {
      place(updated, role, true);
      continue;
    }
    const Place at = t.places[*t.on[role]].value_or(Place{});
    point(call, role, true, slabs[*t.on[role]]->data(), at.stride);
  }
  if (const Status status = normalize(call); !status.ok())
    return ::testing::AssertionFailure() << "refused: " << status.message << "\n" << text(t);
  if (!long_double_is_free()) return ::testing::AssertionFailure() << "an MMX register is in use\n" << text(t);
  for (const Role role : t.outputs) {
    Slab& slab = t.on[role] ? *slabs[*t.on[role]] : *updated[role];
    if (!slab.clean()) return ::testing::AssertionFailure() << name(role) << ": bytes outside were written\n" << text(t);
    results[role] = slab.get(format_of(call, role), shape_of(call, role));
    if (t.on[role]) slabs[*t.on[role]].reset();
  }
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (slabs[role] && slabs[role]->bytes() != before[role]->bytes()) {
      return ::testing::AssertionFailure() << "the input " << name(role) << " was written\n" << text(t);
    }
  }
  return ::testing::AssertionSuccess();
}

[[nodiscard]] inline ByRole<Tensor> expected(const Trial& t) {
  const Call& c = t.call;
  ByRole<Tensor> results;
  const Spec spec = spec_of(c);
  for (const Role role : t.outputs) {
    Result<Shape> shape = tensor_shape(spec, shape_of(c), role);
    EXPECT_TRUE(shape.ok()) << shape.status().message << "\n" << text(t);
    if (shape.ok()) results[role] = Tensor(format_of(c, role), *shape);
  }
  const Status status = testing::Call{spec, t.inputs}.run(results);
  EXPECT_TRUE(status.ok()) << status.message << "\n" << text(t);
  return results;
}

[[nodiscard]] inline ::testing::AssertionResult same(const Trial& t, const ByRole<Tensor>& got, const ByRole<Tensor>& want) {
  for (const Role role : t.outputs) {
    const Tensor& g = *got[role];
    const Tensor& w = *want[role];
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (g.bits(i) == w.bits(i)) continue;
      auto failure = ::testing::AssertionFailure();
      failure << name(role) << "[" << i << "] is " << testing::hex(g.bits(i)) << " (" << g[i] << "), should be " << testing::hex(w.bits(i))
              << " (" << w[i] << ")\n"
              << text(t);
      if (!large(role)) return failure;
      const Membership m = membership(t.call, i);
      for (const Role param : {Role::gamma, Role::beta, Role::mean, Role::variance}) {
        if (t.inputs[param]) failure << "\n" << name(param) << " " << testing::hex(t.inputs[param]->bits(m.parameter));
      }
      for (const Role input : {Role::x, Role::residual}) {
        if (!t.inputs[input]) continue;
        failure << "\n" << name(input) << " " << testing::hex(t.inputs[input]->bits(i)) << " in {";
        int shown = 0;
        for (std::size_t k = 0; k < w.size() && shown < 64; ++k) {
          if (membership(t.call, k).group == m.group) failure << testing::hex(t.inputs[input]->bits(k)) << (++shown == 64 ? " ..." : ", ");
        }
        failure << "}";
      }
      return failure;
    }
  }
  return ::testing::AssertionSuccess();
}

// The instruction sets, one after the other. What is compiled is the library's decision, made by the same header.
[[nodiscard]] inline std::vector<std::int64_t> usable_targets() {
  static const std::vector<std::int64_t> all = hwy::SupportedAndGeneratedTargets();
  return all;
}
class OnTarget {
 public:
  explicit OnTarget(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~OnTarget() { hwy::SetSupportedTargetsForTest(0); }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

// The claim of the production path, on every instruction set: the bits of the reference.
[[nodiscard]] inline ::testing::AssertionResult equals_reference(const Trial& t) {
  const ByRole<Tensor> want = expected(t);
  for (const std::int64_t target : usable_targets()) {
    const OnTarget scope(target);
    ByRole<Tensor> got;
    ::testing::AssertionResult result = run(t, got);
    if (result) result = same(t, got, want);
    if (!result) return ::testing::AssertionFailure() << hwy::TargetName(target) << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace norma::simd
