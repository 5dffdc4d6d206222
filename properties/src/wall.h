// A child process that answers calls through shared memory.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fault.h"
#include "memory.h"
#include "process.h"

namespace norma::properties {

// What both sides of the wall read and write; it lies in shared memory.
struct Control {
  Spec spec;
  Slots inputs, results;
  int threads = 0;
  int answer = 0;      // of subject.h
  bool threw = false;  // instead of answering
  bool cut = false;    // its connection was gone when it wanted to answer
  std::array<char, 512> message{};
  std::array<char, 128> name{};
  std::array<char, 512> words{};
  Fault fault;
};

// Writes a text into one of these; what does not fit is cut off. And reads it, whoever wrote what there.
void say(std::span<char> to, const std::string& text);
[[nodiscard]] std::string said(std::span<const char> text);

// In the child: loads what there is to load, once. A sentence where it cannot; name and words into the control block.
using Load = std::function<std::string(Control&)>;
// In the child: answers the call in the control block.
using Answer = std::function<void(Control&)>;

// A subject that answers calls in memory with walls, wherever it runs.
class Caller : public Subject {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return arithmetic_; }
  Reply run(const Case& c) override;

 protected:
  // Of a subject that has been loaded: name and arithmetic.
  Status learn();
  [[nodiscard]] Control& control() const { return *static_cast<Control*>(memory_->control()); }
  std::unique_ptr<SharedMemory> memory_;

 private:
  // Sees to memory that takes tensors of `room` bytes, and to somebody who answers in it.
  virtual Status ready(std::size_t room) = 0;
  // Has the call in the control block answered, and notes what was printed meanwhile; or tells what came instead of an answer.
  virtual std::optional<Reply> failure(std::string& printed) = 0;
  // A call over outputs that hold that NaN; tells whether some element seems still to do so.
  Reply attempt(const Case& c, Blank blank, bool& suspicious);

  std::string name_;
  Arithmetic arithmetic_;
};

// In a child process.
class Walled final : public Caller {
 public:
  Walled(Load load, Answer answer, const Limits& limits) : load_(std::move(load)), answer_(std::move(answer)), limits_(limits) {}

  // Starts the child and learns name and arithmetic.
  Status begin();
  void restart() override { child_.end(); }

 private:
  Status ready(std::size_t room) override;
  std::optional<Reply> failure(std::string& printed) override;
  Status start(std::size_t capacity);
  [[noreturn]] void live(int socket);
  // Waits for the child: nothing where it answered in time, else what happened to it, which is now gone.
  enum class Heard : std::uint8_t { answer, crash, silence };
  Heard wait(std::chrono::milliseconds time, std::string& what);
  [[nodiscard]] std::string crash(std::string how);

  Load load_;
  Answer answer_;
  Limits limits_;
  Process child_;
  Descriptor socket_;
};

// In this process: what it does to memory that is not its own ends it, where it happens.
class Unwalled final : public Caller {
 public:
  explicit Unwalled(Answer answer) : answer_(std::move(answer)) {}
  Status begin(const Load& load);

 private:
  Status ready(std::size_t room) override;
  std::optional<Reply> failure(std::string& printed) override;

  Answer answer_;
};

}  // namespace norma::properties
