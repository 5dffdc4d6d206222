// The commands of the norma program. Each returns an exit status: 0 holds, 1 violated, 2 usage or input error, 3 the subject could not be
// run. Errors are one line on standard error; no command at all is answered with the help on standard output, and 2.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "norma/status.h"

namespace norma::program {

enum Exit : int { holds = 0, violated = 1, input_error = 2, subject_error = 3 };

// Adds a command; parsing it stores what it will run.
using Command = std::function<int()>;
void add_bench(CLI::App& app, Command& chosen);
void add_check(CLI::App& app, Command& chosen);
void add_diagnose(CLI::App& app, Command& chosen);
void add_explain(CLI::App& app, Command& chosen);
void add_fuzz(CLI::App& app, Command& chosen);
void add_golden(CLI::App& app, Command& chosen);
void add_judge(CLI::App& app, Command& chosen);
void add_list(CLI::App& app, Command& chosen);
void add_report(CLI::App& app, Command& chosen);
void add_run(CLI::App& app, Command& chosen);

// Rows of cells in aligned columns.
void print_table(const std::vector<std::vector<std::string>>& rows, int indent = 0);

// Prints "norma: what" and returns input_error.
int fail(const Status& status);

// Says how far long work has come: a line on a terminal, from the third second on and at most ten times a second; nothing when piped.
class Progress {
 public:
  Progress(std::string_view what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step() {
    if ((++done_ & 0xfff) == 0) show();
  }
  // Larger steps, each of them worth a look at the clock.
  void advance(std::int64_t steps) {
    done_ += steps;
    show();
  }
  // Off the line, for something else to be printed.
  void hide() const;

 private:
  void show();

  std::string_view what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  double start_;
  double shown_ = 0;
  bool terminal_;
};

}  // namespace norma::program
