// A child process that answers calls through shared memory.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "memory.h"

namespace norma::properties {

// What both sides of the wall read and write; it lies in shared memory.
struct Control {
  Spec spec;
  Slots inputs, results;
  int answer = 0;  // of subject.h
  char message[512] = {};
  char name[128] = {};
  char words[512] = {};
  volatile int signal = 0;  // that the child died of, and where it pointed
  void* volatile address = nullptr;
};

// In the child: loads what there is to load, once. A sentence where it cannot; name and words into the control block.
using Load = std::function<std::string(Control&)>;
// In the child: answers the call in the control block.
using Answer = std::function<void(Control&)>;

class Walled final : public Subject {
 public:
  Walled(Load load, Answer answer, const Limits& limits) : load_(std::move(load)), answer_(std::move(answer)), limits_(limits) {}
  ~Walled() override { end(); }
  Walled(const Walled&) = delete;
  Walled& operator=(const Walled&) = delete;

  // Starts the child and learns name and arithmetic.
  Status begin();
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return arithmetic_; }
  Reply run(const Case& c) override;

 private:
  Status start(std::size_t capacity);
  void end();
  [[noreturn]] void live(int socket, int output);
  // Waits for the child: nothing where it answered in time, else what happened to it, which is now gone.
  enum class Heard : std::uint8_t { answer, crash, silence };
  Heard wait(std::chrono::milliseconds time, std::string& what);
  [[nodiscard]] Control& control() const { return *static_cast<Control*>(memory_->control()); }
  std::string last_words();

  Load load_;
  Answer answer_;
  Limits limits_;
  std::string name_;
  Arithmetic arithmetic_;
  std::unique_ptr<SharedMemory> memory_;
  pid_t child_ = -1;
  int socket_ = -1, output_ = -1;
};

// The last line that somebody printed, on one line, not too long.
[[nodiscard]] std::string last_line(std::string_view text);
// "killed by SIGSEGV", "exited with status 3".
[[nodiscard]] std::string describe_end(int wait_status);

}  // namespace norma::properties
