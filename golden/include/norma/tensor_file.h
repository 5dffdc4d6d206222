// Named tensors in files: .safetensors, .npz and .npy, read with suspicion and written atomically.
//
// Files come from strangers. A reader believes nothing it has not checked, asks for memory as bytes arrive and not as they are promised,
// and says what is wrong in one line: `tensor "y" ends at byte 96, but the data has 64 bytes`. Names and words taken from a file appear
// in messages quoted, escaped to printable ASCII and cut to a readable length.
//
// Nothing here prints, aborts or reads the environment. No exception leaves but std::bad_alloc, and the functions that take a path make
// a status of that too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/format.h"
#include "norma/spec.h"
#include "norma/status.h"

namespace norma {

struct Tensor {
  std::string name;
  Format format = Format::f32;
  Shape shape;                  // empty for a single value
  std::vector<std::byte> data;  // contiguous, last axis fastest, little-endian

  [[nodiscard]] ConstView view() const { return {format, data.data(), shape, {}}; }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct TensorFile {
  std::vector<Tensor> tensors;                  // in the order in which the file names them
  std::map<std::string, std::string> metadata;  // op, epsilon, axis … as text
  // Well-formed tensors whose dtype is none of Norma's formats: name and dtype, no data. A whole checkpoint is full of them (I64
  // position ids, say); they matter only to who asks for one.
  std::map<std::string, std::string> unreadable;

  // Null if there is none.
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  // The same, with a status that says why there is none: another dtype, or the names there are.
  [[nodiscard]] Result<const Tensor*> get(std::string_view name) const;

  friend bool operator==(const TensorFile&, const TensorFile&) = default;
};

// Reads a regular file as what its first bytes say it is, whatever its extension; what is neither zip nor .npy is taken for safetensors.
// The one tensor of a .npy file is called what the file is called, without the extension.
Result<TensorFile> read_tensor_file(const std::filesystem::path& path);

// What a file says of a tensor before its data.
struct TensorHeader {
  std::string name;
  std::optional<Format> format;
  std::string dtype;  // in the file's own words
  bool bits = false;  // unsigned integers or bytes of nothing in particular, which may be the bits of a format
  Shape shape;
};

// Told of the tensors of a file one after another, as they lie in it. A status other than ok ends the visit.
struct TensorVisitor {
  // The format to take a tensor in, of as many bytes as it has: its own, or bf16 for what numpy holds as uint16. None: it is passed over.
  std::function<Result<std::optional<Format>>(const TensorHeader&)> wanted;
  std::function<Status(Tensor&&)> see;
  std::function<Status(const std::string& key, const std::string& value)> metadata = {};
};
// Nothing of the file is in memory but its list of tensors and the one that is wanted, so that it may be larger than that; the list of a
// .safetensors file has at most 16 MB here. Files whose names end in .json are golden files, or have as much of their form as it takes:
// {"cases": [{"id": ID, "outputs": {ROLE: {"dtype": "f32", "shape": [2, 3], "data": "0000803f…"}}}]}, whatever else there is. Their
// tensors are called ID.out.ROLE, and have at most 16 MiB each.
Status visit_tensor_file(const std::filesystem::path& path, const TensorVisitor& visitor);

// Replaces or creates the file, in the format of its extension: .safetensors, .npz, or .npy for exactly one tensor without metadata.
// The same tensors give the same bytes everywhere. The file appears whole or not at all: on any status but ok, what was there before
// is still there and nothing else is. What exists and is no regular file is refused; a symbolic link stays, its target is replaced.
Status write_tensor_file(const std::filesystem::path& path, const TensorFile& file);

// The bytes of a regular file, as long as it is when it is opened.
Result<std::string> read_file(const std::filesystem::path& path);
// As write_tensor_file, for any bytes and extension. Unless it is synced, a machine that stops may leave an empty file, though nothing else
// does: each wait for the disk is milliseconds, which of thousands of small files that are easily made anew nobody wants.
enum class Sync : std::uint8_t { yes, no };
Status write_file(const std::filesystem::path& path, std::span<const std::byte> bytes, Sync sync = Sync::yes);
// Whether write_file would get as far as a file without a name in the directory of `path`: to ask before long work. Changes nothing.
Status may_write_file(const std::filesystem::path& path);

// For messages, which stay on one line whatever they speak of. A name or a word from a file: in quotes, printable ASCII, of bounded
// length. A path from the user: whole, Unicode as it is.
[[nodiscard]] std::string quote(std::string_view name);
[[nodiscard]] std::string printable(std::string_view path);
// The same of words from a stranger: the first few hundred bytes.
[[nodiscard]] std::string excerpt(std::string_view words);

// The formats by themselves, for pipes and tests.
//
// .safetensors: 8 bytes little-endian length, a JSON header, the data. As its specification demands, tensors neither overlap nor
//     leave holes. Sub-byte dtypes are refused; other dtypes that are not Norma's are `unreadable`.
// .npy: versions 1 to 3, either byte order, C or Fortran order. Its one tensor has the name "". Nothing is ever unpickled.
// .npz: a zip archive of .npy members, stored or deflated. A single string (shape ()) is metadata, as is a single number called epsilon,
//     axis, groups, momentum or gain_offset, so that np.savez("f.npz", x=x, y=y, op="layer_norm", epsilon=1e-5, axis=-1) says it all. Such
//     a number of a floating-point dtype is given as a hex float, exactly.
Result<TensorFile> parse_safetensors(std::span<const std::byte> bytes);
Result<TensorFile> parse_npy(std::span<const std::byte> bytes);
Result<TensorFile> parse_npz(std::span<const std::byte> bytes);

// What the formats cannot hold is refused with Code::bad_tensor: data that does not match its shape, names twice, text that is no UTF-8,
// `unreadable` tensors (their data was not read), and in .npy and .npz bf16 and fp8, which numpy does not have. A .npz may
// have their bits instead, as unsigned integers, which nothing in it tells from numbers.
enum class Foreign : std::uint8_t { refused, as_bits };
Result<std::vector<std::byte>> serialize_safetensors(const TensorFile& file);
Result<std::vector<std::byte>> serialize_npy(const TensorFile& file);  // the name of the tensor is not written
Result<std::vector<std::byte>> serialize_npz(const TensorFile& file);
Result<std::vector<std::byte>> serialize_npz(const TensorFile& file, Foreign foreign);

}  // namespace norma
