#include "npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace norma::files {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

// A parser of the dict literal in a header. Its methods return false, or nothing, where the text is not what numpy writes.
class Literal {
 public:
  explicit Literal(std::string_view s) : text_(s) {}

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool done() const { return text_.find_first_not_of(" \n", at_) == std::string_view::npos; }

  bool ahead(std::string_view token) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_).starts_with(token);
  }

  bool take(std::string_view token) {
    if (!ahead(token)) return false;
    at_ += token.size();
    return true;
  }

  std::optional<std::string_view> string() {
    const char quote = take("'") ? '\'' : take("\"") ? '"' : '\0';
    const std::size_t end = text_.find(quote, at_);
    if (quote == '\0' || end == std::string_view::npos) return std::nullopt;
    const std::string_view s = text_.substr(at_, end - at_);
    if (s.find('\\') != std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return s;
  }

  std::optional<bool> boolean() {
    if (take("True")) return true;
    if (take("False")) return false;
    return std::nullopt;
  }

  // (), (3,), (3, 4), (3, 4,)
  std::optional<Shape> shape() {
    if (!take("(")) return std::nullopt;
    Shape shape;
    while (!take(")")) {
      std::int64_t extent = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0) return std::nullopt;
      at_ += static_cast<std::size_t>(end - begin);
      shape.push_back(extent);
      if (!take(",") && (shape.size() == 1 || !ahead(")"))) return std::nullopt;
    }
    return shape;
  }

  // The descr of a structure, [('a', '<f4'), …]: skipped, brackets and strings balanced.
  bool structure() {
    if (!take("[")) return false;
    std::string open = "]";
    while (!open.empty()) {
      if (ahead("'") || ahead("\"")) {
        if (!string()) return false;
      } else if (take("[")) {
        open += ']';
      } else if (take("(")) {
        open += ')';
      } else if (at_ == text_.size()) {
        return false;
      } else {
        const char c = text_[at_++];
        if (c == open.back()) open.pop_back();
      }
    }
    return true;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// <f4, |S12, >M8[ns], |O. False if it is none of numpy's.
bool parse_descr(std::string_view descr, NpyHeader& header) {
  constexpr std::string_view kinds = "biufcmMOSUV";
  if (descr.size() < 2 || std::string_view("<>|").find(descr[0]) == std::string_view::npos ||
      kinds.find(descr[1]) == std::string_view::npos) {
    return false;
  }
  header.descr = descr;
  header.order = descr[0];
  header.kind = descr[1];
  const char* const end = descr.data() + descr.size();
  std::uint32_t size = 0;
  const auto [stop, error] = std::from_chars(descr.data() + 2, end, size);
  if (header.kind == 'O') return stop == end && (error == std::errc{} || descr.size() == 2);
  if (error != std::errc{}) return false;
  header.size = header.kind == 'U' ? std::uint64_t{4} * size : size;
  if (header.kind == 'f' && size == 0) return false;
  if (stop == end) return true;
  const std::string_view unit(stop, end);
  return (header.kind == 'm' || header.kind == 'M') && unit.size() < 12 && unit.starts_with('[') && unit.ends_with(']') &&
         std::all_of(unit.begin() + 1, unit.end() - 1,
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/'; });
}

// Element (i, j, …) of an array stored with its first axis fastest goes where it belongs with the last axis fastest.
Buffer to_c_order(const Buffer& data, const Shape& shape, std::size_t size) {
  Buffer result(data.size());
  const std::size_t rank = shape.size();
  std::vector<std::size_t> stride(rank, size);
  for (std::size_t k = 1; k < rank; ++k) stride[k] = stride[k - 1] * static_cast<std::size_t>(shape[k - 1]);
  std::vector<std::int64_t> index(rank, 0);
  std::size_t from = 0;
  for (std::size_t to = 0; to < data.size(); to += size) {
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(from), size, result.begin() + static_cast<std::ptrdiff_t>(to));
    for (std::size_t k = rank; k-- > 0;) {
      from += stride[k];
      if (++index[k] < shape[k]) break;
      from -= stride[k] * static_cast<std::size_t>(shape[k]);
      index[k] = 0;
    }
  }
  return result;
}

// Whether what remains is the data that the header announces.
Status check_data_size(const Source& source, const NpyHeader& header) {
  const std::uint64_t n = *elements(header.shape);
  const std::uint64_t expected = n * *header.size;  // of elements below 2^34 bytes
  if (source.remaining() == expected && (n == 0 || *header.size <= UINT64_MAX / n)) return {};
  return bad_file("has " + count(source.remaining(), "byte") + " of data: expected " + count(n, "element") + " of " +
                  count(*header.size, "byte") + ", shape " + text(header.shape) + " of " + header.descr);
}

}  // namespace

