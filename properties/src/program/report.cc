#include "report.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "norma/tensor_file.h"
#include "program.h"
#include "search.h"
#include "settings.h"

namespace norma::program {

using properties::Finding;
using properties::LawReport;
using properties::Severity;

std::string_view word(Severity s) { return s == Severity::must ? "must" : "should"; }
std::string_view word(State s) {
  static constexpr std::string_view words[] = {"holds", "broken", "waived", "stale", "unsupported", "untested"};
  return words[static_cast<std::size_t>(s)];
}

const Waiver* waiver_of(const CheckReport& report, const LawReport& r) {
  const auto found = std::find_if(report.waivers.begin(), report.waivers.end(), [&](const Waiver& w) { return w.law == r.law->slug; });
  return found == report.waivers.end() ? nullptr : &*found;
}

State state_of(const CheckReport& report, const LawReport& r) {
  const bool waived = waiver_of(report, r) != nullptr;
  if (r.broken + r.ranged != 0) return waived ? State::waived : State::broken;
  if (r.starved() || (r.tested() == 0 && r.unsupported == 0)) return State::untested;
  if (r.tested() == 0) return State::unsupported;
  // What a share of the cases does not break, another one may.
  return waived && report.report.settings.shards == 1 ? State::stale : State::holds;
}

bool fails(const CheckReport& report, const LawReport& r) {
  if (r.starved()) return true;
  switch (state_of(report, r)) {
    case State::stale:
      return true;
    case State::broken:
      return report.strict || (r.broken != 0 && r.severity == Severity::must);
    default:
      return false;
  }
}

bool fails(const CheckReport& report) {
  const std::vector<LawReport>& laws = report.report.laws;
  const bool tested = std::any_of(laws.begin(), laws.end(), [](const LawReport& r) { return r.tested() != 0; });
  // Where the search ended early that is the reason, and an exit status of its own.
  return (!tested && report.report.ended.empty()) ||
         std::any_of(laws.begin(), laws.end(), [&](const LawReport& r) { return fails(report, r); });
}

std::string verdict(const CheckReport& report, const LawReport& r) {
  std::string text = r.broken != 0 ? fmt::format("broken by {}", r.broken) : "";
  if (r.ranged != 0) text += fmt::format("{}broken by {} out of range", text.empty() ? "" : ", ", r.ranged);
  switch (state_of(report, r)) {
    case State::holds:
      return r.unsupported == 0 ? "holds" : fmt::format("holds ({} unsupported)", r.unsupported);
    case State::unsupported:
      return "unsupported";
    case State::untested:
      if (r.tested() + r.vacuous == 0) return "not asked";
      return fmt::format("tested {}: {} cases say nothing", r.tested(), r.vacuous);
    case State::waived:
      return fmt::format("waived: {} ({})", waiver_of(report, r)->reason, text);
    case State::stale:
      return fmt::format("holds, but is waived: expected no waiver ({})", waiver_of(report, r)->reason);
    case State::broken:
      break;
  }
  return text;
}

std::string time_option(double seconds) { return seconds == default_seconds ? "" : fmt::format(" --time {}", seconds); }

std::string command(const CheckReport& report, const properties::Law& law, const std::string& line) {
  return properties::replay_command(report.subject, law, line.size() < longest_word ? line : "@FILE") + time_option(report.seconds);
}

std::vector<const Finding*> findings(const LawReport& r) {
  std::vector<const Finding*> all;
  for (const auto* f : {&r.first, &r.first_ranged}) {
    if (*f) all.push_back(&**f);
  }
  return all;
}

std::string golden(const LawReport& r, const Finding& f) {
  const Result<std::string> text = properties::to_golden(f.smallest, fmt::format("{}: {}", r.law->slug, f.what));
  return text.ok() ? *text : "";
}

std::string for_people(const std::string& text, std::int64_t elements) {
  return text.size() < longest_line ? text : fmt::format("(a case of {} elements: --json has it, for --case @FILE)", elements);
}

std::string short_number(double value) { return std::isinf(value) ? "infinite" : fmt::format("{:.4g}", value); }

// A depth that no sum has is told by its size.
std::string depth_text(double depth) { return depth < 1e6 ? fmt::format("{:.0f}", depth) : short_number(depth); }

std::string headline(const CheckReport& report) {
  std::int64_t held = 0, broken = 0, should = 0, waived = 0, stale = 0, unsupported = 0, untested = 0, cases = 0;
  for (const LawReport& r : report.report.laws) {
    cases += r.tested();
    switch (state_of(report, r)) {
      case State::holds:
        ++held;
        break;
      case State::broken:
        ++(r.severity == Severity::must && r.broken != 0 ? broken : should);
        break;
      case State::waived:
        ++waived;
        break;
      case State::stale:
        ++stale;
        break;
      case State::unsupported:
        ++unsupported;
        break;
      case State::untested:
        ++untested;
        break;
    }
  }
  std::string text = fmt::format("{}: {} {}", fails(report) ? (broken + should + stale + untested == 0 ? "UNTESTED" : "VIOLATED") : "holds",
                                 held, held == 1 ? "law holds" : "laws hold");
  if (broken != 0) text += fmt::format(", {} must-law{} broken", broken, broken == 1 ? "" : "s");
  if (should != 0) text += fmt::format(", {} should-law{} broken", should, should == 1 ? "" : "s");
  if (waived != 0) text += fmt::format(", {} waived", waived);
  if (stale != 0) text += fmt::format(", {} waived although they hold", stale);
  if (unsupported != 0) text += fmt::format(", {} not supported by the subject", unsupported);
  if (untested != 0) text += fmt::format(", {} hardly tested", untested);
  text += fmt::format("; {} cases", cases);
  return report.report.ended.empty() ? text : fmt::format("{}; ended early: {}", text, report.report.ended);
}

std::string escaped(std::string_view text) {
  std::string out;
  // A subject's words may be anything: what is no UTF-8 becomes U+FFFD, and so does what XML does not have.
  std::string whole = nlohmann::json::parse(dump(text)).get<std::string>();
  for (const std::string_view none : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (std::size_t at = 0; (at = whole.find(none, at)) != std::string::npos;) whole.replace(at, none.size(), "\xef\xbf\xbd");
  }
  for (const char c : whole) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? '?' : c;
    }
  }
  return out;
}

