// Protocol buffers on the wire (https://protobuf.dev/programming-guides/encoding), as much as it takes to write ONNX. By hand, because
// protobuf's own serializer does not promise the same bytes everywhere; these are the fields in the order in which they are put.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace norma::properties {

// A message as its bytes. A field begins with its number and the way its value is written.
class Message {
 public:
  // An integer: seven bits a byte, the lowest first; negative ones as 64 bits in two's complement.
  Message& integer(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  // A float32: its bits, little-endian.
  Message& real(int field, float value) {
    varint((static_cast<std::uint64_t>(field) << 3) | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>((bits >> shift) & 0xff);
    return *this;
  }
  // A string, bytes, or a message: their length before them.
  Message& bytes(int field, std::string_view value) {
    varint((static_cast<std::uint64_t>(field) << 3) | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }

  [[nodiscard]] const std::string& text() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace norma::properties
