#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "norma/tensor_file.h"
#include "program.h"
#include "report.h"

namespace norma::program {
namespace {

using properties::Finding;
using properties::LawReport;

void join(std::map<std::string, std::int64_t>& to, const std::map<std::string, std::int64_t>& from) {
  for (const auto& [key, count] : from) to[key] += count;
}

void join(std::optional<Finding>& to, const std::optional<Finding>& from) {
  if (from && (!to || from->number < to->number)) to = from;
}

void join(LawReport& to, const LawReport& from) {
  to.held += from.held;
  to.vacuous += from.vacuous;
  to.unsupported += from.unsupported;
  to.broken += from.broken;
  to.ranged += from.ranged;
  if (from.severity == properties::Severity::must) to.severity = from.severity;  // a crash is one, in whichever share
  join(to.families, from.families);
  join(to.reasons, from.reasons);
  join(to.first, from.first);
  join(to.first_ranged, from.first_ranged);
}

// What has to be the same in all, as words for a message. The version is looked at by from_json.
std::vector<std::pair<std::string_view, std::string>> identity(const CheckReport& r) {
  const nlohmann::ordered_json j = to_json(r);
  std::vector<std::pair<std::string_view, std::string>> all;
  for (const std::string_view key :
       {"subject", "name", "arithmetic", "seed", "cases", "shards", "ops", "dtypes", "strict", "time", "waivers"}) {
    all.emplace_back(key, j[std::string(key)].dump());
  }
  std::string laws;
  for (const LawReport& law : r.report.laws) laws += fmt::format("{}{}", laws.empty() ? "" : ", ", law.law->slug);
  all.emplace_back("laws", laws);
  return all;
}

int run(const std::vector<std::string>& paths, const Destinations& to) {
  if (Status status = to.check(paths); !status.ok()) return fail(status);
  std::vector<CheckReport> reports;
  for (const std::string& path : paths) {
    const Result<nlohmann::ordered_json> json = read_json(path);
    if (!json.ok()) return fail(json.status());
    Result<CheckReport> report = from_json(*json);
    if (!report.ok()) return fail({report.status().code, fmt::format("{}: {}", printable(path), report.status().message)});
    reports.push_back(std::move(*report));
  }
  const Result<CheckReport> merged = merge(std::move(reports), paths);
  return merged.ok() ? deliver(*merged, to) : fail(merged.status());
}

}  // namespace

Result<CheckReport> merge(std::vector<CheckReport> reports, const std::vector<std::string>& names) {
  const auto bad = [&](std::size_t i, const std::string& what) {
    return Status{Code::bad_parameter, fmt::format("{}: {}", printable(names[i]), what)};
  };
  const auto first = identity(reports.front());
  std::map<std::int64_t, std::size_t> by_shard;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const auto own = identity(reports[i]);
    const auto [ours, theirs] = std::mismatch(own.begin(), own.end(), first.begin());
    if (ours != own.end()) {
      return bad(i, fmt::format("belongs to another run than {}: {} is {}, not {}", printable(names.front()), ours->first,
                                ours->second.substr(0, 200), theirs->second.substr(0, 200)));
    }
    const properties::Settings& of = reports[i].report.settings;
    if (const auto [place, is_new] = by_shard.emplace(of.shard, i); !is_new) {
      return bad(i,
                 fmt::format("is shard {}/{}, as is {}: expected every shard once", of.shard, of.shards, printable(names[place->second])));
    }
  }
  const std::int64_t shards = reports.front().report.settings.shards;
  std::int64_t next = 1;
  for (const auto& [shard, i] : by_shard) next += shard == next;
  if (next <= shards) {
    return Status{Code::bad_parameter, fmt::format("shard {}/{} is missing: expected the reports of all {}", next, shards, shards)};
  }
  CheckReport whole = std::move(reports[by_shard.at(1)]);
  for (const auto& [shard, i] : by_shard) {
    if (shard == 1) continue;
    const properties::Report& part = reports[i].report;
    whole.report.accuracy.join(part.accuracy);
    if (whole.report.ended.empty()) whole.report.ended = part.ended;
    for (std::size_t l = 0; l < part.laws.size(); ++l) join(whole.report.laws[l], part.laws[l]);
  }
  whole.report.settings.shard = whole.report.settings.shards = 1;
  return whole;
}

void add_report(CLI::App& app, Command& chosen) {
  CLI::App* report = app.add_subcommand("report", "Works with the JSON reports of norma check");
  report->require_subcommand(1);
  CLI::App* command = report->add_subcommand("merge", "Joins the reports of all shares of a run into that of the whole");
  command->footer(
      "  norma check simd --shard 1/2 --json >1.json; norma check simd --shard 2/2 --json >2.json\n"
      "  norma report merge 1.json 2.json --html report.html");
  struct Options {
    std::vector<std::string> paths;
    Destinations to;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->paths, "what norma check --json printed")->required();
  add_flags(*command, options->to);
  command->callback([options, &chosen] { chosen = [options] { return run(options->paths, options->to); }; });
}

}  // namespace norma::program