namespace {

// The command, where a person can use it.
std::string short_command(const CheckReport& report, const properties::Law& law, const properties::Case& c) {
  const std::string line = command(report, law, properties::to_line(c));
  return for_people(line, c.elements());
}

std::string accuracy_line(const properties::Accuracy& a) {
  if (a.elements == 0) return "no element was compared";
  const auto part = [&](std::int64_t n) {
    return fmt::format("{:.4g} %", 100.0 * static_cast<double>(n) / static_cast<double>(a.elements));
  };
  const auto largest =
      std::find_if(a.conditions.rbegin(), a.conditions.rend(), [](const properties::Condition& c) { return c.elements != 0; });
  return fmt::format(
      "{} elements: {} correctly rounded, {} faithful, worst {} ulp, worst margin {:.3g} of the bound, {}; condition numbers past 2^{}",
      a.elements, part(a.correctly_rounded), part(a.faithful), short_number(a.ulp.value), a.margin.value,
      std::isinf(a.depth.value) ? "covered by no depth" : "effective depth " + depth_text(a.depth.value),
      a.conditions.rend() - largest - 1 + properties::Accuracy::least_condition);
}

}  // namespace

std::string to_text(const CheckReport& report) {
  const properties::Report& of = report.report;
  std::string text = fmt::format("{} ({}), seed {}, {} cases a law\n\n", of.subject, of.arithmetic, of.settings.seed, of.settings.cases);
  std::size_t width = 0;
  for (const LawReport& r : of.laws) width = std::max(width, r.law->slug.size());
  for (const LawReport& r : of.laws) {
    const State state = state_of(report, r);
    text += fmt::format("{} {:<{}}  {:<6}  {:>6}  {}\n",
                        fails(report, r)                                   ? "✗"
                        : state == State::broken || state == State::waived ? "!"
                                                                           : " ",
                        r.law->slug, width, word(r.severity), r.tested(), verdict(report, r));
    for (const Finding* f : findings(r)) {
      text += fmt::format("    {}\n    {}\n", r.law->statement, f->what);
      text += fmt::format("    {}\n", short_command(report, *r.law, f->smallest));
    }
  }
  return text + fmt::format("\n{}\n{}\n", accuracy_line(of.accuracy), headline(report));
}

std::string to_markdown(const CheckReport& report) {
  // A bar ends a cell.
  const auto cell = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
    return escaped(text);
  };
  std::string text = fmt::format("**norma check {}**: {}\n\n{}\n\n| law | severity | cases | verdict |\n|---|---|---:|---|\n",
                                 escaped(report.subject), escaped(headline(report)), accuracy_line(report.report.accuracy));
  for (const LawReport& r : report.report.laws) {
    text += fmt::format("| {}{} | {} | {} | {} |\n", fails(report, r) ? "✗ " : "", r.law->slug, word(r.severity), r.tested(),
                        cell(verdict(report, r)));
  }
  for (const LawReport& r : report.report.laws) {
    for (const Finding* f : findings(r)) {
      const std::string replay = short_command(report, *r.law, f->smallest);
      std::string fence = "```";
      while (replay.find(fence) != std::string::npos) fence += '`';
      text += fmt::format("\n<details><summary>{0}: {1}</summary>\n\n{2}\n{3}\n{2}\n</details>\n", r.law->slug, escaped(f->what), fence,
                          replay);
    }
  }
  return text;
}

