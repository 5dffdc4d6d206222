// Programs as subjects: length-prefixed safetensors on their standard input and output.
//
// A request is 8 bytes, little-endian, that say how many follow, and that many bytes of safetensors: inputs by role; in the metadata what
// the call is: op, dtype (of y), epsilon (a hexadecimal float), axis (not negative), groups, momentum, want (outputs by role, separated by
// commas), and with the value 1 what of the profile is not as usual: epsilon_outside, unbiased, running_biased, momentum_of_old,
// gain_offset, cast_before_gain. A reply has the same frame: outputs by role, or in the metadata status (unsupported or error) and message.
// The first request has no tensors and op=hello; its reply says name and profile (norma/subject.h) in the metadata.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "memory.h"
#include "norma/text.h"
#include "wall.h"

namespace norma::properties {
namespace {

using Clock = std::chrono::steady_clock;

class Program final : public Subject {
 public:
  Program(std::string command, const Limits& limits) : command_(std::move(command)), limits_(limits), name_(command_) {}
  ~Program() override { end(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Status begin() {
    if (Status status = start(); !status.ok()) return status;
    TensorFile hello;
    hello.metadata["op"] = "hello";
    TensorFile reply;
    const Reply r = exchange(hello, reply, launch_time());
    if (r.kind != Reply::Kind::ok) return {Code::io_error, command_ + ": " + r.what};
    if (const auto it = reply.metadata.find("name"); it != reply.metadata.end()) name_ = printable(it->second);
    const auto profile = reply.metadata.find("profile");
    Result<Arithmetic> arithmetic = parse_arithmetic(profile == reply.metadata.end() ? "" : profile->second);
    if (!arithmetic.ok()) return {Code::io_error, command_ + ": " + arithmetic.status().message};
    arithmetic_ = *arithmetic;
    return {};
  }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return arithmetic_; }

  Reply run(const Case& c) override {
    if (!(c.placement == Placement())) return {Reply::Kind::unsupported, "where tensors lie does not reach a program", {}};
    Result<ByRole<Tensor>> outputs = empty_outputs(c);
    if (!outputs.ok()) return {Reply::Kind::unsupported, outputs.status().message, {}};
    if (child_ < 0) {
      if (Status status = start(); !status.ok()) return {Reply::Kind::crashed, status.message, {}};
      TensorFile hello, answer;
      hello.metadata["op"] = "hello";
      if (Reply r = exchange(hello, answer, launch_time()); r.kind != Reply::Kind::ok) return r;
    }
    TensorFile request = request_of(c), reply;
    if (Reply r = exchange(request, reply, limits_.time); r.kind != Reply::Kind::ok) return r;
    if (const auto status = reply.metadata.find("status"); status != reply.metadata.end() && status->second != "ok") {
      const auto it = reply.metadata.find("message");
      const std::string message = it == reply.metadata.end() ? "" : printable(it->second);
      if (status->second == "unsupported") return {Reply::Kind::unsupported, message, {}};
      return {Reply::Kind::refused, message, {}};
    }
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!(*outputs)[role]) continue;
      Tensor& want = *(*outputs)[role];
      const Tensor* got = reply.find(name_of(role));
      if (got == nullptr) return {Reply::Kind::misbehaved, "the reply has no " + name_of(role), {}};
      if (got->format != want.format || got->shape != want.shape) {
        return {Reply::Kind::misbehaved,
                name_of(role) + " is " + std::string(info(got->format).name) + to_text(got->shape) + ", expected " +
                    std::string(info(want.format).name) + to_text(want.shape),
                {}};
      }
      want.data = got->data;
    }
    return {Reply::Kind::ok, "", std::move(*outputs)};
  }

