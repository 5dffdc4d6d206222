#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "golden.h"
#include "norma/tensor_file.h"
#include "program.h"
#include "search.h"

namespace norma::program {
namespace {

namespace fs = std::filesystem;
using properties::GoldenCase;

constexpr std::string_view manifest_name = "SHA256SUMS";

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) return "";
  std::string digits;
  for (unsigned i = 0; i < size; ++i) digits += fmt::format("{:02x}", digest[i]);
  return digits;
}

// Checksums by file name, as sha256sum writes and checks them.
using Manifest = std::map<std::string, std::string>;

Result<Manifest> read_manifest(const fs::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  Manifest manifest;
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    at = end + 1;
    ++number;
    constexpr std::size_t digits = 64;
    const bool good = line.size() > digits + 2 && line.compare(digits, 2, "  ") == 0 && line.find('/') == std::string::npos &&
                      line.find_first_not_of("0123456789abcdef") == digits;
    if (!good)
      return Status{Code::bad_file, fmt::format("{}: line {}: expected a SHA-256 of 64 digits, two spaces and a file's name",
                                                printable(path.string()), number)};
    manifest[line.substr(digits + 2)] = line.substr(0, digits);
  }
  return manifest;
}

Status write_manifest(const fs::path& path, const Manifest& manifest) {
  std::string text;
  for (const auto& [name, sum] : manifest) text += sum + "  " + name + "\n";
  return write_file(path, std::as_bytes(std::span(text)));
}

// Whether a file is there as it was written.
bool intact(const fs::path& path, const std::string& sum) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const Result<std::string> bytes = read_file(path);
  return bytes.ok() && sha256(*bytes) == sum;
}

}  // namespace

int write_large(const std::string& folder, std::uint64_t seed, const std::string& shard, std::int64_t cases) {
  std::int64_t share = 0, shares = 0;
  if (Status status = read_shard(shard, share, shares); !status.ok()) return fail(status);
  if (shares > cases) return fail({Code::bad_parameter, fmt::format("--shard {}: there are only {} cases", shard, cases)});
  const fs::path manifest_path =
      fs::path(folder) / (shares == 1 ? std::string(manifest_name) : fmt::format("{}.{}-of-{}", manifest_name, share, shares));
  if (Status status = make_folder(folder); !status.ok()) return fail({status.code, "--out: " + status.message});
  if (Status status = may_write_file(manifest_path); !status.ok()) return fail(status);
  Manifest manifest;
  std::error_code error;
  if (fs::exists(manifest_path, error)) {
    Result<Manifest> old = read_manifest(manifest_path);
    if (!old.ok()) return fail(old.status());
    manifest = std::move(*old);
  }
  // Which file a number is, a name in it says; so what is there already need not be made to be recognized.
  const auto prefix = [&](std::int64_t number) { return fmt::format("large_{}_{:05}_", seed, number); };
  // Neighbours, so that a share has some of every op and format.
  const std::int64_t begin = cases * (share - 1) / shares, end = cases * share / shares;
  Progress progress("large cases", end - begin);
  std::int64_t kept = 0;
  std::uint64_t bytes = 0;
  for (std::int64_t number = begin; number < end; ++number) {
    progress.advance(1);
    const auto old = manifest.lower_bound(prefix(number));
    if (old != manifest.end() && old->first.starts_with(prefix(number)) && intact(fs::path(folder) / old->first, old->second)) {
      ++kept;
      bytes += fs::file_size(fs::path(folder) / old->first, error);
      continue;
    }
    const properties::Vector v = properties::large_vector(seed, number);
    const Result<GoldenCase> g = properties::golden_case(v.c, v.comment);
    if (!g.ok()) return fail({g.status().code, fmt::format("{}: {}", v.comment, g.status().message)});
    TensorFile file;
    properties::add_to(file, *g);
    const Result<std::vector<std::byte>> text = serialize_safetensors(file);
    if (!text.ok()) return fail(text.status());
    const std::string name = prefix(number) + properties::file_of(v.c) + ".safetensors";
    // The file before its checksum: what is listed is there.
    Status status = write_file(fs::path(folder) / name, *text);
    manifest[name] = sha256({reinterpret_cast<const char*>(text->data()), text->size()});
    bytes += text->size();
    if (status.ok()) status = write_manifest(manifest_path, manifest);
    if (!status.ok()) {
      progress.hide();
      return fail(status);
    }
  }
  progress.hide();
  fmt::print("{} files, {:.1f} MB in {}, {} of them were there; checksums in {}\n", end - begin, static_cast<double>(bytes) / 1e6,
             printable(folder), kept, printable(manifest_path.filename().string()));
  return holds;
}

Result<std::vector<std::string>> manifest_faults(const std::string& folder, const std::vector<fs::path>& paths) {
  std::error_code error;
  Manifest all;
  bool any = false;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().string().starts_with(manifest_name)) continue;
    any = true;
    const Result<Manifest> manifest = read_manifest(it->path());
    if (!manifest.ok()) return manifest.status();
    all.insert(manifest->begin(), manifest->end());
  }
  std::vector<std::string> faults;
  if (!any) return faults;
  for (const auto& [name, sum] : all) {
    const fs::path path = fs::path(folder) / name;
    if (!intact(path, sum))
      faults.push_back(fmt::format("{}: {}", path.string(),
                                   fs::exists(path, error) ? "has another SHA-256 than is listed" : "is listed, but not there"));
  }
  for (const fs::path& path : paths) {
    if (!all.contains(path.filename().string())) faults.push_back(fmt::format("{}: is in no {}", path.string(), manifest_name));
  }
  return faults;
}

}  // namespace norma::program
