// How a Norma library says that something is wrong: a code to branch on, and one sentence that says what, where, and what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace norma {

enum class Code : std::uint8_t {
  ok,
  bad_shape,      // a negative extent, a product that overflows, a tensor whose shape is not the one the op defines
  bad_stride,     // strides of the wrong rank, or an output whose elements share memory
  bad_axis,       // outside [-rank, rank), or more axes asked for than there are
  bad_groups,     // fewer than one, or no divisor of the channel count
  bad_epsilon,    // negative, infinite or NaN
  bad_momentum,   // outside [0, 1], or NaN
  bad_tensor,     // missing, null, or one that the op does not take
  bad_parameter,  // a number or a word that is no value of the field it was given for
  bad_file,       // a file that is not what its format says it must be
  io_error,       // the operating system refused to read or write
  no_memory,      // what a call needs beside its tensors could not be had
};

struct [[nodiscard]] Status {
  Code code = Code::ok;
  std::string message;

  [[nodiscard]] bool ok() const { return code == Code::ok; }
};

// A value, or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor): so that functions can `return value;`
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor): and `return Status{...};`

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  [[nodiscard]] const Status& status() const { return std::get<Status>(state_); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace norma
