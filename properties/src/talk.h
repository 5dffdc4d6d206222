// Messages of known length over a program's standard input and output.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "process.h"

namespace norma::properties {

using Bytes = std::vector<std::byte>;

class Talk {
 public:
  // Runs the command by a shell. `memory` bytes of data at most; 0 for any amount.
  Status start(const std::string& command, std::size_t memory);
  [[nodiscard]] bool running() const { return process_.running(); }
  void end();

  // What became of a message.
  enum class Heard : std::uint8_t { answer, crash, silence, nonsense };
  // Sends one and waits for one of at most `most` bytes. On anything but an answer, `what` says what happened instead, in a line, and the
  // program is gone, for nobody knows where its next message would start.
  struct Patience {
    std::chrono::milliseconds time, idle{};  // in all, and while it does nothing; 0 for as long
  };
  Heard exchange(const Bytes& message, std::size_t most, const Patience& patience, Bytes& answer, std::string& what);

 private:
  Heard gone(Heard how, std::string& what, std::string why);
  [[nodiscard]] Heard closed(std::string& what);
  // What is wrong with the length that it starts with.
  [[nodiscard]] std::string check_length(std::size_t most) const;
  // Why it may be silent.
  [[nodiscard]] std::string hint() const;
  bool receive();  // false at the end

  Process process_;
  Descriptor to_, from_;
  Bytes in_;
  bool answered_ = false;  // before it has, what it prints is a bad answer to the first message, however early it comes
};

}  // namespace norma::properties
