// A child process: in a group of its own, gone when its parent goes, its last words kept.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "norma/status.h"

namespace norma::properties {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const { return fd_; }
  void close() { *this = Descriptor(); }
  void do_not_block() const;

 private:
  int fd_ = -1;
};
using Pair = std::array<Descriptor, 2>;
Result<Pair> make_pipe();        // read from the first, write to the second
Result<Pair> make_socketpair();  // of messages

class Process {
 public:
  Process() = default;
  ~Process() { (void)end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Of the parent's descriptors the child has these alone. -1: /dev/null to read, what is heard to write.
  struct Descriptors {
    int in = -1, out = -1, extra = -1;
  };
  // `live` runs in the child, where `extra` has another number. It does not return, and does not throw.
  Status start(const Descriptors& given, const std::function<void(int extra)>& live);

  [[nodiscard]] bool running() const { return pid_ > 0; }
  // To poll: readable when it has ended (-1 on a kernel before 5.3), and when it has printed something.
  [[nodiscard]] int ended_fd() const { return ended_.get(); }
  [[nodiscard]] int heard_fd() const { return heard_.get(); }
  // Takes what it has printed, so that a pipe that nobody reads does not hold it up.
  void listen();
  void forget() { words_.clear(); }
  // "; it said: " and the last line of that, or nothing.
  [[nodiscard]] std::string said();

  // Processor time that its group has taken, in ticks, if all of it sleeps: who sleeps and has taken none since then has done nothing
  // since.
  [[nodiscard]] std::optional<std::uint64_t> asleep() const;

  // How it ended, if it does so within that time: "killed by SIGSEGV", "exited with status 3".
  std::optional<std::string> ended(std::chrono::milliseconds within);
  // Ends it, and what it started.
  std::string end();

 private:
  pid_t pid_ = -1;
  Descriptor ended_, heard_;
  std::string words_;
};

// Ends this process without tidying up: buffers and handlers that it has from its parent must not run twice.
[[noreturn]] void vanish();

}  // namespace norma::properties
