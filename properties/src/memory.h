// Memory that a subject and the harness share: each tensor between two walls that nobody may touch, against one of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "placed.h"

namespace norma::properties {

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
  // Whether a child that is made now has this memory. It is one subject's, and no business of the others.
  void inherit(bool yes) const;
  // To be called by the subject's process: whether it can only read inputs.
  void protect(bool yes) const;

  // Lays a case out. Outputs hold a NaN, what is beside tensors is all ones, a NaN too, which spoils the results of who reads it.
  void put(const Case& c, const ByRole<Tensor>& outputs, Blank blank, Slots& inputs, Slots& results) const;
  // Reads the outputs back.
  struct Taken {
    std::string fault;   // what the subject wrote to that is not its own
    bool blank = false;  // some element is as it was
  };
  [[nodiscard]] Taken take(Blank blank, const Slots& results, ByRole<Tensor>& outputs) const;
  // What happened at an address, in words: "wrote 4 bytes beyond the end of y".
  [[nodiscard]] std::string describe(const void* address, std::string_view did, const Slots& inputs, const Slots& results) const;

 private:
  [[nodiscard]] std::byte* slot(std::size_t index) const;
  [[nodiscard]] Placed place(const Case& c, Role role, const Tensor& like, std::size_t index) const;

  std::byte* base_ = nullptr;
  std::size_t control_ = 0, capacity_ = 0, whole_ = 0;
};

}  // namespace norma::properties
