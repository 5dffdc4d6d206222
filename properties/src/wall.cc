#include "wall.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace norma::properties {
namespace {

constexpr std::size_t usual_capacity = std::size_t{1} << 20;

Status no_memory(std::size_t capacity) {
  return {Code::no_memory, "no memory for tensors of " + std::to_string(capacity) + " bytes between walls"};
}

std::size_t address_space() {
  // Pages in use come first in /proc/self/statm.
  const Descriptor file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t got = read(file.get(), text.data(), text.size());
  std::size_t pages = 0;
  std::from_chars(text.data(), text.data() + std::max<ssize_t>(got, 0), pages);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void limit_memory(std::size_t most) {
  const rlim_t all = address_space() + most;
  const rlimit limit{all, all};
  if (most != 0) setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

void say(std::span<char> to, const std::string& text) {
  const std::size_t n = std::min(text.size(), to.size() - 1);
  std::copy_n(text.begin(), n, to.begin());
  to[n] = '\0';
}
std::string said(std::span<const char> text) { return excerpt({text.data(), strnlen(text.data(), text.size())}); }

void Walled::live(int socket) {
  const pid_t self = getpid();
  Control& c = control();
  note_faults(c.fault);
  limit_memory(limits_.memory);
  memory_->protect(true);
  // What a subject throws is one of its answers.
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      c.answer = 2;
      say(c.message, "no memory: it may have " + std::to_string(limits_.memory >> 20) + " MiB");
    } catch (const std::exception& e) {
      c.threw = true;
      say(c.message, e.what());
    } catch (...) {
      c.threw = true;
      say(c.message, "of no standard type");
    }
  };
  guarded([&] {
    const std::string problem = load_(c);
    say(c.message, problem);
    c.answer = problem.empty() ? 0 : 2;
  });
  char byte = 0;
  for (;;) {
    std::fflush(stdout);
    if (getpid() != self) vanish();  // forked, and came back as well: one of them answers
    ssize_t got = send(socket, &byte, 1, MSG_NOSIGNAL);
    if (got == 1) {
      do got = recv(socket, &byte, 1, 0);
      while (got < 0 && errno == EINTR);
    }
    if (got != 1) {
      c.cut = true;
      vanish();
    }
    guarded([&] { answer_(c); });
  }
}

Status Walled::start(std::size_t capacity) {
  child_.end();
  memory_ = std::make_unique<SharedMemory>(capacity, sizeof(Control));
  if (!memory_->ok()) return no_memory(capacity);
  new (memory_->control()) Control();
  Result<Pair> sockets = make_socketpair();
  if (!sockets.ok()) return sockets.status();
  socket_ = std::move((*sockets)[0]);
  memory_->inherit(true);
  Status started = child_.start({.extra = (*sockets)[1].get()}, [this](int socket) { live(socket); });
  memory_->inherit(false);
  if (!started.ok()) return started;
  (*sockets)[1].close();
  std::string what;
  if (wait(limits_.load, what) != Heard::answer) return {Code::io_error, what + ", while it was loaded"};
  Control& c = control();
  if (c.threw) return {Code::io_error, "let an exception out while it was loaded: " + said(c.message)};
  if (c.answer != 0) return {Code::io_error, said(c.message)};
  child_.forget();  // greetings
  return {};
}

std::string Walled::crash(std::string how) {
  const Control& c = control();
  if (c.cut) how = "closed its connection to the harness";
  if (c.fault.signal != 0) how += ": " + describe(c.fault, *memory_, c.inputs, c.results);
  how += child_.said();
  child_.end();
  return how;
}

Walled::Heard Walled::wait(std::chrono::milliseconds time, std::string& what) {
  constexpr std::chrono::milliseconds moment(200);
  const auto until = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    std::array<pollfd, 3> fds{{{socket_.get(), POLLIN, 0}, {child_.heard_fd(), POLLIN, 0}, {child_.ended_fd(), POLLIN, 0}}};
    const int ready = poll(fds.data(), fds.size(), static_cast<int>(std::max<decltype(left)>(left, 0)));
    if (ready > 0 && fds[1].revents != 0) child_.listen();
    if (ready > 0 && fds[0].revents != 0) {
      char byte = 0;
      if (recv(socket_.get(), &byte, 1, MSG_DONTWAIT) == 1) return Heard::answer;
    }
    if (ready <= 0 || (fds[0].revents == 0 && fds[2].revents == 0)) {
      if (left > 0) continue;
      what = "no answer within " + std::to_string(time.count()) + " ms" + child_.said();
      child_.end();
      return Heard::silence;
    }
    what = crash(child_.ended(moment).value_or("closed its connection to the harness"));
    return Heard::crash;
  }
}

