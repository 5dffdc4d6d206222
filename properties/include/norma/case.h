// One call of a normalization as a test knows it: what is asked, the tensors that go in, and how they lie in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "norma/spec.h"
#include "norma/status.h"
#include "norma/tensor_file.h"

namespace norma::properties {

// How the tensors of a call lie in memory, and by how many threads it is done. None of it may change a value.
struct Placement {
  bool channels_last = false;  // x, residual, sum and y, of the ops with a channel axis: channels contiguous
  std::int64_t row_gap = 0;    // elements between the end of a row (the last axis in memory) and the next one
  std::int64_t offset = 0;     // elements between a multiple of 64 bytes and the first one
  bool in_place = false;       // y where x is
  int threads = 0;             // of a subject that can be told; 0 for as many as it likes

  friend bool operator==(const Placement&, const Placement&) = default;
};

struct Case {
  Spec spec;
  Format format = Format::f32;  // of y
  ByRole<Tensor> inputs;        // contiguous, in logical order; running statistics are among them
  Roles outputs{Role::y};       // what is asked for
  Placement placement;
  std::uint64_t salt = 0;  // what a law chooses at random (a permutation, a factor), it takes from this
  std::string families;    // what the generator says of it; no part of the call

  [[nodiscard]] const Tensor& x() const { return *inputs[Role::x]; }
  [[nodiscard]] std::int64_t elements() const;
};

// The axis of a spec, not negative.
[[nodiscard]] int axis_of(const Spec& spec, std::size_t rank);
// Elements of some axes of a shape.
[[nodiscard]] std::int64_t product(Shape::const_iterator begin, Shape::const_iterator end);
// Whether a tensor has no gaps between its elements.
template <class Byte>
[[nodiscard]] bool contiguous(const BasicView<Byte>& view) {
  if (view.strides.empty() || product(view.shape.begin(), view.shape.end()) == 0) return true;
  std::int64_t stride = 1;
  for (std::size_t i = view.shape.size(); i-- > 0; stride *= view.shape[i]) {
    if (view.shape[i] != 1 && view.strides[i] != stride) return false;
  }
  return true;
}

// Which group an element of x belongs to, and where it finds its gain and bias.
struct Membership {
  std::vector<std::int64_t> group;      // of each element of x
  std::vector<std::int64_t> parameter;  // index into gamma and beta
  std::int64_t groups = 0;
};
[[nodiscard]] Membership membership(const Case& c);

// The bits, and the value, of an element of a tensor.
[[nodiscard]] Bits bits_at(const Tensor& t, std::int64_t i);
void set_bits(Tensor& t, std::int64_t i, Bits bits);
[[nodiscard]] double value_of(Format format, Bits bits);  // exact in all formats
[[nodiscard]] double value_at(const Tensor& t, std::int64_t i);
[[nodiscard]] std::int64_t size_of(const Tensor& t);
[[nodiscard]] Tensor tensor_of(Role role, Format format, Shape shape);  // zeros
// The number nearest to a double.
[[nodiscard]] Bits nearest_bits(Format format, double value);

// A case on one line that reads back as the same case (but for `families`), for people to paste:
//     layer_norm f32 x=f32[2,3]:3f800000,40000000,… gamma=f32[3]:… epsilon=0x1p-17 want=y,mean salt=7 gap=1
// Equal elements in a row are written 3f800000*97.
[[nodiscard]] std::string to_line(const Case& c);
// No tensor has more than `most` elements.
Result<Case> parse_case(std::string_view line, std::int64_t most = std::int64_t{1} << 28);

// A number that stands for a text, the same everywhere and for ever (FNV-1a).
[[nodiscard]] std::uint64_t fingerprint(std::string_view text);

// The same as C++ for a test: the tensors as arrays of bits and the call of norma::compute.
[[nodiscard]] std::string to_cpp(const Case& c);

// The same as a golden case without an id, one JSON object: comment, flags (none), severity, op, dtype (of y), profile, shape, axis,
// groups, epsilon and momentum as hex floats, inputs and outputs. A tensor is its dtype, its shape, and the bits of its elements as
// little-endian hexadecimal digits; an output, among them mean and rstd where the op has them, is correctly rounded and has `lo` and `hi`
// beside it: the least and the largest number that the bound for the default arithmetic allows (truth.h), NaN where nothing but a NaN is
// right. Severity is `should` where the bound does not apply to all of it.
Result<std::string> to_golden(const Case& c, std::string_view comment);

}  // namespace norma::properties
