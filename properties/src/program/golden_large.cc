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

Result<std::string> sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return Status{Code::io_error, "SHA-256 failed: OpenSSL does not offer it here"};
  }
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
    const bool good = line.size() > digits + 2 && line.compare(digits, 2, "  ") == 0 && line.find_first_of("/\r") == std::string::npos &&
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

// The manifests of a folder, all shares together. What two of them say differently is a fault.
Result<Manifest> read_manifests(const fs::path& folder) {
  Manifest all;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().string().starts_with(manifest_name)) continue;
    const Result<Manifest> manifest = read_manifest(it->path());
    if (!manifest.ok()) return manifest.status();
    for (const auto& [name, sum] : *manifest) {
      if (all.emplace(name, sum).first->second == sum) continue;
      return Status{Code::bad_file,
                    fmt::format("{}: {} has another SHA-256 in another {}*", printable(it->path().string()), quote(name), manifest_name)};
    }
  }
  return all;
}

// Why a file is not there as it was written; nothing where it is.
std::string fault_of(const fs::path& path, const std::string& sum) {
  std::error_code error;
  if (!fs::exists(path, error)) return fmt::format("{}: is listed, but not there", path.string());
  const Result<std::string> bytes = read_file(path);
  if (!bytes.ok()) return bytes.status().message;
  const Result<std::string> is = sha256(*bytes);
  if (!is.ok()) return is.status().message;
  return *is == sum ? "" : fmt::format("{}: has another SHA-256 than is listed", path.string());
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
  std::error_code error;
  Result<Manifest> mine = fs::exists(manifest_path, error) ? read_manifest(manifest_path) : Manifest{};
  if (!mine.ok()) return fail(mine.status());
  const Result<Manifest> listed = read_manifests(folder);
  if (!listed.ok()) return fail(listed.status());
  // Which number a file is of, its name says; so what is there already need not be made to be recognized.
  const auto prefix = [&](std::int64_t number) { return fmt::format("large_{}_{:05}_", seed, number); };
  // Neighbours, so that a share has some of every op and format.
  const std::int64_t begin = cases * (share - 1) / shares, end = cases * share / shares;
  Progress progress("large cases", end - begin);
  std::int64_t kept = 0;
  std::uint64_t bytes = 0;
  const auto write_one = [&](std::int64_t number) -> Status {
    const auto old = listed->lower_bound(prefix(number));
    if (old != listed->end() && old->first.starts_with(prefix(number)) && fault_of(fs::path(folder) / old->first, old->second).empty()) {
      ++kept;
      bytes += fs::file_size(fs::path(folder) / old->first, error);
      return mine->insert(*old).second ? write_manifest(manifest_path, *mine) : Status{};
    }
    const properties::Vector v = properties::large_vector(seed, number);
    const Result<GoldenCase> g = properties::golden_case(v.c, v.comment);
    if (!g.ok()) return {g.status().code, fmt::format("{}: {}", v.comment, g.status().message)};
    TensorFile file;
    properties::add_to(file, *g);
    const Result<std::vector<std::byte>> text = serialize_safetensors(file);
    if (!text.ok()) return text.status();
    const std::string name = prefix(number) + properties::file_of(v.c) + ".safetensors";
    const Result<std::string> sum = sha256({reinterpret_cast<const char*>(text->data()), text->size()});
    if (!sum.ok()) return sum.status();
    // The file before its checksum: what is listed is there.
    if (Status status = write_file(fs::path(folder) / name, *text); !status.ok()) return status;
    bytes += text->size();
    (*mine)[name] = *sum;
    return write_manifest(manifest_path, *mine);
  };
  for (std::int64_t number = begin; number < end; ++number) {
    progress.advance(1);
    if (Status status = write_one(number); !status.ok()) {
      progress.hide();
      return fail(status);
    }
  }
  progress.hide();
  fmt::print("{} files, {:.1f} MB in {}, {} of them were there; checksums in {}\n", end - begin, static_cast<double>(bytes) / 1e6,
             printable(folder), kept, printable(manifest_path.filename().string()));
  return holds;
}

Status all_there(const std::string& folder) {
  const Result<Manifest> all = read_manifests(folder);
  if (!all.ok()) return all.status();
  std::error_code error;
  for (const auto& [name, sum] : *all) {
    if (!fs::exists(fs::path(folder) / name, error)) {
      return {Code::io_error, fmt::format("{}: {} is listed, but not there", printable(folder), printable(name))};
    }
  }
  return {};
}

Result<std::vector<std::string>> manifest_faults(const std::string& folder, const std::vector<fs::path>& paths) {
  const Result<Manifest> all = read_manifests(folder);
  if (!all.ok()) return all.status();
  std::vector<std::string> faults;
  if (all->empty()) return faults;
  for (const auto& [name, sum] : *all) {
    if (const std::string fault = fault_of(fs::path(folder) / name, sum); !fault.empty()) faults.push_back(fault);
  }
  for (const fs::path& path : paths) {
    if (!all->contains(path.filename().string())) faults.push_back(fmt::format("{}: is in no {}", path.string(), manifest_name));
  }
  return faults;
}

}  // namespace norma::program