std::string to_junit(const CheckReport& report) {
  const std::vector<LawReport>& laws = report.report.laws;
  const auto not_asked = [](const LawReport& r) { return r.tested() + r.vacuous + r.unsupported == 0; };
  const auto is_skipped = [&](const LawReport& r) {
    const State state = state_of(report, r);
    return !fails(report, r) && (state == State::unsupported || state == State::waived || not_asked(r));
  };
  const auto broken = std::count_if(laws.begin(), laws.end(), [&](const LawReport& r) { return fails(report, r); });
  const std::string& ended = report.report.ended;
  const bool untested = broken == 0 && ended.empty() && fails(report);  // all of it
  const auto failures = broken + (untested ? 1 : 0);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"norma check {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      escaped(report.subject), laws.size() + (ended.empty() ? 0 : 1) + (untested ? 1 : 0), failures, ended.empty() ? 0 : 1,
      std::count_if(laws.begin(), laws.end(), is_skipped));
  if (!ended.empty()) {
    text += fmt::format("  <testcase classname=\"norma\" name=\"search\">\n    <error message=\"ended early: {}\"/>\n  </testcase>\n",
                        escaped(ended));
  }
  if (untested) {
    text += "  <testcase classname=\"norma\" name=\"search\">\n    <failure message=\"no law was tested\"/>\n  </testcase>\n";
  }
  for (const LawReport& r : laws) {
    text += fmt::format("  <testcase classname=\"norma.{}\" name=\"{}\">\n", word(r.severity), r.law->slug);
    std::string details;
    for (const Finding* f : findings(r)) details += fmt::format("{}\n{}\n", f->what, short_command(report, *r.law, f->smallest));
    const bool failed = fails(report, r);
    if (failed) {
      text += fmt::format("    <failure message=\"{}\">{}</failure>\n", escaped(verdict(report, r)), escaped(details));
    } else if (is_skipped(r)) {
      // A waived law is neither passed nor failed.
      text += fmt::format("    <skipped message=\"{}\"/>\n",
                          escaped(r.unsupported == 0 || state_of(report, r) == State::waived
                                      ? verdict(report, r)
                                      : fmt::format("{} cases are not supported by the subject", r.unsupported)));
    }
    if (!failed && !details.empty()) text += fmt::format("    <system-out>{}</system-out>\n", escaped(details));
    text += "  </testcase>\n";
  }
  return text + "</testsuite>\n";
}

namespace {

// Whether both paths lead to one file, there already or not. Of a path that leads nowhere, others will say why.
bool same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::equivalent(a, b, none)) return true;
  const auto whole = [](const std::string& path) {
    std::error_code bad;
    const fs::path absolute = fs::absolute(path, bad);
    return bad ? fs::path() : fs::weakly_canonical(absolute, bad);
  };
  const fs::path first = whole(a);
  return !first.empty() && first == whole(b);
}

// A file is replaced: what is printed into the old one is lost.
bool is_standard_output(const std::string& path) {
  struct stat out {
  }, file{};
  return ::fstat(STDOUT_FILENO, &out) == 0 && S_ISREG(out.st_mode) && ::stat(path.c_str(), &file) == 0 && out.st_dev == file.st_dev &&
         out.st_ino == file.st_ino;
}

}  // namespace

Status Destinations::check(const std::vector<std::string>& read) const {
  if (json && markdown) return {Code::bad_parameter, "--json and --markdown: expected one of them"};
  std::vector<std::string> taken = read;
  for (const auto& [option, path] : {std::pair{"--junit", junit}, {"--html", html}}) {
    if (path.empty()) continue;
    for (const std::string& other : taken) {
      if (same_file(path, other)) {
        return {Code::bad_parameter,
                fmt::format("{}: {} is also {}: expected a file of its own", option, printable(path), printable(other))};
      }
    }
    if (is_standard_output(path)) {
      return {Code::bad_parameter, fmt::format("{}: {} is also standard output: expected a file of its own", option, printable(path))};
    }
    if (Status status = may_write_file(path); !status.ok()) return status;
    taken.push_back(path);
  }
  return {};
}

void add_flags(CLI::App& command, Destinations& to) {
  command.add_option("--junit", to.junit, "write a JUnit XML file as well")->type_name("FILE")->check(not_empty());
  command.add_option("--html", to.html, "write a page to look at as well")->type_name("FILE")->check(not_empty());
  command.add_flag("--markdown", to.markdown, "print a table for the summary of a CI run")->disable_flag_override();
  command.add_flag("--json", to.json, "print one JSON object (properties/schema/report.schema.json)")->disable_flag_override();
}

int deliver(const CheckReport& report, const Destinations& to) {
  // What took so long is printed, whatever becomes of the files.
  bool written = true;
  const auto put = [&](const std::string& path, auto&& make) {
    if (path.empty()) return;
    const std::string text = make(report);
    const Status status = write_file(path, std::as_bytes(std::span(text)));
    if (status.ok()) return;
    written = false;
    (void)fail(status);
  };
  put(to.junit, to_junit);
  put(to.html, to_html);
  fmt::print("{}", to.json ? dump(to_json(report)) + "\n" : to.markdown ? to_markdown(report) : to_text(report));
  const std::string& ended = report.report.ended;
  if (!ended.empty()) (void)fail({Code::io_error, fmt::format("the search ended early: {}", ended)});
  if (!written) return input_error;
  return fails(report) ? violated : ended.empty() ? holds : subject_error;
}

}  // namespace norma::program
