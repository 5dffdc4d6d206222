#include "search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "settings.h"
#include "subjects.h"

namespace norma::program {

void add_search(CLI::App& command, Search& options) {
  command.add_option("--law", options.laws, "only these laws")->delimiter(',')->allow_extra_args(false)->type_name("SLUG,...");
  command.add_option("--op", options.ops, "only these ops")->delimiter(',')->allow_extra_args(false)->type_name("OP,...");
  command.add_option("--dtype", options.dtypes, "only these formats of x")->delimiter(',')->allow_extra_args(false)->type_name("NAME,...");
  add_seed(command, options.seed);
  command.add_option("--shard", options.shard, "only the I-th of N shares of the cases")->type_name("I/N");
}

void add_seed(CLI::App& command, std::uint64_t& seed) {
  add_whole(command, "--seed", seed, "another seed, other cases; 1", 0, std::numeric_limits<std::uint64_t>::max());
}

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& word) { return word.empty() ? "expected a name, not \"\"" : ""; }, "");
}

bool Search::given(std::string_view name) const { return std::find(names.begin(), names.end(), name) != names.end(); }

Status Search::only(std::string_view of, std::initializer_list<std::string_view> looked_at) const {
  for (const std::string& name : names) {
    if (std::find(looked_at.begin(), looked_at.end(), name) != looked_at.end()) continue;
    return {Code::bad_parameter, fmt::format("{}: {} takes no such option, only {}", name, of, fmt::join(looked_at, ", "))};
  }
  return {};
}

void note_given(const CLI::App& command, Search& options) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() != 0 && !option->get_positional()) options.names.push_back(option->get_name());
  }
}

CLI::Validator number_in(double least, double most) {
  const CLI::Validator range = CLI::Range(least, most);
  return CLI::Validator(
      [range](std::string& word) {
        double value = 0;
        return CLI::detail::lexical_cast(word, value) && std::isnan(value) ? "Value " + word + " is no number" : range(word);
      },
      range.get_description());
}

void add_time(CLI::App& command, double& seconds) {
  command
      .add_option("--time", seconds, "seconds that a call may take; 2 (beyond 4, a program may also sleep so long before it says hello)")
      ->type_name("SECONDS")
      ->check(number_in(0.01, 3600));
}

Status read_shard(const std::string& word, std::int64_t& shard, std::int64_t& shards) {
  const std::size_t slash = std::min(word.find('/'), word.size());
  const auto number = [](std::string_view text, std::int64_t& to) { (void)std::from_chars(text.data(), text.data() + text.size(), to); };
  number(std::string_view(word).substr(0, slash), shard);
  number(std::string_view(word).substr(std::min(slash + 1, word.size())), shards);
  if (shard >= 1 && shards >= shard && word == fmt::format("{}/{}", shard, shards)) return {};
  return {Code::bad_parameter, fmt::format("--shard: expected I/N with 1 <= I <= N, not {}", quote(word))};
}

Result<properties::Settings> settings_of(const Search& options) {
  properties::Settings s;
  s.seed = options.seed;
  std::vector<std::string_view> names;
  for (const properties::Law& law : properties::laws()) names.push_back(law.slug);
  for (const std::string& word : options.laws) {
    if (Status status = known("--law", word, names, "laws"); !status.ok()) return status;
    s.laws.push_back(word);
  }
  Result<std::vector<Op>> ops = ops_of(options.ops);
  if (!ops.ok()) return ops.status();
  s.ops = std::move(*ops);
  Result<std::vector<Format>> formats = formats_of(options.dtypes);
  if (!formats.ok()) return formats.status();
  s.formats = std::move(*formats);
  if (Status status = read_shard(options.shard, s.shard, s.shards); !status.ok()) return status;
  return s;
}

}  // namespace norma::program
