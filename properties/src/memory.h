// Memory that a subject and the harness share: each tensor between two pages that nobody may touch, against one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "norma/harness.h"

namespace norma::properties {

constexpr std::size_t most_axes = 8;

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

// How many bytes the largest tensor of a case takes, with its gaps.
[[nodiscard]] std::size_t room_for(const Case& c);
// The outputs of a case: format and shape.
Result<ByRole<Tensor>> empty_outputs(const Case& c);

class SharedMemory {
 public:
  // `capacity` bytes a tensor. Null data where there is no memory.
  explicit SharedMemory(std::size_t capacity, std::size_t control);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] bool ok() const { return base_ != nullptr; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] void* control() const { return base_; }
  // To be called by the subject's process: from now on it can only read inputs.
  void protect() const;

  // Lays a case out. Outputs hold a NaN that no arithmetic makes, what is beside tensors a pattern.
  void put(const Case& c, const ByRole<Tensor>& outputs, Slots& inputs, Slots& results) const;
  // Reads the outputs back. The sentence is what the subject touched or left that it should not have.
  [[nodiscard]] std::string take(const Case& c, const Slots& results, ByRole<Tensor>& outputs) const;
  // Where an address is, in words: "4 bytes beyond the end of y".
  [[nodiscard]] std::string describe(const void* address, const Slots& inputs, const Slots& results) const;

 private:
  [[nodiscard]] std::byte* slot(std::size_t index) const;
  void place(const Case& c, Role role, const Tensor& like, std::size_t index, Placed& placed) const;

  std::byte* base_ = nullptr;
  std::size_t control_ = 0, capacity_ = 0, whole_ = 0;
};

}  // namespace norma::properties
