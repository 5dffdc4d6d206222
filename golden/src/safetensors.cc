// https://github.com/huggingface/safetensors, README, "Format"; dtypes as of its version 0.7.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "source.h"

namespace norma::files {
namespace {

// The limit of the reference implementation. Real headers have a few megabytes at most.
constexpr std::uint64_t most_header = 100'000'000;

// Dtypes of whole bytes that are none of Norma's formats.
struct OtherDtype {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<OtherDtype, 13> other_dtypes{{{"BOOL", 1},
                                                   {"U8", 1},
                                                   {"I8", 1},
                                                   {"F8_E8M0", 1},
                                                   {"F8_E4M3FNUZ", 1},
                                                   {"F8_E5M2FNUZ", 1},
                                                   {"I16", 2},
                                                   {"U16", 2},
                                                   {"I32", 4},
                                                   {"U32", 4},
                                                   {"C64", 8},
                                                   {"I64", 8},
                                                   {"U64", 8}}};

struct Dtype {
  std::optional<Format> format;  // none: unreadable
  std::uint64_t bytes;
};

std::optional<Dtype> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (name == formats[i].safetensors) return Dtype{static_cast<Format>(i), static_cast<std::uint64_t>(formats[i].bytes())};
  }
  for (const OtherDtype& other : other_dtypes) {
    if (name == other.name) return Dtype{std::nullopt, other.bytes};
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const FormatInfo& format : formats) names += (names.empty() ? "" : ", ") + std::string(format.safetensors);
  for (const OtherDtype& other : other_dtypes) names += ", " + std::string(other.name);
  return names;
}

// One tensor of the header.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<Shape> shape;
  std::optional<std::vector<std::uint64_t>> offsets;

  [[nodiscard]] std::uint64_t begin() const { return (*offsets)[0]; }
  [[nodiscard]] std::uint64_t end() const { return (*offsets)[1]; }
  [[nodiscard]] std::string title() const { return "tensor " + quote(name); }
};

// Reads the JSON as it is scanned, so that nothing is built of what the format does not allow: the deepest it follows is an array in
// an object in an object, whatever the file nests.
class HeaderReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  Status status;

  bool null() { return refuse("null"); }
  bool boolean(bool) { return refuse("a boolean"); }
  bool number_integer(number_integer_t) { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) { return refuse("a number with a fraction, an exponent or more than 64 bits"); }
  bool binary(binary_t&) { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (place_ == Place::shape) {
      if (entry().shape->size() == most_axes) return fail(entry().title() + " has more than " + std::to_string(most_axes) + " axes");
      // What is no int64 is too large by far; as a negative extent it fails where the product is formed.
      entry().shape->push_back(static_cast<std::int64_t>(value));
      return value <= INT64_MAX || fail(entry().title() + " has an extent of " + text(value) + ": expected less than 2^63");
    }
    if (place_ != Place::offsets || entry().offsets->size() == 2) return refuse("a number");
    entry().offsets->push_back(value);
    return true;
  }

  bool string(string_t& value) {
    if (place_ == Place::metadata) {
      metadata.emplace(key_, value);
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entry().dtype = value;
    } else {
      return refuse("a string");
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
      if (place_ == Place::tensor) entries.push_back({key_, {}, {}, {}});
    } else {
      return refuse("an object");
    }
    return true;
  }

  bool key(string_t& name) {
    key_ = name;
    if (place_ == Place::header) return names_.insert(name).second || fail("the header names " + quote(name) + " twice");
    if (place_ == Place::metadata) return !metadata.contains(name) || fail("__metadata__ names " + quote(name) + " twice");
    const bool twice = name == "dtype"          ? entry().dtype.has_value()
                       : name == "shape"        ? entry().shape.has_value()
                       : name == "data_offsets" ? entry().offsets.has_value()
                                                : false;
    if (twice) return fail(entry().title() + " has two fields " + quote(name));
    if (name == "dtype" || name == "shape" || name == "data_offsets") return true;
    return fail(entry().title() + " has a field " + quote(name) + ": expected dtype, shape and data_offsets alone");
  }

  bool end_object() {
    if (place_ == Place::tensor) {
      const auto missing = [&](const char* field) { return fail(entry().title() + " has no " + field); };
      if (!entry().dtype) return missing("dtype");
      if (!entry().shape) return missing("shape");
      if (!entry().offsets) return missing("data_offsets");
    }
    place_ = Place::header;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ == Place::tensor && key_ == "shape") {
      place_ = Place::shape;
      entry().shape.emplace();
    } else if (place_ == Place::tensor && key_ == "data_offsets") {
      place_ = Place::offsets;
      entry().offsets.emplace();
    } else {
      return refuse("an array");
    }
    return true;
  }

  bool end_array() {
    if (place_ == Place::offsets && entry().offsets->size() != 2) return refuse(count(entry().offsets->size(), "number"));
    place_ = Place::tensor;
    return true;
  }

  // The library's own message quotes the file.
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    return fail("the header is no valid JSON: byte " + text(std::uint64_t{position}) + " of it cannot be understood");
  }

 private:
  enum class Place : std::uint8_t { outside, header, metadata, tensor, shape, offsets };

  Entry& entry() { return entries.back(); }

  bool fail(std::string message) {
    status = bad_file(std::move(message));
    return false;
  }

  bool refuse(const std::string& what) {
    const auto found = [&](const std::string& where, const char* expected) { return fail(where + " " + what + ": expected " + expected); };
    switch (place_) {
      case Place::outside:
        return found("the header is", "an object");
      case Place::header:
        if (key_ == "__metadata__") return found("__metadata__ is", "an object of strings");
        return found("the header's " + quote(key_) + " is", "an object with dtype, shape and data_offsets");
      case Place::metadata:
        return found("__metadata__'s " + quote(key_) + " is", "a string");
      case Place::tensor:
        return found(entry().title() + "'s " + key_ + " is", key_ == "dtype"   ? "a string"
                                                             : key_ == "shape" ? "an array of nonnegative integers"
                                                                               : "an array of two nonnegative integers");
      case Place::shape:
        return found(entry().title() + "'s shape holds", "nonnegative integers");
      case Place::offsets:
        return found(entry().title() + "'s data_offsets hold", "two nonnegative integers, begin and end");
    }
    return false;
  }

  Place place_ = Place::outside;
  std::string key_;
  std::set<std::string> names_;
};

