#include "wall.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

namespace norma::properties {
namespace {

Control* shared_control = nullptr;  // of this process, where it is a child

// Notes what happened and lets it happen: the handler is gone by now.
void note(int number, siginfo_t* what, void*) {
  shared_control->address = what->si_addr;
  shared_control->signal = number;
}

std::size_t address_space() {
  // Pages in use come first in /proc/self/statm.
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[64] = {};
  const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  std::size_t pages = 0;
  for (const char* p = text; got > 0 && *p >= '0' && *p <= '9'; ++p) pages = pages * 10 + static_cast<std::size_t>(*p - '0');
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// The process has nothing to tidy up that is its own: buffers and handlers of the parent must not run twice.
[[noreturn]] void vanish() {
  for (;;) kill(getpid(), SIGKILL);
}

}  // namespace

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t start = text.rfind('\n');
  if (start != std::string_view::npos) text.remove_prefix(start + 1);
  return text.empty() ? "" : printable(text.substr(0, 300));
}

std::string describe_end(int status) {
  if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  const char* name = sigabbrev_np(number);
  return "killed by " + (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number));
}

void Walled::live(int socket, int output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  shared_control = &control();
  static std::byte stack[1 << 16];
  const stack_t alternative{stack, 0, sizeof stack};
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = note;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(number, &action, nullptr);
  if (limits_.memory != 0) {
    const rlim_t most = address_space() + limits_.memory;
    const rlimit limit{most, most};
    setrlimit(RLIMIT_AS, &limit);
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  memory_->protect();
  Control& c = *shared_control;
  const std::string problem = load_(c);
  std::snprintf(c.message, sizeof c.message, "%s", problem.c_str());
  c.answer = problem.empty() ? 0 : 2;
  char byte = 0;
  for (;;) {
    if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1) vanish();
    ssize_t got = 0;
    do got = recv(socket, &byte, 1, 0);
    while (got < 0 && errno == EINTR);
    if (got != 1) vanish();
    c.message[0] = '\0';
    answer_(c);
    std::fflush(nullptr);
  }
}

Status Walled::start(std::size_t capacity) {
  end();
  memory_ = std::make_unique<SharedMemory>(capacity, sizeof(Control));
  if (!memory_->ok()) return {Code::no_memory, "no memory for tensors of " + std::to_string(capacity) + " bytes between walls"};
  new (memory_->control()) Control();
  int sockets[2], pipes[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return {Code::io_error, "no socket for a child process"};
  if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) != 0) {
    close(sockets[0]), close(sockets[1]);
    return {Code::io_error, "no pipe for a child process"};
  }
  child_ = fork();
  if (child_ == 0) {
    close(sockets[0]), close(pipes[0]);
    live(sockets[1], pipes[1]);
  }
  close(sockets[1]), close(pipes[1]);
  socket_ = sockets[0], output_ = pipes[0];
  if (child_ < 0) {
    end();
    return {Code::io_error, "no child process"};
  }
  std::string what;
  if (wait(std::chrono::milliseconds(4500), what) != Heard::answer) return {Code::io_error, what + " while it was loaded"};
  if (control().answer != 0) return {Code::io_error, control().message};
  return {};
}

void Walled::end() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  if (socket_ >= 0) close(socket_);
  if (output_ >= 0) close(output_);
  child_ = socket_ = output_ = -1;
}

std::string Walled::last_words() {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(output_, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > 1 << 16) text.erase(0, text.size() - 4096);
  }
  return last_line(text);
}

Walled::Heard Walled::wait(std::chrono::milliseconds time, std::string& what) {
  pollfd fd{socket_, POLLIN, 0};
  int ready = 0;
  do ready = poll(&fd, 1, static_cast<int>(time.count()));
  while (ready < 0 && errno == EINTR);
  char byte = 0;
  if (ready > 0 && recv(socket_, &byte, 1, 0) == 1) return Heard::answer;
  if (ready == 0) {
    what = "no answer within " + std::to_string(time.count()) + " ms";
    end();
    return Heard::silence;
  }
  int status = 0;
  waitpid(child_, &status, 0);
  what = describe_end(status);
  const Control& c = control();
  if (c.signal == SIGSEGV || c.signal == SIGBUS) {
    what += ": " + memory_->describe(c.address, c.inputs, c.results);
  }
  if (const std::string said = last_words(); !said.empty()) what += "; it said: " + said;
  child_ = -1;
  end();
  return Heard::crash;
}

Status Walled::begin() {
  constexpr std::size_t usual = std::size_t{1} << 20;
  if (Status status = start(usual); !status.ok()) return status;
  name_ = control().name;
  Result<Arithmetic> arithmetic = parse_arithmetic(control().words);
  if (!arithmetic.ok()) return {Code::io_error, name_ + ": " + arithmetic.status().message};
  arithmetic_ = *arithmetic;
  return {};
}

Reply Walled::run(const Case& c) {
  if (c.x().shape.size() > most_axes) return {Reply::Kind::unsupported, "more than 8 axes", {}};
  const std::size_t room = room_for(c);
  if (child_ < 0 || memory_->capacity() < room) {
    const std::size_t capacity = std::max(room, memory_ == nullptr ? 0 : memory_->capacity());
    if (Status status = start(capacity); !status.ok()) return {Reply::Kind::crashed, status.message, {}};
  }
  Result<ByRole<Tensor>> outputs = empty_outputs(c);
  if (!outputs.ok()) return {Reply::Kind::unsupported, outputs.status().message, {}};
  Control& shared = control();
  shared.spec = c.spec;
  const int rank = static_cast<int>(c.x().shape.size());
  const int axis = c.spec.effective_axis();
  shared.spec.axis = axis < 0 ? axis + rank : axis;
  shared.spec.epsilon = c.spec.effective_epsilon();
  memory_->put(c, *outputs, shared.inputs, shared.results);
  std::string what;
  const char byte = 1;
  if (send(socket_, &byte, 1, MSG_NOSIGNAL) != 1) {
    (void)wait(limits_.time, what);
    return {Reply::Kind::crashed, what, {}};
  }
  switch (wait(limits_.time, what)) {
    case Heard::crash:
      return {Reply::Kind::crashed, what, {}};
    case Heard::silence:
      return {Reply::Kind::hung, what, {}};
    case Heard::answer:
      break;
  }
  shared.message[sizeof shared.message - 1] = '\0';
  const std::string message = printable(shared.message);
  const std::string said = last_words();  // drained, so that the last ones are of the last call
  if (shared.answer == 1) return {Reply::Kind::unsupported, message, {}};
  if (shared.answer == 2) {
    return {Reply::Kind::refused, message + (said.empty() ? "" : "; it said: " + said), {}};
  }
  if (shared.answer != 0) return {Reply::Kind::misbehaved, "answered " + std::to_string(shared.answer) + ", expected 0, 1 or 2", {}};
  const std::string fault = memory_->take(c, shared.results, *outputs);
  if (!fault.empty()) return {Reply::Kind::misbehaved, fault, {}};
  return {Reply::Kind::ok, "", std::move(*outputs)};
}

}  // namespace norma::properties