 private:
  // An interpreter with its packages.
  [[nodiscard]] std::chrono::milliseconds launch_time() const { return std::max(std::chrono::milliseconds(20'000), limits_.time); }
  static std::string name_of(Role role) { return std::string(norma::name(role)); }

  static TensorFile request_of(const Case& c) {
    TensorFile f;
    for (std::size_t r = 0; r < role_count; ++r) {
      if (c.inputs[static_cast<Role>(r)]) f.tensors.push_back(*c.inputs[static_cast<Role>(r)]);
    }
    const auto hex = [](double value) {
      char text[64];
      char* end = std::to_chars(text, text + sizeof text, value, std::chars_format::hex).ptr;
      return "0x" + std::string(text, end);  // neither is negative
    };
    const int axis = c.spec.effective_axis();
    f.metadata["op"] = info(c.spec.op).name;
    f.metadata["dtype"] = info(c.format).name;
    f.metadata["epsilon"] = hex(c.spec.effective_epsilon());
    f.metadata["axis"] = std::to_string(axis < 0 ? axis + static_cast<int>(c.x().shape.size()) : axis);
    f.metadata["groups"] = std::to_string(c.spec.groups.value_or(1));
    f.metadata["momentum"] = hex(c.spec.momentum);
    const Profile& p = c.spec.profile;
    if (p.epsilon_placement == EpsilonPlacement::outside) f.metadata["epsilon_outside"] = "1";
    if (p.variance == Estimator::unbiased) f.metadata["unbiased"] = "1";
    if (p.running_variance == Estimator::biased) f.metadata["running_biased"] = "1";
    if (p.momentum == Momentum::weight_of_old) f.metadata["momentum_of_old"] = "1";
    if (p.gain_offset) f.metadata["gain_offset"] = "1";
    if (p.cast_before_gain) f.metadata["cast_before_gain"] = "1";
    std::string& want = f.metadata["want"];
    for (std::size_t r = 0; r < role_count; ++r) {
      if (c.outputs.contain(static_cast<Role>(r))) want += (want.empty() ? "" : ",") + std::string(role_names[r]);
    }
    return f;
  }

  Status start() {
    end();
    int sockets[2], pipes[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return {Code::io_error, "no socket for a program"};
    if (pipe2(pipes, O_CLOEXEC) != 0) {
      close(sockets[0]), close(sockets[1]);
      return {Code::io_error, "no pipe for a program"};
    }
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setpgid(0, 0);
      dup2(sockets[1], STDIN_FILENO);
      dup2(sockets[1], STDOUT_FILENO);
      dup2(pipes[1], STDERR_FILENO);
      if (limits_.memory != 0) {
        const rlimit limit{limits_.memory, limits_.memory};
        setrlimit(RLIMIT_DATA, &limit);  // interpreters reserve addresses that they never use
      }
      execl("/bin/sh", "sh", "-c", command_.c_str(), static_cast<char*>(nullptr));
      for (;;) kill(getpid(), SIGKILL);
    }
    close(sockets[1]), close(pipes[1]);
    socket_ = sockets[0], errors_ = pipes[0];
    fcntl(socket_, F_SETFL, O_NONBLOCK);
    fcntl(errors_, F_SETFL, O_NONBLOCK);
    if (child_ < 0) {
      end();
      return {Code::io_error, "no process for a program"};
    }
    return {};
  }

  void end() {
    if (child_ > 0) {
      kill(-child_, SIGKILL);
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    if (socket_ >= 0) close(socket_);
    if (errors_ >= 0) close(errors_);
    child_ = socket_ = errors_ = -1;
  }

  // What it has printed on standard error, which must not fill up.
  void listen(std::string& errors) const {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(errors_, buffer, sizeof buffer)) > 0;) {
      errors.append(buffer, static_cast<std::size_t>(got));
      if (errors.size() > 1 << 16) errors.erase(0, errors.size() - 4096);
    }
  }

  Reply gone(std::string errors) {
    // Its output is closed; it may take a moment to end.
    int status = 0;
    for (int i = 0; i < 100 && waitpid(child_, &status, WNOHANG) == 0; ++i) usleep(10'000);
    listen(errors);
    if (const pid_t again = waitpid(child_, nullptr, WNOHANG); again == 0) {
      end();
      return {Reply::Kind::crashed, "closed its standard output", {}};
    }
    child_ = -1;
    end();
    const std::string said = last_line(errors);
    return {Reply::Kind::crashed, describe_end(status) + (said.empty() ? "" : "; it said: " + said), {}};
  }

  Reply misbehaved(std::string what) {
    end();  // nobody knows where its next reply starts
    return {Reply::Kind::misbehaved, std::move(what), {}};
  }

  Reply exchange(const TensorFile& request, TensorFile& reply, std::chrono::milliseconds time) {
    const Result<std::vector<std::byte>> body = serialize_safetensors(request);
    if (!body.ok()) return {Reply::Kind::unsupported, body.status().message, {}};
    std::vector<std::byte> out(8);
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(body->size() >> (8 * i) & 0xff);
    out.insert(out.end(), body->begin(), body->end());
    constexpr std::size_t most = std::size_t{1} << 32;
    std::vector<std::byte> in;
    std::size_t wanted = 8, sent = 0;
    std::string errors;
    const Clock::time_point until = Clock::now() + time;
    while (in.size() < wanted || wanted == 8) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd fds[2] = {{socket_, static_cast<short>(POLLIN | (sent < out.size() ? POLLOUT : 0)), 0}, {errors_, POLLIN, 0}};
      const int ready = left <= 0 ? 0 : poll(fds, 2, static_cast<int>(left));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        listen(errors);
        end();
        const std::string said = last_line(errors);
        return {Reply::Kind::hung,
                "no " +
                    std::string(in.empty() ? "answer" : "end of its answer, which has " + std::to_string(in.size()) + " bytes so far,") +
                    " within " + std::to_string(time.count()) + " ms" + (said.empty() ? "" : "; it said: " + said),
                {}};
      }
      listen(errors);
      if ((fds[1].revents & POLLHUP) != 0 && fds[0].revents == 0) usleep(1000);
      if ((fds[0].revents & POLLOUT) != 0 && sent < out.size()) {
        const ssize_t n = send(socket_, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
        if (n > 0) sent += static_cast<std::size_t>(n);
        if (n < 0 && errno != EAGAIN && errno != EINTR) sent = out.size();  // it has gone; what it said first is still to be read
      }
      if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      std::byte buffer[1 << 16];
      const ssize_t n = recv(socket_, buffer, std::min(sizeof buffer, wanted - in.size()), 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) {
        Reply r = gone(std::move(errors));
        if (!in.empty()) r.what += ", after " + std::to_string(in.size()) + " bytes of an answer of " + std::to_string(wanted);
        return r;
      }
      in.insert(in.end(), buffer, buffer + n);
      if (wanted == 8 && in.size() == 8) {
        std::size_t length = 0;
        for (std::size_t i = 0; i < 8; ++i) length |= static_cast<std::size_t>(in[i]) << (8 * i);
        if (length < 8 || length > most) {
          const std::string start(reinterpret_cast<const char*>(in.data()), 8);
          return misbehaved("its answer starts with " + quote(start) +
                            ", which is no length: nothing but answers may go to standard output");
        }
        wanted = 8 + length;
      }
    }
    Result<TensorFile> parsed = parse_safetensors(std::span(in).subspan(8));
    if (!parsed.ok()) return misbehaved("its answer: " + parsed.status().message);
    reply = std::move(*parsed);
    return {};
  }

  std::string command_;
  Limits limits_;
  std::string name_;
  Arithmetic arithmetic_;
  pid_t child_ = -1;
  int socket_ = -1, errors_ = -1;
};

}  // namespace

Result<std::unique_ptr<Subject>> start_program(const std::string& command, const Limits& limits) {
  auto program = std::make_unique<Program>(command, limits);
  if (Status status = program->begin(); !status.ok()) return status;
  return std::unique_ptr<Subject>(std::move(program));
}

}  // namespace norma::properties