Status Walled::begin() {
  if (Status status = start(usual_capacity); !status.ok()) return status;
  return learn();
}

Status Walled::ready(std::size_t room) {
  const std::size_t capacity = memory_->capacity();
  if (child_.running() && capacity >= room) return {};
  return start(room > capacity ? std::max(room, 2 * capacity) : capacity);
}

std::optional<Reply> Walled::failure(std::string& printed) {
  const char byte = 1;
  (void)send(socket_.get(), &byte, 1, MSG_NOSIGNAL);  // to nobody, if it has just ended: we hear of that
  std::string what;
  switch (wait(limits_.time, what)) {
    case Heard::crash:
      return Reply{Reply::Kind::crashed, what, {}};
    case Heard::silence:
      return Reply{Reply::Kind::hung, what, {}};
    case Heard::answer:
      break;
  }
  printed = child_.said();
  child_.forget();
  return std::nullopt;
}

Status Unwalled::begin(const Load& load) {
  if (Status status = ready(usual_capacity); !status.ok()) return status;
  if (const std::string problem = load(control()); !problem.empty()) return {Code::io_error, problem};
  return learn();
}

Status Unwalled::ready(std::size_t room) {
  if (memory_ != nullptr && memory_->capacity() >= room) return {};
  memory_ = std::make_unique<SharedMemory>(room, sizeof(Control));
  if (!memory_->ok()) return no_memory(room);
  new (memory_->control()) Control();
  return {};
}

std::optional<Reply> Unwalled::failure(std::string&) {
  memory_->protect(true);
  answer_(control());
  memory_->protect(false);
  return std::nullopt;
}

Status Caller::learn() {
  name_ = said(control().name);
  Result<Arithmetic> arithmetic = parse_arithmetic(said(control().words));
  if (!arithmetic.ok()) return {Code::io_error, name_ + ": " + arithmetic.status().message};
  arithmetic_ = *arithmetic;
  return {};
}

Reply Caller::attempt(const Case& c, Blank blank, bool& suspicious) {
  Result<ByRole<Tensor>> outputs = empty_outputs(c);
  if (!outputs.ok()) return {Reply::Kind::unsupported, outputs.status().message, {}};
  const std::size_t room = room_for(c, *outputs);
  Status status = ready(room);
  // Twice, for the machine may have been busy. That there is no room between walls is nobody's fault.
  if (!status.ok() && status.code != Code::no_memory) status = ready(room);
  if (!status.ok()) {
    return {status.code == Code::no_memory ? Reply::Kind::unsupported : Reply::Kind::lost, status.message, {}};
  }
  Control& shared = control();
  shared.spec = c.spec;
  shared.spec.axis = axis_of(c.spec, c.x().shape.size());
  shared.spec.epsilon = c.spec.effective_epsilon();
  shared.threads = c.placement.threads;
  shared.threw = false;
  shared.message = {};
  memory_->put(c, *outputs, blank, shared.inputs, shared.results);
  const Slots results = shared.results;  // as they are, whatever the subject makes of its own
  std::string printed;
  if (std::optional<Reply> other = failure(printed)) return std::move(*other);
  const int answer = shared.answer;
  const std::string message = said(shared.message);
  if (shared.threw) return {Reply::Kind::misbehaved, "let an exception out: " + message + printed, {}};
  const SharedMemory::Taken taken = memory_->take(blank, results, *outputs);
  if (!taken.fault.empty()) return {Reply::Kind::misbehaved, taken.fault, {}};
  if (answer == 1) return {Reply::Kind::unsupported, message, {}};
  if (answer == 2) return {Reply::Kind::refused, message + printed, {}};
  if (answer != 0) return {Reply::Kind::misbehaved, "answered " + std::to_string(answer) + ", expected 0, 1 or 2", {}};
  suspicious = taken.blank;
  return {Reply::Kind::ok, "", std::move(*outputs)};
}

Reply Caller::run(const Case& c) {
  bool suspicious = false;
  Reply reply = attempt(c, Blank::first, suspicious);
  if (reply.kind != Reply::Kind::ok || !suspicious) return reply;
  Reply again = attempt(c, Blank::second, suspicious);
  if (again.kind != Reply::Kind::ok) return again;
  if (const std::string what = unwritten(c, reply.outputs, again.outputs); !what.empty()) return {Reply::Kind::misbehaved, what, {}};
  return reply;
}

}  // namespace norma::properties
