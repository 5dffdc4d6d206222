#include "source.h"

#include <array>

namespace norma::files {

Status Source::read(std::span<std::byte> to) {
  if (to.size() > remaining_) {
    return bad_file("ends " + count(to.size() - remaining_, "byte") + " too early");
  }
  if (to.empty()) return {};
  remaining_ -= to.size();
  return fill(to);
}

Result<Buffer> Source::take(std::uint64_t size) {
  constexpr std::uint64_t first = std::uint64_t{1} << 20;
  if (size > remaining_) return bad_file("ends " + count(size - remaining_, "byte") + " too early");
  Buffer buffer;
  while (buffer.size() < size) {
    const std::size_t have = buffer.size();
    const std::size_t next = std::min(size, std::max<std::uint64_t>(2 * have, first));
    buffer.reserve(next);  // exactly: resize() alone would round up
    buffer.resize(next);
    if (Status s = read(std::span(buffer).subspan(have)); !s.ok()) return s;
  }
  return buffer;
}

Status Source::skip(std::uint64_t size) {
  if (size > remaining_) return bad_file("ends " + count(size - remaining_, "byte") + " too early");
  if (leap(size)) {
    remaining_ -= size;
    return {};
  }
  std::array<std::byte, 1 << 14> scratch;
  while (size > 0) {
    const std::size_t part = std::min<std::uint64_t>(size, scratch.size());
    if (Status s = read(std::span(scratch).first(part)); !s.ok()) return s;
    size -= part;
  }
  return {};
}

Result<std::optional<Format>> wanted(const TensorVisitor& visitor, const TensorHeader& header, std::uint64_t bytes) {
  Result<std::optional<Format>> as = visitor.wanted(header);
  if (as.ok() && *as && static_cast<std::uint64_t>(info(**as).bytes()) != bytes) {
    return bad_tensor("tensor " + quote(header.name) + " has dtype " + header.dtype + ", which is not to be had as " +
                      std::string(info(**as).name));
  }
  return as;
}

}  // namespace norma::files
