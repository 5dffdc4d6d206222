// A .npz is a zip archive of .npy members. Read through libzip; written here, because libzip's bytes depend on its version and on the
// time zone, and a stored archive takes one page.
#include <fcntl.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <system_error>

#include "file.h"
#include "npy.h"

namespace norma::files {
namespace {

struct ZipDeleter {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, ZipDeleter>;
using Member = std::unique_ptr<zip_file_t, ZipDeleter>;

std::string explain(zip_error_t* error) {
  std::string message = zip_error_strerror(error);
  zip_error_fini(error);
  return message;
}

// A member, or the end of an archive without members. Libzip takes an empty file, too, for an empty archive.
bool begins_like_zip(Bytes bytes) { return chars(bytes).starts_with("PK\3\4") || chars(bytes).starts_with("PK\5\6"); }
Status not_zip() { return bad_file("does not begin with PK: expected a zip archive"); }

// `create` makes the source that the archive is read from.
template <class Create>
Result<Archive> open_archive(Create create) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = create(&error);
  if (source == nullptr) return bad_file("cannot be read as a zip archive: " + explain(&error));
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error));
  if (archive == nullptr) {
    zip_source_free(source);
    return bad_file("is no valid zip archive: " + explain(&error));
  }
  zip_error_fini(&error);
  return archive;
}

// How many members the end of an archive says it has, 0 where there is no end: that is for libzip to say. APPNOTE.TXT of zip, 4.3.14
// to 4.3.16.
Result<std::uint64_t> stated_members(const OpenFile& file) {
  constexpr std::size_t end_bytes = 22, locator_bytes = 20, record_bytes = 56, most_comment = 0xffff;
  Buffer last(static_cast<std::size_t>(std::min<std::uint64_t>(file.size, locator_bytes + end_bytes + most_comment)));
  const Result<Bytes> tail = peek(file, last, file.size - last.size());
  if (!tail.ok()) return tail.status();
  const std::size_t end = chars(*tail).rfind("PK\5\6");
  if (end == std::string_view::npos || end + end_bytes > tail->size()) return std::uint64_t{0};
  const std::uint64_t members = little(tail->subspan(end + 10, 2));
  if (members != 0xffff || end < locator_bytes || !chars(*tail).substr(end - locator_bytes).starts_with("PK\6\7")) return members;
  const std::uint64_t at = little(tail->subspan(end - locator_bytes + 8, 8));
  std::array<std::byte, record_bytes> large{};
  if (at > file.size) return members;
  const Result<Bytes> record = peek(file, large, at);
  if (!record.ok()) return record.status();
  return record->size() == record_bytes && chars(*record).starts_with("PK\6\6") ? little(record->subspan(32, 8)) : members;
}

class MemberSource final : public Source {
 public:
  MemberSource(zip_file_t* member, std::uint64_t size) : Source(size), member_(member) {}

  // Whether the member ends where it said, with the checksum it said: libzip compares when asked for what comes after the last byte.
  Status finish() {
    std::byte more{};
    const zip_int64_t got = zip_fread(member_, &more, 1);
    if (got > 0) return bad_file("inflates to more than the size it states");
    return got == 0 ? Status{} : bad_file(explain_member());
  }

 private:
  Status fill(std::span<std::byte> to) override {
    while (!to.empty()) {
      const zip_int64_t got = zip_fread(member_, to.data(), to.size());
      if (got < 0) return bad_file(explain_member());
      if (got == 0) return bad_file("inflates to less than the size it states");
      to = to.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  std::string explain_member() { return std::string("cannot be read: ") + zip_error_strerror(zip_file_get_error(member_)); }

  zip_file_t* member_;
};

// The size of a member, if it can be believed: never more than its compressed bytes can hold.
Result<std::uint64_t> plausible_size(const zip_stat_t& stat) {
  constexpr zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & needed) != needed) return bad_file("does not state its size and compression");
  if (stat.encryption_method != ZIP_EM_NONE) return bad_file("is encrypted");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return bad_file("is compressed by method " + std::to_string(stat.comp_method) + ": expected 0 (stored) or 8 (deflated)");
  }
  // Deflate's best: 258 bytes for two bits, less what a block costs (https://zlib.net/zlib_tech.html).
  constexpr std::uint64_t most_ratio = 1032;
  const bool stored = stat.comp_method == ZIP_CM_STORE;
  if (stored ? stat.size != stat.comp_size : stat.size / most_ratio > stat.comp_size) {
    return bad_file("states " + count(stat.size, "byte") + " in " + text(stat.comp_size) +
                    (stored ? " stored ones" : " deflated ones, which cannot be"));
  }
  return stat.size;
}

