// What the tests of the reference share. Formats, values and rounding to them are written down here a second time, from the standards
// and through `double`, so that a test never asks the library what a bit pattern means.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "norma/reference.h"

namespace norma {

// How GoogleTest names them.
inline void PrintTo(Format format, std::ostream* to) { *to << info(format).name; }
inline void PrintTo(Op op, std::ostream* to) { *to << info(op).name; }

}  // namespace norma

namespace norma::testing {

inline constexpr Format all_formats[] = {Format::f16, Format::bf16, Format::f32, Format::f64, Format::f8_e4m3, Format::f8_e5m2};
inline constexpr Mode all_modes[] = {Mode::nearest_even, Mode::toward_zero, Mode::up, Mode::down};
inline constexpr Op all_ops[] = {Op::layer_norm, Op::rms_norm,      Op::batch_norm_training, Op::batch_norm_inference,
                                 Op::group_norm, Op::instance_norm, Op::weight_norm};

// For INSTANTIATE_TEST_SUITE_P over formats or ops.
struct ByName {
  template <class Param>
  std::string operator()(const Param& each) const {
    return std::string(info(each.param).name);
  }
};

// IEEE 754-2019 table 3.5; bfloat16 has the exponent of binary32; OCP 8-bit Floating Point Specification (2023) table 1.
struct Layout {
  int exponent_bits;
  int fraction_bits;
  int bias;
  bool infinity;