std::optional<Format> NpyHeader::format() const {
  if (order == '|') return std::nullopt;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (!formats[i].npy.empty() && std::string_view{descr}.substr(1) == formats[i].npy) return static_cast<Format>(i);
  }
  return std::nullopt;
}

std::string NpyHeader::dtype() const {
  // How numpy spells the dtypes of the ml_dtypes package.
  const bool foreign = (kind == 'V' && (size == 1 || size == 2)) || (kind == 'f' && size == 1);
  return descr + (foreign ? " (numpy has no bfloat16 and no fp8: use .safetensors)" : "");
}

Result<NpyHeader> read_npy_header(Source& source) {
  std::array<std::byte, 8> start{};
  if (source.remaining() < start.size()) return bad_file("has " + count(source.remaining(), "byte") + ": expected a .npy header");
  if (Status s = source.read(start); !s.ok()) return s;
  if (chars(start).substr(0, 6) != magic) return bad_file("does not begin with \\x93NUMPY: expected a numpy array");
  const int major = std::to_integer<int>(start[6]);
  const int minor = std::to_integer<int>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return bad_file("is of .npy version " + std::to_string(major) + "." + std::to_string(minor) + ": expected 1.0, 2.0 or 3.0");
  }
  std::array<std::byte, 4> length_bytes{};
  const auto used = std::span(length_bytes).first(major == 1 ? 2 : 4);
  if (Status s = source.read(used); !s.ok()) return within("the .npy header", s);
  const std::uint64_t length = little(used);
  if (length > source.remaining()) {
    return bad_file("says that its .npy header has " + count(length, "byte") + ", but only " + text(source.remaining()) + " follow");
  }
  // A dict of three keys, and the names of a structure's parts.
  constexpr std::uint64_t most = 1'000'000;
  if (length > most) return bad_file("has a .npy header of " + count(length, "byte") + ": expected at most " + text(most));
  Result<Buffer> bytes = source.take(length);
  if (!bytes.ok()) return bytes.status();

  NpyHeader header;
  Literal literal(chars(*bytes));
  bool descr = false;
  bool order = false;
  bool shape = false;
  const auto fail = [&](const std::string& expected) {
    return bad_file("the .npy header cannot be understood at byte " + text(std::uint64_t{literal.at()}) + " of it: expected " + expected);
  };
  if (!literal.take("{")) return fail("{");
  while (!literal.take("}")) {
    const auto key = literal.string();
    if (!key) return fail("'descr', 'fortran_order' or 'shape'");
    if (!literal.take(":")) return fail(": after a key");
    bool& seen = *key == "descr" ? descr : *key == "fortran_order" ? order : shape;
    if (*key != "descr" && *key != "fortran_order" && *key != "shape") {
      return bad_file("the .npy header has a key " + quote(*key) + ": expected descr, fortran_order and shape alone");
    }
    if (std::exchange(seen, true)) return bad_file("the .npy header has the key " + quote(*key) + " twice");
    if (*key == "fortran_order") {
      const auto value = literal.boolean();
      if (!value) return fail("True or False");
      header.fortran_order = *value;
    } else if (*key == "shape") {
      auto value = literal.shape();
      if (!value) return fail("a tuple of nonnegative integers");
      header.shape = std::move(*value);
    } else if (const auto value = literal.string()) {
      if (!parse_descr(*value, header)) return bad_file("has the dtype " + quote(*value) + ": expected one of numpy's, such as \"<f4\"");
    } else if (literal.structure()) {
      header.descr = "structured";
    } else {
      return fail("a dtype");
    }
    if (!literal.take(",") && !literal.ahead("}")) return fail(", or }");
  }
  if (!literal.done()) return fail("nothing but spaces after }");
  if (!descr || !order || !shape) {
    return bad_file("the .npy header has no " + std::string(!descr ? "descr" : !order ? "fortran_order" : "shape"));
  }
  if (!elements(header.shape)) {
    return bad_file("has shape " +
                    (header.shape.size() > most_axes ? "of " + std::to_string(header.shape.size()) + " axes" : text(header.shape)) +
                    ": expected at most " + std::to_string(most_axes) + " axes and 2^58 elements");
  }
  return header;
}

