// Regular files: read in order, and replaced all at once.
#pragma once

#include <filesystem>

#include "source.h"

namespace norma::files {

// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct OpenFile {
  Descriptor descriptor;
  std::uint64_t size;
};

// Does not wait, whatever the path names: what is no regular file is an error.
Result<OpenFile> open_regular(const std::filesystem::path& path);

class FileSource final : public Source {
 public:
  explicit FileSource(const OpenFile& file) : Source(file.size), fd_(file.descriptor.get()) {}

 private:
  Status fill(std::span<std::byte> to) override;
  bool leap(std::uint64_t size) override;
  int fd_;
};

Status visit_npz(const OpenFile& file, const TensorVisitor& visitor);

// Bytes of the file from an offset on, as many as `to` has or there are; the source stays where it is.
Result<Bytes> peek(const OpenFile& file, std::span<std::byte> to, std::uint64_t offset = 0);

// Puts the bytes where the path points, all of them or none: a temporary file beside it, synced if that is wanted, renamed.
Status replace_file(const std::filesystem::path& path, Bytes bytes, Sync sync = Sync::yes);
// Whether it would get as far as that temporary file.
Status may_replace_file(const std::filesystem::path& path);

}  // namespace norma::files
