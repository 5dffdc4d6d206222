#include "norma/tensor_file.h"

#include <algorithm>
#include <array>
#include <exception>

#include "file.h"

namespace norma {

using namespace files;

namespace {

struct Container {
  std::string_view extension;
  Result<Buffer> (*serialize)(const TensorFile&);
};
constexpr std::array<Container, 3> containers{{
    {".safetensors", serialize_safetensors},
    {".npz", serialize_npz},
    {".npy", serialize_npy},
}};

Result<TensorFile> read(const std::filesystem::path& path) {
  const Result<OpenFile> opened = open_regular(path);
  if (!opened.ok()) return opened.status();
  std::array<std::byte, 6> start{};
  const Result<Bytes> peeked = peek(*opened, start);
  if (!peeked.ok()) return peeked.status();
  const std::string_view magic = chars(*peeked);
  FileSource source(*opened);

  if (magic.starts_with("PK\3\4") || magic.starts_with("PK\5\6")) {
    const Result<Buffer> bytes = source.take(source.remaining());
    return bytes.ok() ? parse_npz(*bytes) : bytes.status();
  }
  if (magic != "\x93NUMPY") return read_safetensors(source);
  Result<TensorFile> file = read_npy(source);
  if (!file.ok()) return file;
  const std::string name = path.stem().string();
  for (Tensor& tensor : file->tensors) tensor.name = name;
  if (const auto node = file->unreadable.extract(""); !node.empty()) file->unreadable.emplace(name, node.mapped());
  return file;
}

Status visit(const std::filesystem::path& path, const TensorVisitor& visitor) {
  const Result<OpenFile> opened = open_regular(path);
  if (!opened.ok()) return opened.status();
  FileSource source(*opened);
  if (path.extension() == ".json") return visit_golden_json(source, visitor);
  if (path.extension() == ".npz") return visit_npz(*opened, visitor);
  return visit_safetensors(source, visitor);
}

Status write(const std::filesystem::path& path, const TensorFile& file) {
  const std::string extension = path.extension().string();
  const auto* const container =
      std::find_if(containers.begin(), containers.end(), [&](const Container& c) { return c.extension == extension; });
  if (container == containers.end()) {
    return {Code::bad_parameter, (extension.empty() ? "has no extension" : "has the extension " + quote(extension)) +
                                     ", which decides the format: expected .safetensors, .npz or .npy"};
  }
  const Result<Buffer> bytes = container->serialize(file);
  return bytes.ok() ? replace_file(path, *bytes) : bytes.status();
}

// Whatever the standard library throws, memory above all, becomes a status that begins with the path.
template <class Function>
Status guarded(const std::filesystem::path& path, const char* what, Function function) {
  try {
    return within(printable(path.native()), function());
  } catch (const std::bad_alloc&) {
    return within(printable(path.native()), io_error(std::string(what) + " takes more memory than there is"));
  } catch (const std::exception& e) {
    return within(printable(path.native()), io_error(std::string(what) + " failed: " + e.what()));
  }
}

template <class T, class Function>
Result<T> guarded_read(const std::filesystem::path& path, Function function) {
  T value;
  Status status = guarded(path, "reading it", [&] {
    Result<T> result = function();
    if (!result.ok()) return result.status();
    value = std::move(*result);
    return Status{};
  });
  if (!status.ok()) return status;
  return value;
}

}  // namespace

const Tensor* TensorFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Result<const Tensor*> TensorFile::get(std::string_view name) const {
  if (const Tensor* const tensor = find(name)) return tensor;
  if (const auto other = unreadable.find(std::string(name)); other != unreadable.end()) {
    return bad_tensor("tensor " + quote(name) + " has dtype " + other->second + ": expected one of " + format_names());
  }
  constexpr std::size_t most_named = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(tensors.size(), most_named); ++i) names += (i == 0 ? "" : ", ") + quote(tensors[i].name);
  if (tensors.size() > most_named) names += " and " + std::to_string(tensors.size() - most_named) + " more";
  return bad_tensor("there is no tensor " + quote(name) + ": the file has " + (names.empty() ? "none" : names));
}

Result<TensorFile> read_tensor_file(const std::filesystem::path& path) {
  return guarded_read<TensorFile>(path, [&] { return read(path); });
}

Status visit_tensor_file(const std::filesystem::path& path, const TensorVisitor& visitor) {
  return guarded(path, "reading it", [&] { return visit(path, visitor); });
}

Result<std::string> read_file(const std::filesystem::path& path) {
  return guarded_read<std::string>(path, [&]() -> Result<std::string> {
    const Result<OpenFile> opened = open_regular(path);
    if (!opened.ok()) return opened.status();
    const Result<Buffer> bytes = FileSource(*opened).take(opened->size);
    if (!bytes.ok()) return bytes.status();
    return std::string(chars(*bytes));
  });
}

Status write_tensor_file(const std::filesystem::path& path, const TensorFile& file) {
  return guarded(path, "writing it", [&] { return write(path, file); });
}

Status write_file(const std::filesystem::path& path, std::span<const std::byte> bytes, Sync sync) {
  return guarded(path, "writing it", [&] { return files::replace_file(path, bytes, sync); });
}

Status may_write_file(const std::filesystem::path& path) {
  return guarded(path, "writing it", [&] { return files::may_replace_file(path); });
}

}  // namespace norma