Status check_extent(const Entry& entry, std::uint64_t data_size) {
  const auto dtype = dtype_named(*entry.dtype);
  if (!dtype) return bad_file(entry.title() + " has dtype " + quote(*entry.dtype) + ": expected one of " + dtype_names());
  const auto n = elements(*entry.shape);
  if (!n) return bad_file(entry.title() + " has shape " + text(*entry.shape) + ": more than 2^58 elements");
  if (entry.begin() > entry.end()) {
    return bad_file(entry.title() + " begins at byte " + text(entry.begin()) + " and ends before, at byte " + text(entry.end()));
  }
  if (entry.end() > data_size) {
    return bad_file(entry.title() + " ends at byte " + text(entry.end()) + ", but the data has " + count(data_size, "byte"));
  }
  if (const std::uint64_t size = *n * dtype->bytes; entry.end() - entry.begin() != size) {  // at most 2^58 · 8
    return bad_file(entry.title() + " of shape " + text(*entry.shape) + " and dtype " + *entry.dtype + " takes " + count(size, "byte") +
                    ", but its data_offsets give it " + text(entry.end() - entry.begin()));
  }
  return {};
}

// The entries as their data follow one another: from the first byte to the last, each byte in one tensor.
Result<std::vector<const Entry*>> in_order(const std::vector<Entry>& entries, std::uint64_t data_size) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) {
    if (Status s = check_extent(entry, data_size); !s.ok()) return s;
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return *a->offsets < *b->offsets; });
  std::uint64_t reached = 0;
  const auto hole = [&](std::uint64_t end) {
    return bad_file("bytes " + text(reached) + " to " + text(end) + " of the data belong to no tensor");
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i]->begin() > reached) return hole(order[i]->begin());
    if (order[i]->begin() < reached) {
      return bad_file(order[i - 1]->title() + " and " + order[i]->title() + " overlap at byte " + text(order[i]->begin()) + " of the data");
    }
    reached = order[i]->end();
  }
  if (reached < data_size) return hole(data_size);
  return order;
}

std::string json(std::string_view s) { return nlohmann::json(s).dump(); }

}  // namespace

namespace {

struct Header {
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
};
Result<Header> read_header(Source& source, std::uint64_t most) {
  std::array<std::byte, 8> length_bytes{};
  if (source.remaining() < length_bytes.size()) {
    return bad_file("has " + count(source.remaining(), "byte") +
                    ": expected a .safetensors file, which has at least 10, a .npz or a .npy file");
  }
  if (Status s = source.read(length_bytes); !s.ok()) return s;
  const std::uint64_t length = little(length_bytes);
  if (length > source.remaining()) {
    return bad_file("says that its header has " + count(length, "byte") + ", but only " + text(source.remaining()) +
                    " follow: no .safetensors, .npz or .npy file, or one cut short");
  }
  if (length > most) return bad_file("has a header of " + count(length, "byte") + ": expected at most " + text(most));
  Result<Buffer> header = source.take(length);
  if (!header.ok()) return header.status();
  const std::string_view json_text = chars(*header);
  if (!json_text.starts_with('{')) return bad_file("the header does not begin with {: expected a JSON object");
  // The JSON library takes a zero byte for the end.
  if (const auto zero = json_text.find('\0'); zero != std::string_view::npos) {
    return bad_file("the header has a zero byte at byte " + text(std::uint64_t{zero}) + ": expected JSON, padded with spaces");
  }
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json_text.begin(), json_text.end(), &reader)) return std::move(reader.status);
  return Header{std::move(reader.entries), std::move(reader.metadata)};
}