// What is read and what is written as a name, free of control characters: libzip turns most of them into other characters. What it calls
// UTF-8 may moreover be overlong, a surrogate or beyond Unicode.
bool is_member_name(std::string_view name) {
  return is_utf8(name) && std::none_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

bool is_attribute(std::string_view name) {
  return name == "epsilon" || name == "axis" || name == "groups" || name == "momentum" || name == "gain_offset";
}

// The one value of a member of shape (), as text; nullopt if it is a tensor like any other.
Result<std::optional<std::string>> scalar_text(Source& source, const NpyHeader& header, std::string_view name) {
  using Text = std::optional<std::string>;
  const bool string = header.kind == 'U' || header.kind == 'S';
  const bool integer = (header.kind == 'i' || header.kind == 'u') && header.size <= 8 && header.size > 0;
  const auto format = header.format();
  if (!header.shape.empty() || (!string && !(is_attribute(name) && (integer || format)))) return Text{};
  const Result<Buffer> data = read_npy_data(source, header);
  if (!data.ok()) return data.status();

  if (format) {
    const Decoded value = decode(*format, load(*format, data->data()));
    const double magnitude = value.kind == Kind::nan        ? std::numeric_limits<double>::quiet_NaN()
                             : value.kind == Kind::infinite ? std::numeric_limits<double>::infinity()
                                                            : std::ldexp(static_cast<double>(value.significand), value.exponent);
    return Text(to_hex(value.negative ? -magnitude : magnitude));
  }
  if (integer) {
    const int unused = 64 - 8 * static_cast<int>(*header.size);
    const std::uint64_t bits = little(*data) << unused;
    return Text(header.kind == 'u' ? std::to_string(bits >> unused) : std::to_string(static_cast<std::int64_t>(bits) >> unused));
  }
  // Text fills its field up with zeros.
  std::string s;
  if (header.kind == 'S') {
    s = chars(*data);
  } else {
    for (std::size_t i = 0; i < data->size(); i += 4) {
      const auto point = static_cast<char32_t>(little(Bytes(*data).subspan(i, 4)));
      if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return bad_file("holds text with a code point that is no character");
      append_utf8(s, point);
    }
  }
  s.erase(s.find_last_not_of('\0') + 1);
  if (!is_utf8(s)) return bad_file("holds text that is not UTF-8");
  return Text(std::move(s));
}

// Hands the members to `read`, one after another, if the archive can be believed.
template <class Read>
Status each_member(zip_t* archive, std::uint64_t archive_bytes, Read read) {
  std::set<std::string, std::less<>> names;
  std::uint64_t compressed = 0;
  const zip_int64_t members = zip_get_num_entries(archive, 0);
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(members); ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(archive, i, 0, &stat) != 0 || (stat.valid & ZIP_STAT_NAME) == 0) {
      return bad_file("member " + text(i) + " of the archive cannot be read: " + zip_error_strerror(zip_get_error(archive)));
    }
    std::string name = stat.name;
    const std::string title = "member " + quote(name);
    const Result<std::uint64_t> size = plausible_size(stat);
    if (!size.ok()) return within(title, size.status());
    // Members that share their bytes would make a small file large without any of them being implausible.
    if (stat.comp_size > archive_bytes - compressed) {
      return bad_file(title + " brings the members to more bytes than the file has: they overlap, or their sizes are wrong");
    }
    compressed += stat.comp_size;
    if (!is_member_name(name)) return bad_file(title + " has a bad name: expected UTF-8 without control characters");
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (!names.insert(name).second) return bad_file("two members are called " + quote(name));
    const Member member(zip_fopen_index(archive, i, 0));
    if (member == nullptr) return within(title, bad_file(std::string("cannot be opened: ") + zip_error_strerror(zip_get_error(archive))));
    MemberSource source(member.get(), *size);
    const Result<NpyHeader> header = read_npy_header(source);
    if (!header.ok()) return within(title, header.status());
    if (Status s = read(std::move(name), *header, source); !s.ok()) return within(title, s);
    if (Status s = source.finish(); !s.ok()) return within(title, s);
  }
  return {};
}

