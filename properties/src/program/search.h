// What a search for broken laws is told, by whichever command.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "norma/check.h"
#include "norma/status.h"
#include "norma/tensor_file.h"

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
// A whole number in a range. CLI11 takes 010 for 8, -1 for 2^64 - 1, and what is too large for what is not.
template <class T>
void add_whole(CLI::App& command, const std::string& name, T& to, const std::string& help, std::uint64_t least, std::uint64_t most) {
  command
      .add_option_function<std::string>(
          name,
          [&to, name, least, most](const std::string& word) {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            if (error == std::errc() && end == word.data() + word.size() && least <= value && value <= most) {
              to = static_cast<T>(value);
              return;
            }
            throw CLI::ValidationError(
                name, quote(word) + ": expected a whole number from " + std::to_string(least) + " to " + std::to_string(most));
          },
          help)
      ->type_name("N");
}
// An unset variable is no name.
[[nodiscard]] CLI::Validator not_empty();
// Once the command is parsed.
void note_given(const CLI::App& command, Search& options);
// --time, for limits_of (subjects.h).
void add_time(CLI::App& command, double& seconds);
// CLI::Range takes NaN for a number in any range.
[[nodiscard]] CLI::Validator number_in(double least, double most);
// I/N.
Status read_shard(const std::string& word, std::int64_t& shard, std::int64_t& shards);
Result<properties::Settings> settings_of(const Search& options);

}  // namespace norma::program