// Goes through the data. `format` says of an entry what its tensor is to be taken as; `see` gets the data.
template <class FormatOf, class See>
Status each_in_order(const std::vector<Entry>& entries, Source& source, FormatOf format, See see) {
  const auto order = in_order(entries, source.remaining());
  if (!order.ok()) return order.status();
  for (const Entry* entry : *order) {
    const std::uint64_t size = entry->end() - entry->begin();
    const Result<std::optional<Format>> as = format(*entry);
    if (!as.ok()) return as.status();
    if (!*as) {
      if (Status s = source.skip(size); !s.ok()) return within(entry->title(), s);
      continue;
    }
    Result<Buffer> taken = source.take(size);
    if (!taken.ok()) return within(entry->title(), taken.status());
    if (Status s = see(*entry, **as, std::move(*taken)); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Result<TensorFile> read_safetensors(Source& source) {
  Result<Header> header = read_header(source, most_header);
  if (!header.ok()) return header.status();
  std::vector<Buffer> data(header->entries.size());
  const auto own = [](const Entry& entry) -> Result<std::optional<Format>> { return dtype_named(*entry.dtype)->format; };
  const Status read = each_in_order(header->entries, source, own, [&](const Entry& entry, Format, Buffer&& bytes) {
    data[static_cast<std::size_t>(&entry - header->entries.data())] = std::move(bytes);
    return Status{};
  });
  if (!read.ok()) return read;

  TensorFile file;
  file.metadata = std::move(header->metadata);
  for (std::size_t i = 0; i < data.size(); ++i) {
    Entry& entry = header->entries[i];
    if (const auto format = dtype_named(*entry.dtype)->format) {
      file.tensors.push_back({std::move(entry.name), *format, std::move(*entry.shape), std::move(data[i])});
    } else {
      file.unreadable.emplace(std::move(entry.name), std::move(*entry.dtype));
    }
  }
  return file;
}

Status visit_safetensors(Source& source, const TensorVisitor& visitor) {
  // Enough for 100,000 tensors; what is built of it takes several times as much.
  constexpr std::uint64_t most = 16'000'000;
  const Result<Header> header = read_header(source, most);
  if (!header.ok()) return header.status();
  for (const auto& [key, value] : header->metadata) {
    if (!visitor.metadata) break;
    if (Status s = visitor.metadata(key, value); !s.ok()) return s;
  }
  const auto asked = [&](const Entry& entry) {
    const Dtype dtype = *dtype_named(*entry.dtype);
    return wanted(visitor, {entry.name, dtype.format, *entry.dtype, *entry.dtype == "U16", *entry.shape}, dtype.bytes);
  };
  return each_in_order(header->entries, source, asked, [&](const Entry& entry, Format format, Buffer&& bytes) {
    return visitor.see({entry.name, format, *entry.shape, std::move(bytes)});
  });
}

}  // namespace norma::files

namespace norma {

using namespace files;

Result<TensorFile> parse_safetensors(std::span<const std::byte> bytes) {
  MemorySource source(bytes);
  return read_safetensors(source);
}

Result<Buffer> serialize_safetensors(const TensorFile& file) {
  if (Status s = check_writable(file); !s.ok()) return s;
  // Wide elements first, otherwise as given: then every tensor is aligned to its elements, which readers that map the file rely on.
  std::vector<std::size_t> order(file.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto width = [&](std::size_t i) { return info(file.tensors[i].format).width; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return width(a) > width(b); });
  std::vector<std::uint64_t> begin(file.tensors.size());
  std::uint64_t size = 0;
  for (const std::size_t i : order) {
    begin[i] = size;
    size += file.tensors[i].data.size();
  }

  std::string header;
  const auto comma = [&] { header += header.empty() ? "{" : ","; };
  if (!file.metadata.empty()) {
    comma();
    header += "\"__metadata__\":";
    char separator = '{';
    for (const auto& [key, value] : file.metadata) {
      header += separator + json(key) + ":" + json(value);
      separator = ',';
    }
    header += "}";
  }
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const Tensor& tensor = file.tensors[i];
    if (tensor.name == "__metadata__") return bad_tensor("a .safetensors file cannot hold a tensor called \"__metadata__\"");
    comma();
    header += json(tensor.name) + R"(:{"dtype":")" + std::string(info(tensor.format).safetensors) + R"(","shape":[)";
    for (std::size_t k = 0; k < tensor.shape.size(); ++k) header += (k == 0 ? "" : ",") + std::to_string(tensor.shape[k]);
    header += "],\"data_offsets\":[" + text(begin[i]) + "," + text(begin[i] + tensor.data.size()) + "]}";
  }
  if (header.empty()) header = "{";
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > most_header)
    return bad_tensor("the header has " + count(header.size(), "byte") + ": expected at most " + text(most_header));

  Buffer bytes;
  bytes.reserve(8 + header.size() + size);
  append_little(bytes, header.size(), 8);
  append(bytes, bytes_of(header));
  for (const std::size_t i : order) append(bytes, file.tensors[i].data);
  return bytes;
}

}  // namespace norma