// The members of an archive being written, and the directory of them that goes to its end.
class ZipWriter {
 public:
  explicit ZipWriter(Buffer& to) : to_(to) {}

  Status add(std::string_view name, Bytes data) {
    const std::string member = std::string(name) + ".npy";
    if (!is_member_name(name) || member.size() > 0xffff) {
      return bad_tensor("a .npz file cannot hold the name " + quote(name) + ": expected at most 65531 bytes, no control characters");
    }
    // The zip64 extension would lift this; files of that size are better kept as .safetensors.
    if (++members_ == 0xffff || to_.size() + data.size() > 0xf0000000) {
      return bad_tensor("a .npz file of more than 65534 members or 3.75 GiB is not supported: use .safetensors");
    }
    const std::size_t offset = to_.size();
    Buffer common;
    append_little(common, 20, 2);                              // version needed: 2.0
    append_little(common, is_ascii(member) ? 0 : 1 << 11, 2);  // flags: the name is UTF-8
    append_little(common, 0, 2);                               // method: stored
    append_little(common, 0, 2);                               // time: midnight
    append_little(common, 1 << 5 | 1, 2);                      // date: 1 January 1980, the first there is
    append_little(common, crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()), 4);
    append_little(common, data.size(), 4);  // compressed
    append_little(common, data.size(), 4);
    append_little(common, member.size(), 2);
    append_little(common, 0, 2);  // no extra field

    append_little(to_, 0x04034b50, 4);
    append(to_, common);
    append(to_, bytes_of(member));
    append(to_, data);

    append_little(directory_, 0x02014b50, 4);
    append_little(directory_, 3 << 8 | 20, 2);  // made by: Unix, 2.0
    append(directory_, common);
    append_little(directory_, 0, 2);  // no comment
    append_little(directory_, 0, 2);  // disk
    append_little(directory_, 0, 2);  // internal attributes
    append_little(directory_, 0100644ULL << 16, 4);
    append_little(directory_, offset, 4);
    append(directory_, bytes_of(member));
    return {};
  }

  void finish() {
    const std::size_t offset = to_.size();
    append(to_, directory_);
    append_little(to_, 0x06054b50, 4);
    append_little(to_, 0, 4);  // disks
    append_little(to_, members_, 2);
    append_little(to_, members_, 2);
    append_little(to_, directory_.size(), 4);
    append_little(to_, offset, 4);
    append_little(to_, 0, 2);  // no comment
  }

 private:
  static bool is_ascii(std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  }

  Buffer& to_;
  Buffer directory_;
  std::uint64_t members_ = 0;
};

// A string as numpy holds it: four bytes for each code point.
Result<Buffer> npy_string(std::string_view key, std::string_view value) {
  if (value.ends_with('\0')) return bad_tensor("metadata " + quote(key) + " ends with a zero character, which numpy drops");
  Buffer points;
  for (std::size_t at = 0; at < value.size();) append_little(points, next_utf8(value, at), 4);
  if (points.empty()) append_little(points, 0, 4);  // numpy has no empty ones
  Buffer member;
  append_npy(member, "<U" + text(std::uint64_t{points.size() / 4}), {}, points);
  return member;
}

}  // namespace

