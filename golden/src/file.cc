#include "file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>

namespace norma::files {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// A system call again and again while signals interrupt it.
template <class Call>
auto persist(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// One read or write moves at most about 2 GiB; asking for less keeps the count positive everywhere.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

Status not_regular(mode_t mode) {
  return io_error((S_ISDIR(mode) ? std::string("is a directory") : std::string("is no regular file")) + ": expected a regular file");
}

Status write_all(int fd, Bytes bytes, Sync sync) {
  while (!bytes.empty()) {
    const ssize_t put = persist([&] { return ::write(fd, bytes.data(), std::min(bytes.size(), most_at_once)); });
    if (put < 0) return io_error("cannot be written: " + reason(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  if (sync == Sync::yes && persist([&] { return ::fsync(fd); }) != 0) return io_error("cannot be written: " + reason(errno));
  return {};
}

// A new file in the directory of `path` that has no name yet, or -1 where the system or the file system has no such thing. It can be given
// a name only through /proc.
int open_nameless(const std::filesystem::path& path) {
#ifdef O_TMPFILE
  if (::access("/proc/self/fd", X_OK) == 0)
    return persist([&] { return ::open((path.parent_path() / ".").c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666); });
#endif
  return -1;
}

// What a path leads to: a regular file, or none yet.
struct Target {
  std::filesystem::path path;
  bool exists;
  struct stat old;
};
Result<Target> find_target(const std::filesystem::path& path) {
  std::error_code ignored;
  Target target{path, false, {}};
  if (std::filesystem::is_symlink(path, ignored)) {
    target.path = std::filesystem::canonical(path, ignored);
    if (ignored) return io_error("is a symbolic link that leads nowhere: " + ignored.message());
  }
  target.exists = ::stat(target.path.c_str(), &target.old) == 0;
  if (!target.exists && errno != ENOENT) return io_error("cannot be written: " + reason(errno));  // a name too long, say
  if (target.exists && !S_ISREG(target.old.st_mode)) return not_regular(target.old.st_mode);
  return target;
}

// A name in the directory of `path` that nobody uses, for what `create` puts there.
template <class Create>
Result<std::filesystem::path> create_beside(const std::filesystem::path& path, Create create) {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::filesystem::path temporary = path.parent_path() / (".norma-" + std::to_string(random()) + ".tmp");
    if (persist([&] { return create(temporary.c_str()); }) >= 0) return temporary;
    if (errno != EEXIST) return io_error("cannot be written: " + reason(errno));
  }
  return io_error("cannot be written: no name for a temporary file is free");
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<OpenFile> open_regular(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a FIFO waits for somebody to write.
  const int fd = persist([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (fd < 0) return io_error("cannot be opened: " + reason(errno));
  Descriptor descriptor(fd);
  struct stat stat {};
  if (::fstat(fd, &stat) != 0) return io_error("cannot be examined: " + reason(errno));
  if (!S_ISREG(stat.st_mode)) return not_regular(stat.st_mode);
  return OpenFile{std::move(descriptor), static_cast<std::uint64_t>(stat.st_size)};
}

Status FileSource::fill(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = persist([&] { return ::read(fd_, to.data(), std::min(to.size(), most_at_once)); });
    if (got < 0) return io_error("cannot be read: " + reason(errno));
    if (got == 0) return io_error("shrank while it was read");
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

bool FileSource::leap(std::uint64_t size) { return ::lseek(fd_, static_cast<off_t>(size), SEEK_CUR) >= 0; }

Result<Bytes> peek(const OpenFile& file, std::span<std::byte> to, std::uint64_t offset) {
  const ssize_t got = persist([&] { return ::pread(file.descriptor.get(), to.data(), to.size(), static_cast<off_t>(offset)); });
  if (got < 0) return io_error("cannot be read: " + reason(errno));
  return Bytes(to.first(static_cast<std::size_t>(got)));
}

Status may_replace_file(const std::filesystem::path& path) {
  const Result<Target> found = find_target(path);
  if (!found.ok()) return found.status();
  int fd = open_nameless(found->path);
  if (fd < 0) {
    const Result<std::filesystem::path> temporary =
        create_beside(found->path, [&](const char* name) { return fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); });
    if (!temporary.ok()) return temporary.status();
    ::unlink(temporary->c_str());
  }
  const Descriptor closed(fd);
  return {};
}

Status replace_file(const std::filesystem::path& path, Bytes bytes, Sync sync) {
  const Result<Target> found = find_target(path);
  if (!found.ok()) return found.status();
  const std::filesystem::path& target = found->path;
  const bool exists = found->exists;
  const struct stat& old = found->old;

  // A process that is killed while it writes leaves nothing behind if the file has no name until it is complete. A link cannot replace
  // what is there, so it gets a temporary name first; a kill between these two calls leaves that, as one at any time does elsewhere.
  int fd = open_nameless(target);
  Result<std::filesystem::path> temporary = std::filesystem::path();
  const auto create = [&](const char* name) { return fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); };
  const auto link = [&](const char* name) {
    return ::linkat(AT_FDCWD, ("/proc/self/fd/" + std::to_string(fd)).c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
  };
  if (fd < 0) temporary = create_beside(target, create);
  if (!temporary.ok()) return temporary.status();
  const Descriptor descriptor(fd);
  Status status = write_all(fd, bytes, sync);
  if (status.ok() && exists && ::fchmod(fd, old.st_mode & 07777) != 0) {
    status = io_error("cannot be given the permissions of the file it replaces: " + reason(errno));
  }
  if (status.ok() && temporary->empty()) {
    temporary = create_beside(target, link);
    if (!temporary.ok()) return temporary.status();
  }
  if (status.ok() && std::rename(temporary->c_str(), target.c_str()) != 0) status = io_error("cannot be written: " + reason(errno));
  if (!status.ok() && !temporary->empty()) ::unlink(temporary->c_str());
  if (status.ok() && sync == Sync::yes) {
    // The name, too. Some file systems cannot; then there is nothing to be done about it.
    const Descriptor folder(persist([&] { return ::open((target.parent_path() / ".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (folder.get() >= 0) (void)::fsync(folder.get());
  }
  return status;
}

}  // namespace norma::files
