// Subjects, laws, and the search for a case in which a subject breaks a law.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/case.h"

struct norma_subject;  // subject.h

namespace norma::properties {

// What a subject says of its arithmetic (subject.h): bounds and severities follow from it.
struct Arithmetic {
  enum class Algorithm : std::uint8_t { two_pass, single_pass, welford, correctly_rounded };
  enum class Depth : std::uint8_t { sequential, lanes, pairwise };

  std::optional<Format> compute, accumulate;  // none: f32, and f64 for f64
  bool compute_x = false;                     // in the format of x, whichever that is
  Algorithm algorithm = Algorithm::two_pass;
  Depth depth = Depth::sequential;
  std::int64_t lanes = 1;
  std::vector<std::string> bitwise;  // laws that hold to the bit by design
  bool threads = false;              // it can be told how many threads to use
  std::optional<Op> only{};          // in `others`: of this op
  std::vector<Arithmetic> others{};  // of the ops that are computed in another way

  [[nodiscard]] const Arithmetic& of(Op op) const;
  [[nodiscard]] bool to_the_bit(std::string_view law) const;
};
Result<Arithmetic> parse_arithmetic(std::string_view words);
[[nodiscard]] std::string to_words(const Arithmetic& arithmetic);

// What came of a call.
struct Reply {
  enum class Kind : std::uint8_t {
    ok,
    unsupported,  // the subject says that it does not do this
    refused,      // the subject says that something is wrong
    crashed,      // its process ended
    hung,         // it did not answer in time
    misbehaved,   // it answered, but touched what it must not touch, left an output unwritten, or broke the protocol
    lost,         // it is gone and could not be started again: nothing of this call's
  };
  Kind kind = Kind::ok;
  std::string what;        // one line, for all kinds but ok
  ByRole<Tensor> outputs;  // contiguous, in logical order; complete where ok
};

// Something that normalizes, behind a wall: whatever it does, a call comes back with a reply. To be used by the thread that started it, for
// its process goes when that thread ends.
class Subject {
 public:
  virtual ~Subject() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const Arithmetic& arithmetic() const = 0;
  virtual Reply run(const Case& c) = 0;
  // Forgets what it was asked before, where it can: the next call is the first one.
  virtual void restart() {}
};

// Of every kind.
inline constexpr std::string_view reply_words[] = {"ok", "unsupported", "refused", "crashed", "hung", "misbehaved", "lost"};

struct Limits {
  std::chrono::milliseconds time{2000};       // a call
  std::size_t memory = std::size_t{4} << 30;  // address space beyond what the harness itself takes; 0 for none
  std::chrono::milliseconds load{4500};       // a library, until its constructors have run
  std::chrono::milliseconds launch{60'000};   // a program, until it has said hello: interpreters load a lot, but
  std::chrono::milliseconds idle{4000};       // not without doing anything for so long
};

// A function in this program as a subject: it runs in a child process all the same. `normalize` computes the outputs that are given into
// their memory, in the roles of subject.h: running statistics are views among the outputs only.
struct BuiltIn {
  std::string name;
  std::string summary;
  std::string words;  // its arithmetic, as in subject.h
  // A status with Code::bad_parameter says that it does not do this.
  std::function<Status(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs)> normalize;
  // The same by so many threads, where its words say `threads` and that is another call.
  std::function<Status(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, int threads)> threaded = {};
};
Result<std::unique_ptr<Subject>> start(const BuiltIn& subject, const Limits& limits);
// The same of what a library would export, linked into this program.
Result<std::unique_ptr<Subject>> start(const norma_subject& subject, const Limits& limits);
// Both in this process, between walls all the same but without one around them, for fuzzers and debuggers: a crash is one, where it
// happens.
Result<std::unique_ptr<Subject>> start_here(const BuiltIn& subject);
Result<std::unique_ptr<Subject>> start_here(const norma_subject& subject);
// The inputs of such a call for what wants the old values of running statistics among them, as norma::compute does.
[[nodiscard]] ByRole<ConstView> with_running(const ByRole<ConstView>& inputs, const ByRole<View>& outputs);

// A layer or RMS norm of contiguous rows of f32, the usual way to write one: gamma and beta are null where there is none. What it cannot be
// asked (other formats, gaps, statistics, another profile) is unsupported.
using RowKernel = std::function<void(const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows, std::int64_t cols,
                                     float epsilon)>;
[[nodiscard]] BuiltIn row_kernel(std::string name, Op op, RowKernel kernel, std::string words = "");

// A shared library with norma/subject.h, and a program that speaks length-prefixed safetensors. The status says why it cannot be run.
Result<std::unique_ptr<Subject>> start_library(const std::string& path, const Limits& limits);
Result<std::unique_ptr<Subject>> start_program(const std::string& command, const Limits& limits);

}  // namespace norma::properties
