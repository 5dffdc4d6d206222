// Files made by hand for the tests: as strings, one byte a character.
#pragma once

#include <zlib.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/tensor_file.h"

namespace norma {

inline std::span<const std::byte> bytes(std::string_view s) { return std::as_bytes(std::span(s)); }
inline std::vector<std::byte> buffer(std::string_view s) { return {bytes(s).begin(), bytes(s).end()}; }
inline std::string chars(std::span<const std::byte> b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

inline std::string unhex(std::string_view digits) {
  std::string s;
  for (std::size_t i = 0; i < digits.size(); i += 2) s += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return s;
}

inline std::string little(unsigned long long value, int size) {
  std::string s;
  for (int i = 0; i < size; ++i, value >>= 8) s += static_cast<char>(value & 0xff);
  return s;
}

inline std::string safetensors(std::string_view header, std::string_view data = "") {
  return little(header.size(), 8) + std::string(header) + std::string(data);
}

inline std::string npy(std::string_view dict, std::string_view data = "") {
  return "\x93NUMPY\1" + little(0, 1) + little(dict.size(), 2) + std::string(dict) + std::string(data);
}

// The dict numpy writes.
inline std::string npy_array(std::string_view descr, std::string_view shape, std::string_view data) {
  return npy("{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n", data);
}

// A zip archive in which every number can be made to lie.
struct ZipMember {
  std::string name;
  std::string content;              // as it stands in the archive
  unsigned method = 0;              // 8: deflated
  unsigned long long size = ~0ULL;  // of the content inflated; otherwise that of a stored member
  unsigned crc = 0;
  unsigned flags = 0;
};

inline ZipMember stored(std::string_view name, std::string_view content) {
  const auto crc = static_cast<unsigned>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  return {std::string(name), std::string(content), 0, content.size(), crc, 0};
}

inline ZipMember deflated(std::string_view name, std::string_view content) {
  ZipMember member = stored(name, content);
  uLongf size = compressBound(content.size());
  std::string zlib(size, '\0');
  compress2(reinterpret_cast<Bytef*>(zlib.data()), &size, reinterpret_cast<const Bytef*>(content.data()), content.size(), 9);
  member.content = zlib.substr(2, size - 6);  // without zlib's own header and checksum
  member.method = 8;
  return member;
}

inline std::string zip(const std::vector<ZipMember>& members) {
  std::string archive;
  std::string directory;
  for (const ZipMember& m : members) {
    const std::string common = little(20, 2) + little(m.flags, 2) + little(m.method, 2) + little(0, 2) + little(33, 2) + little(m.crc, 4) +
                               little(m.content.size(), 4) + little(m.size == ~0ULL ? m.content.size() : m.size, 4) +
                               little(m.name.size(), 2) + little(0, 2);
    directory += "PK\1\2" + little(20, 2) + common + little(0, 10) + little(archive.size(), 4) + m.name;
    archive += "PK\3\4" + common + m.name + m.content;
  }
  return archive + directory + "PK\5\6" + little(0, 4) + little(members.size(), 2) + little(members.size(), 2) +
         little(directory.size(), 4) + little(archive.size(), 4) + little(0, 2);
}

struct Container {
  const char* name;
  Result<TensorFile> (*parse)(std::span<const std::byte>);
  Result<std::vector<std::byte>> (*serialize)(const TensorFile&);
};
inline constexpr Container containers[] = {
    {"safetensors", parse_safetensors, serialize_safetensors},
    {"npy", parse_npy, serialize_npy},
    {"npz", parse_npz, serialize_npz},
};

}  // namespace norma
