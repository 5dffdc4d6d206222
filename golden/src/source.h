// What the parsers read from: bytes that arrive in order, and how many of them are still promised.
#pragma once

#include <algorithm>

#include "text.h"

namespace norma::files {

class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] std::uint64_t remaining() const { return remaining_; }
  // Fills `to`; more than remain is an error.
  Status read(std::span<std::byte> to);
  // The next `size` bytes. Memory grows with what arrives, so a promise that is not kept costs little.
  Result<Buffer> take(std::uint64_t size);
  Status skip(std::uint64_t size);

 protected:
  explicit Source(std::uint64_t size) : remaining_(size) {}
  // Goes on without these bytes, if it can do that without reading them.
  virtual bool leap(std::uint64_t /*size*/) { return false; }

 private:
  virtual Status fill(std::span<std::byte> to) = 0;
  std::uint64_t remaining_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(Bytes bytes) : Source(bytes.size()), rest_(bytes) {}

 private:
  Status fill(std::span<std::byte> to) override {
    std::copy_n(rest_.begin(), to.size(), to.begin());
    rest_ = rest_.subspan(to.size());
    return {};
  }
  Bytes rest_;
};

// The parsers behind parse_safetensors and parse_npy.
Result<TensorFile> read_safetensors(Source& source);
Result<TensorFile> read_npy(Source& source);

// The visits behind visit_tensor_file.
Status visit_safetensors(Source& source, const TensorVisitor& visitor);
Status visit_golden_json(Source& source, const TensorVisitor& visitor);
// What a visitor wants of a tensor; whose elements have so many bytes.
Result<std::optional<Format>> wanted(const TensorVisitor& visitor, const TensorHeader& header, std::uint64_t bytes);

}  // namespace norma::files