Result<Buffer> read_npy_data(Source& source, const NpyHeader& header) {
  if (Status s = check_data_size(source, header); !s.ok()) return s;
  Result<Buffer> data = source.take(source.remaining());
  if (!data.ok()) return data;
  const std::uint64_t size = *header.size;
  if (const std::size_t unit = header.kind == 'U' ? 4 : header.kind == 'S' ? 1 : size; header.order == '>') {
    for (auto at = data->begin(); at != data->end(); at += static_cast<std::ptrdiff_t>(unit)) {
      std::reverse(at, at + static_cast<std::ptrdiff_t>(unit));
    }
  }
  if (header.fortran_order && header.shape.size() > 1) return to_c_order(*data, header.shape, size);
  return data;
}

Status skip_npy_data(Source& source, const NpyHeader& header) {
  if (header.size) {
    if (Status s = check_data_size(source, header); !s.ok()) return s;
  }
  return source.skip(source.remaining());
}

void append_npy(Buffer& to, std::string_view descr, const Shape& shape, Bytes data) {
  // As numpy's own writer: a one-tuple with its comma, room for the first extent to grow to 21 digits, the data at a multiple of 64.
  std::string dict = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) dict += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  if (!shape.empty()) dict.append(21 - std::to_string(shape[0]).size(), ' ');
  constexpr std::size_t before = magic.size() + 4;  // version and length: with at most 64 axes the length fits two bytes
  dict.append(64 - (before + dict.size() + 1) % 64, ' ');
  dict += '\n';
  append(to, bytes_of(magic));
  append_little(to, 1, 2);  // version 1.0
  append_little(to, dict.size(), 2);
  append(to, bytes_of(dict));
  append(to, data);
}

Status append_npy(Buffer& to, const Tensor& tensor, Foreign foreign) {
  const FormatInfo& format = info(tensor.format);
  if (format.npy.empty() && foreign == Foreign::as_bits) {
    append_npy(to, format.bytes() == 1 ? "|u1" : "<u" + std::to_string(format.bytes()), tensor.shape, tensor.data);
    return {};
  }
  if (format.npy.empty()) {
    return bad_tensor("tensor " + quote(tensor.name) + " is " + std::string(format.name) + ", which numpy does not have: expected " +
                      format_names(true) + ", or a .safetensors file");
  }
  append_npy(to, "<" + std::string(format.npy), tensor.shape, tensor.data);
  return {};
}

Result<TensorFile> read_npy(Source& source) {
  const Result<NpyHeader> header = read_npy_header(source);
  if (!header.ok()) return header.status();
  TensorFile file;
  if (const auto format = header->format()) {
    Result<Buffer> data = read_npy_data(source, *header);
    if (!data.ok()) return data.status();
    file.tensors.push_back({"", *format, header->shape, std::move(*data)});
  } else {
    if (Status s = skip_npy_data(source, *header); !s.ok()) return s;
    file.unreadable.emplace("", header->dtype());
  }
  return file;
}

}  // namespace norma::files

namespace norma {

using namespace files;

Result<TensorFile> parse_npy(std::span<const std::byte> bytes) {
  MemorySource source(bytes);
  return read_npy(source);
}

Result<Buffer> serialize_npy(const TensorFile& file) {
  if (Status s = check_writable(file); !s.ok()) return s;
  if (file.tensors.size() != 1 || !file.metadata.empty()) {
    return bad_tensor("a .npy file holds exactly one tensor and no metadata: got " + count(file.tensors.size(), "tensor") + " and " +
                      count(file.metadata.size(), "metadata value"));
  }
  Buffer bytes;
  if (Status s = append_npy(bytes, file.tensors.front(), Foreign::refused); !s.ok()) return s;
  return bytes;
}

}  // namespace norma