Status visit_npz(const OpenFile& file, const TensorVisitor& visitor) {
  std::array<std::byte, 4> start{};
  const Result<Bytes> peeked = peek(file, start);
  if (!peeked.ok()) return peeked.status();
  if (!begins_like_zip(*peeked)) return not_zip();
  // Libzip holds all of their names, some 800 bytes a member.
  constexpr std::uint64_t most_members = 200'000;
  const Result<std::uint64_t> members = stated_members(file);
  if (!members.ok()) return members.status();
  if (*members > most_members) return bad_file("has " + count(*members, "member") + ": expected at most " + text(most_members));
  const int copy = ::fcntl(file.descriptor.get(), F_DUPFD_CLOEXEC, 0);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(copy < 0 ? nullptr : ::fdopen(copy, "rb"), std::fclose);
  if (stream == nullptr) {
    if (copy >= 0) ::close(copy);
    return io_error("cannot be opened once more: " + std::generic_category().message(errno));
  }
  const Result<Archive> archive = open_archive([&](zip_error_t* error) {
    zip_source_t* const source = zip_source_filep_create(stream.get(), 0, -1, error);
    if (source != nullptr) (void)stream.release();  // the source closes it
    return source;
  });
  if (!archive.ok()) return archive.status();
  return each_member(archive->get(), file.size, [&](std::string name, const NpyHeader& header, Source& source) {
    Result<std::optional<std::string>> scalar = scalar_text(source, header, name);
    if (!scalar.ok()) return scalar.status();
    if (*scalar) return visitor.metadata ? visitor.metadata(name, **scalar) : Status{};
    const bool bits = header.kind == 'u' || header.kind == 'V';
    const Result<std::optional<Format>> as =
        wanted(visitor, {name, header.format(), header.dtype(), bits, header.shape}, header.size.value_or(0));
    if (!as.ok()) return as.status();
    if (!*as) return skip_npy_data(source, header);
    Result<Buffer> data = read_npy_data(source, header);
    if (!data.ok()) return data.status();
    return visitor.see({std::move(name), **as, header.shape, std::move(*data)});
  });
}

}  // namespace norma::files

namespace norma {

using namespace files;

Result<TensorFile> parse_npz(std::span<const std::byte> bytes) {
  if (!begins_like_zip(bytes)) return not_zip();
  const Result<Archive> archive =
      open_archive([&](zip_error_t* error) { return zip_source_buffer_create(bytes.data(), bytes.size(), 0, error); });
  if (!archive.ok()) return archive.status();
  TensorFile file;
  const auto read = [&](std::string name, const NpyHeader& header, Source& source) {
    Result<std::optional<std::string>> scalar = scalar_text(source, header, name);
    if (!scalar.ok()) return scalar.status();
    if (*scalar) {
      file.metadata.emplace(std::move(name), std::move(**scalar));
    } else if (const auto format = header.format()) {
      Result<Buffer> data = read_npy_data(source, header);
      if (!data.ok()) return data.status();
      file.tensors.push_back({std::move(name), *format, header.shape, std::move(*data)});
    } else {
      if (Status s = skip_npy_data(source, header); !s.ok()) return s;
      file.unreadable.emplace(std::move(name), header.dtype());
    }
    return Status{};
  };
  if (Status s = each_member(archive->get(), bytes.size(), read); !s.ok()) return s;
  return file;
}

Result<Buffer> serialize_npz(const TensorFile& file, Foreign foreign) {
  if (Status s = check_writable(file); !s.ok()) return s;
  Buffer bytes;
  ZipWriter zip(bytes);
  for (const Tensor& tensor : file.tensors) {
    if (file.metadata.contains(tensor.name))
      return bad_tensor("in a .npz file a tensor and metadata cannot both be called " + quote(tensor.name));
    if (tensor.shape.empty() && is_attribute(tensor.name)) {
      return bad_tensor("a single number called " + quote(tensor.name) +
                        " is metadata in a .npz file: expected it as metadata, or with an axis");
    }
    Buffer member;
    if (Status s = append_npy(member, tensor, foreign); !s.ok()) return s;
    if (Status s = zip.add(tensor.name, member); !s.ok()) return s;
  }
  for (const auto& [key, value] : file.metadata) {
    const Result<Buffer> member = npy_string(key, value);
    if (!member.ok()) return member.status();
    if (Status s = zip.add(key, *member); !s.ok()) return s;
  }
  zip.finish();
  return bytes;
}

Result<Buffer> serialize_npz(const TensorFile& file) { return serialize_npz(file, Foreign::refused); }

}  // namespace norma
