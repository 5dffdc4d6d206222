// What a libFuzzer target is made of, on a kernel of your own: properties/fuzz/template_fuzz.cc.
//
// The fuzzer is a child of the process that the user starts. When it ends with a finding, a broken law or a crash, the parent asks once
// more behind a wall, makes the case small, and prints it like any counterexample. libFuzzer keeps the input: a file with one line, the
// case. Defined here and not in norma::properties, for a library neither prints nor ends a process.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/fuzz.h"

// libFuzzer's own changes of bytes.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace norma::properties {

class FuzzTarget {
 public:
  // A BuiltIn, or what norma_get_subject() gives; it outlives this. `name` is what `norma check` would call it.
  template <class S>
  explicit FuzzTarget(const S& subject, std::string name = "./libkernel.so")
      : here_([&subject] { return start_here(subject); }),
        behind_wall_([&subject] { return properties::start(subject, {}); }),
        name_(std::move(name)) {}
  bool strict = false;  // a broken `should` is a finding too

  // LLVMFuzzerInitialize. Returns in the child.
  int start() {
    void* shared = mmap(nullptr, sizeof(Last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die("no memory");
    last_ = new (shared) Last();
    questions_ = questions({});  // not before: a target may be made before the laws are
    const pid_t child = fork();
    if (child < 0) die("no process for the fuzzer");
    if (child > 0) watch(child);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Result<std::unique_ptr<Subject>> subject = here_();
    if (!subject.ok()) die(subject.status().message);
    subject_ = std::move(*subject);
    return 0;
  }

  // LLVMFuzzerTestOneInput.
  int run(const std::uint8_t* data, std::size_t size) {
    const std::string_view line(reinterpret_cast<const char*>(data), size);
    const Result<Case> c = case_of(line);
    if (!c.ok() || size > sizeof last_->line) return 0;
    std::memcpy(last_->line, data, size);
    last_->size = size;
    Watched subject(*subject_);
    if (ask(subject, questions_, *c, {strict, false}).broken) std::abort();
    last_->size = 0;
    return 0;
  }

  // LLVMFuzzerCustomMutator.
  static std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
    rc::Random random(rc::Random::Key{seed, 0, 0x66757a7a, 1});
    static const std::vector<std::pair<std::string, Case>> first = seeds();
    const Result<Case> c = case_of({reinterpret_cast<const char*>(data), size});
    const std::string line = to_line(neighbour(c.ok() ? *c : first[seed % first.size()].second, random, [](std::span<std::byte> bytes) {
      LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size(), bytes.size());
    }));
    if (line.size() > most) return size;
    std::memcpy(data, line.data(), line.size());
    return line.size();
  }

 private:
  // The input that is being asked about, for the parent.
  struct Last {
    std::size_t size = 0;
    char line[std::size_t{1} << 18];
  };

  [[noreturn]] static void die(const std::string& why) {
    std::fprintf(stderr, "norma: %s\n", why.c_str());
    _exit(3);
  }

  // In the parent: waits, and tells what was found. Ends with 0, 1 for a finding, or 3.
  [[noreturn]] void watch(pid_t child) {
    std::signal(SIGINT, SIG_IGN);  // the fuzzer hears it as well, and ends
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) die("nobody tells how the fuzzer ended");
    }
    constexpr int interrupted = 72;  // libFuzzer's word for it
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0 || code == interrupted) _exit(0);
    const Result<Case> c = case_of({last_->line, last_->size});
    if (!c.ok()) _exit(1);  // libFuzzer has said why
    Result<std::unique_ptr<Subject>> subject = behind_wall_();
    if (!subject.ok()) die(subject.status().message);
    Watched watched(**subject);
    const Answers answers = ask(watched, questions_, *c, {strict, true});
    const std::string text = answers.broken ? counterexample(*answers.broken, name_) : "not seen behind a wall:\n    " + to_line(*c) + "\n";
    std::fputs(text.c_str(), stderr);
    _exit(1);
  }

  std::function<Result<std::unique_ptr<Subject>>()> here_, behind_wall_;
  std::string name_;
  std::vector<Question> questions_;
  std::unique_ptr<Subject> subject_;
  Last* last_ = nullptr;
};

}  // namespace norma::properties
