#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "norma/tensor_file.h"

namespace norma::properties {
namespace {

Status refused(const char* what) { return {Code::io_error, std::string(what) + ": " + std::generic_category().message(errno)}; }

// The last line that somebody printed, on one line, not too long.
std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t start = text.find_last_of("\r\n");
  if (start != std::string_view::npos) text.remove_prefix(start + 1);
  return printable(text.substr(0, 300));
}

std::string describe(const siginfo_t& end) {
  if (end.si_code == CLD_EXITED) return "exited with status " + std::to_string(end.si_status);
  const char* name = sigabbrev_np(end.si_status);
  return "killed by " + (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(end.si_status));
}

// What the parent does about signals is nothing to the child.
void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGHUP}) sigaction(number, &usual, nullptr);
}

// Copies first, out of the way: any of them may be where another has to go. The number of the extra one, which it answers, is that of no
// file of the parent's: what such a file has still in its buffer must not be flushed into it.
int arrange(const Process::Descriptors& given, int heard) {
  constexpr int high = 16;
  const auto away = [](int fd) { return fcntl(fd, F_DUPFD, high); };
  const int in = away(given.in >= 0 ? given.in : open("/dev/null", O_RDONLY));
  const int out = away(given.out >= 0 ? given.out : heard), error = away(heard), extra = away(given.extra);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  const auto kept = static_cast<unsigned>(extra >= 0 ? extra : 2);
  if (kept > 3) close_range(3, kept - 1, 0);
  close_range(kept + 1, ~0U, 0);
  // What the parent had still to print is not the child's to say. By lines from now on, for a crash loses what is in a buffer.
  __fpurge(stdout);
  __fpurge(stderr);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return extra;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}
void Descriptor::do_not_block() const { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

Result<Pair> make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return refused("no pipe to a child process");
  return Pair{Descriptor(fds[0]), Descriptor(fds[1])};
}
Result<Pair> make_socketpair() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) return refused("no socket to a child process");
  return Pair{Descriptor(fds[0]), Descriptor(fds[1])};
}

Status Process::start(const Descriptors& given, const std::function<void(int)>& live) {
  (void)end();
  Result<Pair> heard = make_pipe();
  if (!heard.ok()) return heard.status();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return refused("no child process");
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) vanish();  // it was quicker
    reset_signals();
    const int extra = arrange(given, (*heard)[1].get());
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    live(extra);
    vanish();
  }
  setpgid(child, child);  // whoever is first
  pid_ = child;
  ended_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  heard_ = std::move((*heard)[0]);
  heard_.do_not_block();
  words_.clear();
  return {};
}

void Process::listen() {
  constexpr std::size_t kept = 4096;
  std::array<char, 1 << 14> buffer;
  // Bounded, for it may print faster than this reads.
  for (int i = 0; i < 64 && heard_.get() >= 0; ++i) {
    const ssize_t got = read(heard_.get(), buffer.data(), buffer.size());
    if (got == 0) heard_.close();
    if (got <= 0) return;
    words_.append(buffer.data(), static_cast<std::size_t>(got));
    if (words_.size() > kept) words_.erase(0, words_.size() - kept);
  }
}

std::string Process::said() {
  listen();
  const std::string line = last_line(words_);
  return line.empty() ? "" : "; it said: " + line;
}

std::optional<std::uint64_t> Process::asleep() const {
  std::uint64_t ticks = 0;
  bool found = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;
    // After the name, which may hold anything: state, parent, group, ten more, and four times of it and of the children it waited for.
    std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
    char state = 0;
    std::string skipped;
    std::int64_t group = 0;
    fields >> state >> skipped >> group;
    if (!fields || group != pid_) continue;
    found = true;
    if (state == 'R' || state == 'D') return std::nullopt;
    for (int i = 0; i < 8; ++i) fields >> skipped;
    std::uint64_t time = 0;
    for (int i = 0; i < 4 && fields >> time; ++i) ticks += time;
  }
  return found ? std::optional(ticks) : std::nullopt;
}

std::optional<std::string> Process::ended(std::chrono::milliseconds within) {
  if (!running()) return std::nullopt;
  const auto until = std::chrono::steady_clock::now() + within;
  siginfo_t how{};
  for (;;) {
    // Looked at first and fetched afterwards: until then the number of its group is nobody else's.
    how.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR) {
      pid_ = -1;  // somebody else in this process has waited for it
      return "ended";
    }
    if (how.si_pid == pid_) break;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd fd{ended_.get(), POLLIN, 0};
    (void)poll(&fd, 1, static_cast<int>(ended_.get() >= 0 ? left : std::min<decltype(left)>(left, 10)));
  }
  kill(-pid_, SIGKILL);
  waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED);
  pid_ = -1;
  return describe(how);
}

std::string Process::end() {
  std::string how;
  if (running()) {
    kill(pid_, SIGKILL);  // its group is ended with it
    how = ended(std::chrono::seconds(10)).value_or("does not end");
    pid_ = -1;
  }
  ended_.close();
  heard_.close();
  return how;
}

void vanish() {
  for (;;) kill(getpid(), SIGKILL);
}

}  // namespace norma::properties
