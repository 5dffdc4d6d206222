// Words for messages, and the checks and byte-level helpers that the three formats share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/tensor_file.h"
#include "norma/text.h"

namespace norma::files {

using Bytes = std::span<const std::byte>;
using Buffer = std::vector<std::byte>;

inline Status bad_file(std::string message) { return {Code::bad_file, std::move(message)}; }
inline Status bad_tensor(std::string message) { return {Code::bad_tensor, std::move(message)}; }
inline Status io_error(std::string message) { return {Code::io_error, std::move(message)}; }

// The status, its message preceded by where it belongs.
Status within(std::string_view where, Status status);

inline std::string text(const Shape& shape) { return to_text(shape); }
inline std::string text(std::uint64_t n) { return std::to_string(n); }
// "1 byte", "2 bytes".
std::string count(std::uint64_t n, std::string_view noun);
// The formats' names, "f16, bf16, …": all of them, or those that numpy has.
std::string format_names(bool numpy_only = false);

bool is_utf8(std::string_view text);
// Appends a code point, which must be no surrogate and at most 0x10ffff.
void append_utf8(std::string& to, char32_t point);
// The next code point of valid UTF-8; `at` moves past it.
char32_t next_utf8(std::string_view text, std::size_t& at);

// Numpy's own limit is 32 (64 from version 2).
inline constexpr std::size_t most_axes = 64;

// How many elements the shape has; nullopt if an extent is negative, the axes are more than most_axes, or the extents multiply to more
// than the 2^58 elements the reference takes (zeros counted as ones: an array that is empty along one axis has a size along the others).
std::optional<std::uint64_t> elements(const Shape& shape);

// Whether every tensor matches its shape, no name occurs twice, all text is UTF-8, and nothing is `unreadable`.
Status check_writable(const TensorFile& file);

inline Bytes bytes_of(std::string_view s) { return std::as_bytes(std::span(s)); }
inline std::string_view chars(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Little-endian integers.
std::uint64_t little(Bytes bytes);
void append(Buffer& to, Bytes bytes);
void append_little(Buffer& to, std::uint64_t value, int bytes);

}  // namespace norma::files
