#include "text.h"

#include <algorithm>
#include <array>
#include <set>

namespace norma::files {
namespace {

constexpr char32_t no_point = 0xffffffff;

// The code point at `at`, or no_point where there is no well-formed one (Unicode 15, table 3-7); `at` moves past it, or past one byte.
char32_t decode_utf8(std::string_view s, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const std::size_t start = at++;
  const unsigned char lead = byte(start);
  if (lead < 0x80) return lead;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || s.size() - start < length) return no_point;
  char32_t point = lead & (0x7fU >> length);
  for (std::size_t i = start + 1; i < start + length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return no_point;
    point = point << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return no_point;
  at = start + length;
  return point;
}

std::string hex(char32_t value, int digits) {
  std::string s;
  while (digits-- > 0) s += "0123456789abcdef"[value >> (4 * digits) & 0xf];
  return s;
}

// Not what is invisible (Unicode 15): one cannot see that it is there, nor what it does to the text around it.
bool shows_itself(char32_t point) {
  struct Range {
    char32_t least, most;
  };
  static constexpr Range invisible[] = {
      {0x7f, 0x9f},        // control characters
      {0xad, 0xad},        // soft hyphen
      {0x61c, 0x61c},      // direction of Arabic letters
      {0x180e, 0x180e},    // Mongolian vowel separator
      {0x200b, 0x200f},    // widths of zero, directions
      {0x2028, 0x202e},    // separators of lines and paragraphs, directions
      {0x2060, 0x206f},    // joiners, directions
      {0xfdd0, 0xfdef},    // no characters
      {0xfeff, 0xfeff},    // byte order mark
      {0xfff9, 0xfffb},    // annotations
      {0xe0000, 0xe0fff},  // tags, variants
  };
  const bool none = (point & 0xfffe) == 0xfffe;
  return !none && std::none_of(std::begin(invisible), std::end(invisible), [&](Range r) { return r.least <= point && point <= r.most; });
}

// Escapes as in C++23: \x{ff} is a byte, \u{e9} a code point.
std::string escaped(std::string_view s, bool keep_unicode) {
  std::string result;
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t start = at;
    const char32_t point = decode_utf8(s, at);
    if (point == no_point) {
      result += "\\x{" + hex(static_cast<unsigned char>(s[start]), 2) + "}";
    } else if ((point >= 0x20 && point < 0x7f) || (keep_unicode && point >= 0xa0 && shows_itself(point))) {
      if (!keep_unicode && (point == '"' || point == '\\')) result += '\\';
      result += s.substr(start, at - start);
    } else {
      result += "\\u{" + hex(point, point > 0xffff ? 6 : point > 0xff ? 4 : 2) + "}";
    }
  }
  return result;
}

}  // namespace

Status within(std::string_view where, Status status) {
  if (!status.ok()) status.message = std::string(where) + ": " + status.message;
  return status;
}

std::string count(std::uint64_t n, std::string_view noun) { return text(n) + " " + std::string(noun) + (n == 1 ? "" : "s"); }

std::string format_names(bool numpy_only) {
  std::string names;
  for (const FormatInfo& format : formats) {
    if (!numpy_only || !format.npy.empty()) names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  return names;
}

bool is_utf8(std::string_view s) {
  for (std::size_t at = 0; at < s.size();) {
    if (decode_utf8(s, at) == no_point) return false;
  }
  return true;
}

void append_utf8(std::string& to, char32_t point) {
  const auto tail = [&](int shift) { to += static_cast<char>(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) {
    to += static_cast<char>(point);
  } else if (point < 0x800) {
    to += static_cast<char>(0xc0 | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    to += static_cast<char>(0xe0 | point >> 12);
    tail(6), tail(0);
  } else {
    to += static_cast<char>(0xf0 | point >> 18);
    tail(12), tail(6), tail(0);
  }
}

char32_t next_utf8(std::string_view s, std::size_t& at) { return decode_utf8(s, at); }

std::optional<std::uint64_t> elements(const Shape& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 58;
  if (shape.size() > most_axes) return std::nullopt;
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || extent > most / product) return std::nullopt;
    product *= std::max<std::int64_t>(extent, 1);
    empty |= extent == 0;
  }
  return empty ? 0 : static_cast<std::uint64_t>(product);
}

Status check_writable(const TensorFile& file) {
  std::set<std::string_view> names;
  for (const Tensor& tensor : file.tensors) {
    const std::string name = "tensor " + quote(tensor.name);
    if (!is_utf8(tensor.name)) return bad_tensor("the name of " + name + " is not UTF-8");
    if (!names.insert(tensor.name).second) return bad_tensor("there are two tensors " + quote(tensor.name));
    const auto n = elements(tensor.shape);
    if (!n) {
      return bad_tensor(name + " has shape " + text(tensor.shape) + ": expected at most " + std::to_string(most_axes) +
                        " axes of nonnegative extents, and 2^58 elements");
    }
    const std::uint64_t size = *n * info(tensor.format).bytes();
    if (tensor.data.size() != size) {
      return bad_tensor(name + " of shape " + text(tensor.shape) + " holds " + count(tensor.data.size(), "byte") + ": expected " +
                        text(size));
    }
  }
  for (const auto& [key, value] : file.metadata) {
    if (!is_utf8(key) || !is_utf8(value)) return bad_tensor("metadata " + quote(key) + " is not UTF-8");
  }
  if (!file.unreadable.empty()) {
    const auto& [name, dtype] = *file.unreadable.begin();
    return bad_tensor("tensor " + quote(name) + " of dtype " + dtype + " cannot be written: its data was not read");
  }
  return {};
}

std::uint64_t little(Bytes bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

void append(Buffer& to, Bytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

void append_little(Buffer& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
}

}  // namespace norma::files

namespace norma {

std::string quote(std::string_view name) {
  constexpr std::size_t most = 80;
  const bool cut = name.size() > most;
  return "\"" + files::escaped(name.substr(0, most), false) + (cut ? "...\" (" + files::count(name.size(), "byte") + ")" : "\"");
}

std::string printable(std::string_view path) { return files::escaped(path, true); }

std::string excerpt(std::string_view words) {
  constexpr std::size_t most = 300;
  return printable(words.substr(0, most)) + (words.size() > most ? "… (" + files::count(words.size(), "byte") + ")" : "");
}

}  // namespace norma