  [[nodiscard]] constexpr Bits sign() const { return Bits{1} << (exponent_bits + fraction_bits); }
  [[nodiscard]] constexpr Bits largest() const { return infinity ? sign() - (Bits{1} << fraction_bits) - 1 : sign() - 2; }
  [[nodiscard]] constexpr int least_exponent() const { return 1 - bias - fraction_bits; }  // of the last place of a subnormal
  [[nodiscard]] constexpr int greatest_exponent() const { return (infinity ? (1 << exponent_bits) - 2 : (1 << exponent_bits) - 1) - bias; }
  [[nodiscard]] constexpr Bits nan() const { return infinity ? largest() + 1 + (Bits{1} << (fraction_bits - 1)) : sign() - 1; }
};
constexpr Layout layout(Format format) {
  switch (format) {
    case Format::f16:
      return {5, 10, 15, true};
    case Format::bf16:
      return {8, 7, 127, true};
    case Format::f32:
      return {8, 23, 127, true};
    case Format::f64:
      return {11, 52, 1023, true};
    case Format::f8_e4m3:
      return {4, 3, 7, false};
    case Format::f8_e5m2:
      return {5, 2, 15, true};
  }
  return {};
}

// The value of a bit pattern, which a double always holds exactly. The hardware's own reading for f32 and f64.
inline double value(Format format, Bits bits) {
  if (format == Format::f64) return std::bit_cast<double>(bits);
  if (format == Format::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  const Layout f = layout(format);
  const double sign = (bits & f.sign()) != 0 ? -1.0 : 1.0;
  const Bits magnitude = bits & (f.sign() - 1);
  const int exponent = static_cast<int>(magnitude >> f.fraction_bits);
  // Signed, for clang turns an unsigned 0 into -0 where one rounds downward.
  const auto fraction = static_cast<std::int64_t>(magnitude & ((Bits{1} << f.fraction_bits) - 1));
  if (magnitude > f.largest()) {
    return f.infinity && fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const double unit = std::ldexp(1.0, -f.fraction_bits);
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction) * unit, 1 - f.bias);
  return sign * std::ldexp(1 + static_cast<double>(fraction) * unit, exponent - f.bias);
}

// The pattern nearest to a double, ties to even; the hardware's for f32, a search among the values for the smaller formats.
inline Bits nearest(Format format, double x) {
  if (format == Format::f64) return std::bit_cast<Bits>(x);
  if (format == Format::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const Layout f = layout(format);
  if (std::isnan(x)) return f.nan();
  const Bits sign = std::signbit(x) ? f.sign() : 0;
  const double size = std::fabs(x);
  Bits low = 0;
  Bits high = f.largest() + 1;
  while (high - low > 1) (value(format, (low + high) / 2) <= size ? low : high) = (low + high) / 2;
  const double beyond = low == f.largest() ? 2 * value(format, low) - value(format, low - 1) : value(format, high);
  const double below = size - value(format, low);
  const double above = beyond - size;
  const Bits up = low == f.largest() && !f.infinity ? f.nan() : high;
  return sign | (below < above || (below == above && (low & 1) == 0) ? low : up);
}

inline bool is_nan(Format format, Bits bits) { return std::isnan(value(format, bits)); }

inline std::string hex(Bits bits) {
  std::ostringstream s;
  s << "0x" << std::hex << bits;
  return s.str();
}

// splitmix64 (Steele, Lea, Flood 2014): the same numbers everywhere, from any seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

inline std::int64_t size_of(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

inline Spec spec_of(Op op, std::optional<double> epsilon = std::nullopt, std::optional<int> axis = std::nullopt) {
  Spec spec;
  spec.op = op;
  spec.epsilon = epsilon;
  spec.axis = axis;
  return spec;
}

// A contiguous tensor that owns its memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Format format, Shape shape) : Tensor(format, std::move(shape), std::vector<Bits>{}) {}
  Tensor(Format format, Shape shape, const std::vector<Bits>& bits) : format_(format), shape_(std::move(shape)) {
    bytes_.resize(static_cast<std::size_t>(size_of(shape_) * info(format).bytes()), std::byte{0xA5});
    for (std::size_t i = 0; i < bits.size(); ++i) set(i, bits[i]);
  }
  // Rounded to the format where they are no values of it.
  static Tensor of(Format format, Shape shape, const std::vector<double>& values) {
    Tensor t(format, std::move(shape));
    for (std::size_t i = 0; i < values.size(); ++i) t.set(i, nearest(format, values[i]));
    return t;
  }
  static Tensor row(Format format, const std::vector<double>& values) {
    return of(format, {static_cast<std::int64_t>(values.size())}, values);
  }

  [[nodiscard]] Format format() const { return format_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(size_of(shape_)); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] Bits bits(std::size_t i) const {
    Bits b = 0;
    for (int k = 0; k < width(); ++k) b |= std::to_integer<Bits>(bytes_[i * width() + k]) << (8 * k);
    return b;
  }
  void set(std::size_t i, Bits b) {
    for (int k = 0; k < width(); ++k) bytes_[i * width() + k] = static_cast<std::byte>(b >> (8 * k) & 0xFF);
  }
  [[nodiscard]] double operator[](std::size_t i) const { return value(format_, bits(i)); }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> result;
    for (std::size_t i = 0; i < size(); ++i) result.push_back((*this)[i]);
    return result;
  }
  [[nodiscard]] ConstView in() const { return {format_, bytes_.data(), shape_, {}}; }
  [[nodiscard]] View out() { return {format_, bytes_.data(), shape_, {}}; }

 private:
  [[nodiscard]] int width() const { return info(format_).bytes(); }

  Format format_ = Format::f32;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// Runs a call and hands back its outputs, contiguous and in `format`.
struct Call {
  Spec spec;
  ByRole<Tensor> inputs;
  Mode mode = Mode::nearest_even;

  Status run(ByRole<Tensor>& results) const {
    ByRole<ConstView> in;
    ByRole<View> out;
    for (std::size_t i = 0; i < role_count; ++i) {
      const auto role = static_cast<Role>(i);
      if (inputs[role]) in[role] = inputs[role]->in();
      if (results[role]) out[role] = results[role]->out();
    }
    return compute(spec, in, out, mode);
  }
  // One output, of the shape the library gives it.
  [[nodiscard]] Tensor get(Role role, Format format) const {
    ByRole<Tensor> results;
    Result<Shape> shape = tensor_shape(spec, inputs[Role::x]->shape(), role);
    if (!shape.ok()) return {};
    results[role] = Tensor(format, *shape);
    return run(results).ok() ? *results[role] : Tensor{};
  }
};

}  // namespace norma::testing
