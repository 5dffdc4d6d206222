// What makes a folder's files and what it made: SHA256SUMS, as sha256sum checks it.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "golden.h"
#include "norma/tensor_file.h"
#include "program.h"

namespace norma::program {
namespace {

namespace fs = std::filesystem;

// Of a comment "# NUMBER files: COMMAND".
bool read_promise(std::string_view line, Manifest& to) {
  constexpr std::string_view start = "# ", middle = " files: ";
  const std::size_t end = line.find(middle);
  if (!line.starts_with(start) || end == std::string_view::npos) return false;
  const std::string_view number = line.substr(start.size(), end - start.size());
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), to.files);
  to.command = line.substr(end + middle.size());
  return error == std::errc() && rest == number.data() + number.size() && to.files > 0 && printable(to.command) == to.command;
}

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
    const auto bad = [&](const char* expected) {
      return Status{Code::bad_file, fmt::format("{}: line {}: expected {}", printable(path.string()), number, expected)};
    };
    if (number == 1) {
      if (!read_promise(line, manifest)) return bad("\"# NUMBER files: COMMAND\", as norma golden write begins it");
      continue;
    }
    constexpr std::size_t digits = 64;
    const bool good = line.size() > digits + 2 && line.compare(digits, 2, "  ") == 0 && line.find_first_of("/\r") == std::string::npos &&
                      line.find_first_not_of("0123456789abcdef") == digits;
    if (!good) return bad("a SHA-256 of 64 digits, two spaces and a file's name");
    manifest.sums[line.substr(digits + 2)] = line.substr(0, digits);
  }
  if (number == 0) return Status{Code::bad_file, fmt::format("{}: is empty", printable(path.string()))};
  return manifest;
}

// What is to be in a folder, and is not.
std::vector<std::string> missing_files(const fs::path& folder, const Manifests& all) {
  std::vector<std::string> missing;
  for (const auto& [name, manifest] : all.by_name) {
    const auto listed = static_cast<std::int64_t>(manifest.sums.size());
    if (listed >= manifest.files) continue;
    missing.push_back(fmt::format("{}: lists {} of {} files: expected the end of {}", (folder / name).string(), listed, manifest.files,
                                  manifest.command));
  }
  std::error_code error;
  for (const auto& [name, sum] : all.sums) {
    if (!fs::exists(folder / name, error)) missing.push_back(fmt::format("{}: is listed, but not there", (folder / name).string()));
  }
  return missing;
}

}  // namespace

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

std::string to_text(const Manifest& manifest) {
  std::string text = fmt::format("# {} files: {}\n", manifest.files, manifest.command);
  for (const auto& [name, sum] : manifest.sums) text += sum + "  " + name + "\n";
  return text;
}

Status write_manifest(const fs::path& path, const Manifest& manifest) {
  const std::string text = to_text(manifest);
  return write_file(path, std::as_bytes(std::span(text)));
}

Result<Manifests> read_manifests(const fs::path& folder) {
  Manifests read;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(manifest_name) || name.ends_with(".tmp")) continue;
    Result<Manifest> manifest = read_manifest(it->path());
    if (!manifest.ok()) return manifest.status();
    for (const auto& [file, sum] : manifest->sums) {
      if (read.sums.emplace(file, sum).first->second == sum) continue;
      return Status{Code::bad_file,
                    fmt::format("{}: {} has another SHA-256 in another {}*", printable(it->path().string()), quote(file), manifest_name)};
    }
    read.by_name.emplace(name, std::move(*manifest));
  }
  return read;
}

bool is_there(const fs::path& folder, const std::pair<const std::string, std::string>& listed) {
  std::error_code error;
  if (!fs::exists(folder / listed.first, error)) return false;
  const Result<std::string> bytes = read_file(folder / listed.first);
  const Result<std::string> sum = bytes.ok() ? sha256(*bytes) : bytes;
  return sum.ok() && *sum == listed.second;
}

Status all_there(const fs::path& folder) {
  const Result<Manifests> all = read_manifests(folder);
  if (!all.ok()) return all.status();
  const std::vector<std::string> missing = missing_files(folder, *all);
  return missing.empty() ? Status{} : Status{Code::bad_file, printable(missing.front())};
}

Result<std::vector<std::string>> manifest_faults(const fs::path& folder, const std::vector<fs::path>& paths) {
  const Result<Manifests> all = read_manifests(folder);
  if (!all.ok()) return all.status();
  std::vector<std::string> faults = missing_files(folder, *all);
  std::error_code error;
  for (const auto& listed : all->sums) {
    if (fs::exists(folder / listed.first, error) && !is_there(folder, listed)) {
      faults.push_back(fmt::format("{}: has another SHA-256 than is listed", (folder / listed.first).string()));
    }
  }
  for (const fs::path& path : paths) {
    if (all->by_name.empty() || all->sums.contains(path.filename().string())) continue;
    faults.push_back(fmt::format("{}: is in no {}", path.string(), manifest_name));
  }
  return faults;
}

}  // namespace norma::program
