// Tensors in memory that is not their own: where their elements lie, and how they get there and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "norma/harness.h"

namespace norma::properties {

constexpr std::size_t most_axes = 8;
constexpr std::size_t line = 64;  // bytes; what Placement::offset counts from

// A tensor as it lies there. In shared memory: nothing here points to anything private.
struct Placed {
  bool present = false;
  Format format = Format::f32;
  std::int32_t rank = 0;
  std::array<std::int64_t, most_axes> shape{};
  std::array<std::int64_t, most_axes> strides{};
  std::byte* data = nullptr;
  std::size_t bytes = 0;  // from the first element to the end of the last
};

// The tensors of a call: inputs, which the subject can only read, and outputs. A running statistic is an output that holds the old value.
using Slots = std::array<Placed, role_count>;

[[nodiscard]] constexpr bool updated(Role role) { return role == Role::running_mean || role == Role::running_variance; }
[[nodiscard]] bool in_place(const Case& c);

// The tensor with the strides that the case asks for, and no place yet.
[[nodiscard]] Placed placed(const Case& c, Role role, Format format, const Shape& shape);
// How many bytes the largest tensor of a case takes, with its gaps.
[[nodiscard]] std::size_t room_for(const Case& c, const ByRole<Tensor>& outputs);
// The outputs of a case: format and shape.
Result<ByRole<Tensor>> empty_outputs(const Case& c);

// A subject may well compute the NaN that an output was filled with, from one like it in x, but not two of them: what is found unwritten is
// asked for again over the other.
enum class Blank : std::uint8_t { first, second };

// The pattern of what is not yet written: a quiet NaN with a payload of its own. Formats of 8 bits have no room for two.
struct Pattern {
  Pattern(Format format, Blank blank);

  std::array<std::byte, 8> bytes{};
};

constexpr std::byte canary{0xff};  // of what is beside tensors

void scatter(const Tensor& from, const Placed& to);
void fill(const Placed& to, const Pattern& pattern);
// Leaves the canary where an element was, so that all that is left has to be that. Tells whether some element is the pattern.
bool gather(const Placed& from, const Pattern& pattern, Tensor& to);
// "y[17] was not written", if there is an element that is blank after a call over either pattern.
[[nodiscard]] std::string unwritten(const Case& c, const ByRole<Tensor>& over_first, const ByRole<Tensor>& over_second);

}  // namespace norma::properties
