// What a check found, for people, for CI and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "norma/check.h"
#include "norma/status.h"

namespace CLI {
class App;
}

namespace norma::program {

// A law that somebody has decided to live with, for now.
struct Waiver {
  std::string subject, law, reason;
};

// That a call may take, and how a command is told of others.
inline constexpr double default_seconds = 2;
[[nodiscard]] std::string time_option(double seconds);

// A report and what the program adds to it.
struct CheckReport {
  properties::Report report;
  std::string subject;  // as the user named it, for commands to repeat
  bool strict = false;
  std::vector<Waiver> waivers;       // of this subject
  double seconds = default_seconds;  // that a call might take
};

// Whether a report is a failure: a broken `must`, or a law that was asked and tested nothing; with `strict` a broken `should` too. A waived
// law that is broken is none; one that holds is, unless others have the other shares of the cases.
[[nodiscard]] bool fails(const CheckReport& report);

[[nodiscard]] std::string to_text(const CheckReport& report);
[[nodiscard]] std::string to_markdown(const CheckReport& report);
[[nodiscard]] std::string to_junit(const CheckReport& report);
[[nodiscard]] std::string to_html(const CheckReport& report);
// As properties/schema/report.schema.json says.
[[nodiscard]] nlohmann::ordered_json to_json(const CheckReport& report);
// What to_json made, of this version.
Result<CheckReport> from_json(const nlohmann::ordered_json& json);

// Joins the reports of all shares of a run, in any order; `names` are for messages.
Result<CheckReport> merge(std::vector<CheckReport> reports, const std::vector<std::string>& names);

// JSON on one line or many, whatever a subject has put into its messages.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json);

// Where a report goes besides standard output.
struct Destinations {
  bool json = false, markdown = false;  // instead of text
  std::string junit, html;              // files

  // Whether it can go there, before any work is done, and over none of the files that are read.
  [[nodiscard]] Status check(const std::vector<std::string>& read) const;
};
void add_flags(CLI::App& command, Destinations& to);
// Writes and prints a report; the exit status: 2 where a file could not be written, 3 where the search ended early and nothing is broken so
// far.
int deliver(const CheckReport& report, const Destinations& to);

// A list of waivers that a person wrote: the ones of `subject`, if all are right.
Result<std::vector<Waiver>> read_waivers(const std::string& path, const std::string& subject);

// A JSON file. With `lines`, told in which line every value of its outermost array begins.
Result<nlohmann::ordered_json> read_json(const std::string& path, std::vector<std::int64_t>* lines = nullptr);

// The parts of reports.
enum class State : std::uint8_t { holds, broken, waived, stale, unsupported, untested };
[[nodiscard]] State state_of(const CheckReport& report, const properties::LawReport& law);
[[nodiscard]] std::string_view word(State state);
[[nodiscard]] std::string_view word(properties::Severity severity);
[[nodiscard]] bool fails(const CheckReport& report, const properties::LawReport& law);
[[nodiscard]] const Waiver* waiver_of(const CheckReport& report, const properties::LawReport& law);
[[nodiscard]] std::string verdict(const CheckReport& report, const properties::LawReport& law);
[[nodiscard]] std::string headline(const CheckReport& report);
[[nodiscard]] std::string command(const CheckReport& report, const properties::Law& law, const std::string& line);
[[nodiscard]] std::vector<const properties::Finding*> findings(const properties::LawReport& law);
[[nodiscard]] std::string golden(const properties::LawReport& law, const properties::Finding& finding);
// What is longer is no word of a command: Linux has 128 KiB.
inline constexpr std::size_t longest_word = 100'000;
// A line or a literal with a case of so many elements, or where to find it: what is long is for programs.
inline constexpr std::size_t longest_line = 4000;
[[nodiscard]] std::string for_people(const std::string& text, std::int64_t elements);
[[nodiscard]] std::string short_number(double value);
[[nodiscard]] std::string depth_text(double depth);
[[nodiscard]] std::string escaped(std::string_view text);  // for XML and HTML

}  // namespace norma::program
