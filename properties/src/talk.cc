#include "talk.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <optional>
#include <utility>

#include "norma/tensor_file.h"

namespace norma::properties {
namespace {

constexpr std::size_t frame = 8;

// write(), except that a pipe that nobody reads any more is an error and no signal. What the process does about SIGPIPE is not ours.
ssize_t write_quietly(int fd, const std::byte* data, std::size_t size) {
  sigset_t broken, pending, before;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t n = write(fd, data, size);
  const int error = errno;
  constexpr timespec now{};
  if (n < 0 && error == EPIPE && sigismember(&pending, SIGPIPE) == 0) (void)sigtimedwait(&broken, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return n;
}

// Runs a command by a shell and ends as that did. A shell has children, of whom the end of the harness would not be the end: here it is.
[[noreturn]] void run_by_shell(const std::string& command, std::size_t memory) {
  sigset_t awaited, before;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGHUP);
  sigaddset(&awaited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &awaited, &before);
  prctl(PR_SET_PDEATHSIG, SIGHUP);
  const pid_t shell = fork();
  if (shell == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    // Not its address space: interpreters reserve much that they never use.
    const rlimit limit{memory, memory};
    if (memory != 0) setrlimit(RLIMIT_DATA, &limit);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  }
  if (shell <= 0) vanish();
  close_range(0, ~0U, 0);  // what the shell closes is closed
  int status = 0;
  while (waitpid(shell, &status, WNOHANG) != shell) {
    int signal = 0;
    sigwait(&awaited, &signal);
    if (signal == SIGHUP) kill(0, SIGKILL);
  }
  if (WIFEXITED(status)) syscall(SYS_exit_group, WEXITSTATUS(status));  // _exit, which no library may refer to: this is its child
  constexpr struct sigaction usual {};
  sigaction(WTERMSIG(status), &usual, nullptr);
  kill(getpid(), WTERMSIG(status));
  vanish();
}

std::uint64_t little_endian(const Bytes& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = frame; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

std::string excerpt(const Bytes& bytes) { return quote({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }
std::string count(std::uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

constexpr const char* rule = ": nothing but answers may go to standard output";

}  // namespace

Status Talk::start(const std::string& command, std::size_t memory) {
  end();
  Result<Pair> in = make_pipe(), out = make_pipe();
  if (!in.ok()) return in.status();
  if (!out.ok()) return out.status();
  Status started = process_.start({.in = (*in)[0].get(), .out = (*out)[1].get()}, [&](int) { run_by_shell(command, memory); });
  if (!started.ok()) return started;
  to_ = std::move((*in)[1]);
  from_ = std::move((*out)[0]);
  to_.do_not_block();
  from_.do_not_block();
  return {};
}

void Talk::end() {
  (void)process_.end();
  to_.close();
  from_.close();
  in_.clear();
  answered_ = false;
}

Talk::Heard Talk::gone(Heard how, std::string& what, std::string why) {
  what = std::move(why);
  end();
  return how;
}

std::string Talk::hint() const {
  int unread = 0;
  if (!in_.empty() || ioctl(to_.get(), FIONREAD, &unread) != 0) return "";
  return unread != 0 ? ": it has not read all of the request" : ": it has read the request (is its output flushed?)";
}

bool Talk::receive() {
  std::array<std::byte, 1 << 16> buffer;
  const ssize_t n = read(from_.get(), buffer.data(), buffer.size());
  if (n > 0) in_.insert(in_.end(), buffer.begin(), buffer.begin() + n);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

std::string Talk::check_length(std::size_t most) const {
  const std::uint64_t length = little_endian(in_);
  if (length >= frame && length <= most) return "";
  const bool text = std::all_of(in_.begin(), in_.begin() + frame, [](std::byte b) {
    const int c = std::to_integer<int>(b);
    return (c >= 0x20 && c < 0x7f) || (c >= '\t' && c <= '\r') || c >= 0x80;
  });
  if (text) return "its answer begins with " + excerpt(in_) + ", which is no length" + rule;
  return "its answer says that " + count(length) + " follow, expected " + std::to_string(frame) + " to " + std::to_string(most);
}

Talk::Heard Talk::closed(std::string& what) {
  const std::size_t got = in_.size();
  std::string partly;
  if (got >= frame) partly = ", after " + std::to_string(got - frame) + " of the " + count(little_endian(in_)) + " of its answer";
  if (got > 0 && got < frame) partly = ", after " + excerpt(in_) + ", which is no answer" + rule;
  return gone(Heard::crash, what,
              process_.ended(std::chrono::seconds(1)).value_or("closed its standard output") + partly + process_.said());
}

Talk::Heard Talk::exchange(const Bytes& message, std::size_t most, const Patience& patience, Bytes& answer, std::string& what) {
  Bytes out(frame);
  for (std::size_t i = 0; i < frame; ++i) out[i] = static_cast<std::byte>(message.size() >> (8 * i) & 0xff);
  out.insert(out.end(), message.begin(), message.end());
  in_.clear();
  const bool open = !answered_ || receive();
  if (!in_.empty()) {
    return gone(Heard::nonsense, what, "printed " + excerpt(in_) + " that nobody asked for" + rule);
  }
  if (!open) return closed(what);

  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds glance(200);
  std::size_t sent = 0;
  const auto until = Clock::now() + patience.time;
  auto idle_since = Clock::now(), looked = idle_since;
  std::optional<std::uint64_t> asleep;
  for (;;) {
    if (in_.size() >= frame) {
      if (std::string why = check_length(most); !why.empty()) return gone(Heard::nonsense, what, std::move(why));
      const std::size_t whole = frame + little_endian(in_);
      if (in_.size() > whole) {
        return gone(Heard::nonsense, what,
                    count(in_.size() - whole) +
                        " follow its answer: " + excerpt(Bytes(in_.begin() + static_cast<std::ptrdiff_t>(whole), in_.end())) + rule);
      }
      if (in_.size() == whole && sent < out.size()) {
        return gone(Heard::nonsense, what, "answered before it had read the request");
      }
      if (in_.size() == whole) {
        answer.assign(in_.begin() + frame, in_.end());
        process_.listen();
        process_.forget();
        answered_ = true;
        return Heard::answer;
      }
    }
    const auto now = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    bool idle = false;
    if (patience.idle.count() != 0) {
      if (now - looked >= glance) {
        looked = now;
        const std::optional<std::uint64_t> was = std::exchange(asleep, process_.asleep());
        if (!asleep || asleep != was) idle_since = now;
      }
      idle = asleep && now - idle_since >= patience.idle;
    }
    std::array<pollfd, 4> fds{{{from_.get(), POLLIN, 0},
                               {process_.heard_fd(), POLLIN, 0},
                               {sent < out.size() ? to_.get() : -1, POLLOUT, 0},
                               {process_.ended_fd(), POLLIN, 0}}};
    const auto wait = patience.idle.count() != 0 ? std::min(left, glance) : left;
    const int ready = poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(wait.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (left.count() <= 0 || (idle && ready == 0)) {
      return gone(Heard::silence, what,
                  "no " + (in_.empty() ? std::string("answer") : "end of an answer that begins with " + excerpt(in_)) + " within " +
                      std::to_string((idle ? patience.idle : patience.time).count()) + " ms" + (idle ? " of doing nothing" : "") + hint() +
                      process_.said());
    }
    if (fds[1].revents != 0) process_.listen();
    if (fds[2].revents != 0) {
      const ssize_t n = write_quietly(to_.get(), out.data() + sent, std::min<std::size_t>(out.size() - sent, 1 << 16));
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) sent = out.size();  // it reads no more; what it says is still to be heard
    }
    if (fds[3].revents != 0) {
      // What it started may keep its output open, and so be waited for in vain. What it said is in the pipe.
      for (std::size_t before = in_.size() + 1; before != in_.size() && in_.size() <= frame + most;) {
        before = in_.size();
        receive();
      }
      const bool complete = in_.size() >= frame && (!check_length(most).empty() || in_.size() - frame >= little_endian(in_));
      if (!complete) return closed(what);
      continue;
    }
    if (fds[0].revents != 0 && !receive()) return closed(what);
  }
}

}  // namespace norma::properties
