// The subjects that the program knows by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "norma/harness.h"

namespace norma::program {

// What comes with the program.
[[nodiscard]] const std::vector<properties::BuiltIn>& built_in_subjects();

// A library that others make, and how it is run here.
struct Shipped {
  std::string name;
  std::string summary;
  std::string start;  // what start_subject takes for it: a path or "exec:COMMAND"; empty where it is not available
  std::string get;    // how to get what is missing
};
// Looks for all of them; that takes a moment.
[[nodiscard]] std::vector<Shipped> shipped_subjects();

// Whether start_subject knows the name; a path and a command it does not look at.
Status known_subject(const std::string& name);

// A built-in subject or a shipped one by name, `mutant:NAME`, the path of a shared library, or `exec:COMMAND`. bad_parameter for a name
// that is none, with the nearest one; other codes where the subject is there but cannot be run.
Result<std::unique_ptr<properties::Subject>> start_subject(const std::string& name, const properties::Limits& limits);

// The same for a command: each call may take `seconds`. Where it cannot be started that has been said, and the status is that to end with.
struct Started {
  std::unique_ptr<properties::Subject> subject;
  int status = 0;
};
[[nodiscard]] Started start_or_fail(const std::string& name, const properties::Limits& limits);
[[nodiscard]] properties::Limits limits_of(double seconds);

// The words of --op and --dtype. `batch_norm` stands for both of its modes.
Result<std::vector<Op>> ops_of(const std::vector<std::string>& words);
Result<std::vector<Format>> formats_of(const std::vector<std::string>& words);
// That a word of a flag is one of the names, which `norma list` LIST shows.
Status known(std::string_view flag, const std::string& word, const std::vector<std::string_view>& names, std::string_view list);

}  // namespace norma::program
