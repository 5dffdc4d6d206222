// What a search for broken laws is told, by whichever command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "norma/check.h"
#include "norma/status.h"

namespace norma::program {

struct Search {
  std::vector<std::string> laws, ops, dtypes;
  std::uint64_t seed = 1;
  std::string shard = "1/1";
  std::vector<std::string> names;  // of the options that were given

  [[nodiscard]] bool given(std::string_view name) const;
  // Refuses an option that `of` would not look at.
  [[nodiscard]] Status only(std::string_view of, std::initializer_list<std::string_view> looked_at) const;
};
void add_search(CLI::App& command, Search& options);
void add_seed(CLI::App& command, std::uint64_t& seed);
// Once the command is parsed.
void note_given(const CLI::App& command, Search& options);
// --time, for limits_of (subjects.h).
void add_time(CLI::App& command, double& seconds);
// CLI::Range takes NaN for a number in any range.
[[nodiscard]] CLI::Validator number_in(double least, double most);
Result<properties::Settings> settings_of(const Search& options);

}  // namespace norma::program
