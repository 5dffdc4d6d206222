#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "norma/tensor_file.h"
#include "settings.h"

namespace norma::program {
namespace {

using properties::Finding;
using properties::LawReport;
using properties::Report;
using properties::Severity;

std::string_view word(Severity s) { return s == Severity::must ? "must" : "should"; }

enum class State : std::uint8_t { holds, broken, unsupported, untested };
State state_of(const LawReport& r) {
  if (r.broken + r.ranged != 0) return State::broken;
  if (r.starved()) return State::untested;
  return r.tested() == 0 ? State::unsupported : State::holds;
}

bool fails(const LawReport& r, bool strict) {
  if (r.starved()) return true;
  if (r.broken != 0 && r.severity == Severity::must) return true;
  return strict && r.broken + r.ranged != 0;
}

std::string verdict(const LawReport& r) {
  switch (state_of(r)) {
    case State::holds:
      return r.unsupported == 0 ? "holds" : fmt::format("holds ({} unsupported)", r.unsupported);
    case State::unsupported:
      return "unsupported";
    case State::untested:
      return fmt::format("tested {}: {} cases say nothing", r.tested(), r.vacuous);
    case State::broken:
      break;
  }
  std::string text = r.broken != 0 ? fmt::format("broken by {}", r.broken) : "";
  if (r.ranged != 0) text += fmt::format("{}broken by {} out of range", text.empty() ? "" : ", ", r.ranged);
  return text;
}

std::string command(const std::string& subject, const LawReport& r, const Finding& f) {
  const bool plain = subject.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:") == std::string::npos;
  return fmt::format("norma check {} --law {} --case {}", plain ? subject : shell_word(subject), r.law->slug,
                     shell_word(properties::to_line(f.smallest)));
}

std::vector<const Finding*> findings(const LawReport& r) {
  std::vector<const Finding*> all;
  for (const auto* f : {&r.first, &r.first_ranged}) {
    if (*f) all.push_back(&**f);
  }
  return all;
}

std::string headline(const Report& report, bool strict) {
  std::int64_t held = 0, broken = 0, should = 0, unsupported = 0, untested = 0, cases = 0;
  for (const LawReport& r : report.laws) {
    cases += r.tested();
    switch (state_of(r)) {
      case State::holds:
        ++held;
        break;
      case State::broken:
        ++(r.severity == Severity::must && r.broken != 0 ? broken : should);
        break;
      case State::unsupported:
        ++unsupported;
        break;
      case State::untested:
        ++untested;
        break;
    }
  }
  std::string text = fmt::format("{}: {} laws hold", program::fails(report, strict) ? "VIOLATED" : "holds", held);
  if (broken != 0) text += fmt::format(", {} must-laws broken", broken);
  if (should != 0) text += fmt::format(", {} should-laws broken", should);
  if (unsupported != 0) text += fmt::format(", {} not supported by the subject", unsupported);
  if (untested != 0) text += fmt::format(", {} hardly tested", untested);
  return text + fmt::format("; {} cases", cases);
}

std::string accuracy_line(const properties::Accuracy& a) {
  if (a.elements == 0) return "no element was compared";
  const auto part = [&](std::int64_t n) {
    return fmt::format("{:.4g} %", 100.0 * static_cast<double>(n) / static_cast<double>(a.elements));
  };
  return fmt::format("{} elements: {} correctly rounded, {} faithful, worst {:.4g} ulp, worst margin {:.3g} of the bound", a.elements,
                     part(a.correctly_rounded), part(a.faithful), a.worst_ulp, a.worst_margin);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
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

}  // namespace

bool fails(const Report& report, bool strict) {
  return report.laws.empty() || std::any_of(report.laws.begin(), report.laws.end(), [&](const LawReport& r) { return fails(r, strict); });
}

std::string to_text(const Report& report, const std::string& subject, bool strict) {
  std::string text =
      fmt::format("{} ({}), seed {}, {} cases a law\n\n", report.subject, report.arithmetic, report.settings.seed, report.settings.cases);
  std::size_t width = 0;
  for (const LawReport& r : report.laws) width = std::max(width, r.law->slug.size());
  for (const LawReport& r : report.laws) {
    text += fmt::format("{} {:<{}}  {:<6}  {:>6}  {}\n",
                        fails(r, strict)               ? "✗"
                        : state_of(r) == State::broken ? "!"
                                                       : " ",
                        r.law->slug, width, word(r.severity), r.tested(), verdict(r));
    for (const Finding* f : findings(r)) {
      text += fmt::format("    {}\n    {}\n", r.law->statement, f->what);
      const std::string line = command(subject, r, *f);
      text += line.size() < 4000 ? fmt::format("    {}\n", line)
                                 : fmt::format("    (a case of {} elements: --json has it)\n", f->smallest.elements());
    }
  }
  return text + fmt::format("\n{}\n{}\n", accuracy_line(report.accuracy), headline(report, strict));
}

std::string to_markdown(const Report& report, const std::string& subject, bool strict) {
  std::string text = fmt::format("**norma check {}**: {}\n\n{}\n\n| law | severity | cases | verdict |\n|---|---|---:|---|\n", subject,
                                 headline(report, strict), accuracy_line(report.accuracy));
  for (const LawReport& r : report.laws) {
    text += fmt::format("| {}{} | {} | {} | {} |\n", fails(r, strict) ? "✗ " : "", r.law->slug, word(r.severity), r.tested(), verdict(r));
  }
  for (const LawReport& r : report.laws) {
    for (const Finding* f : findings(r)) {
      text += fmt::format("\n<details><summary>{}: {}</summary>\n\n```\n{}\n```\n</details>\n", r.law->slug, escaped(f->what),
                          command(subject, r, *f));
    }
  }
  return text;
}

std::string to_junit(const Report& report, const std::string& subject, bool strict) {
  const auto failures = std::count_if(report.laws.begin(), report.laws.end(), [&](const LawReport& r) { return fails(r, strict); });
  const auto skipped = std::count_if(report.laws.begin(), report.laws.end(),
                                     [&](const LawReport& r) { return !fails(r, strict) && state_of(r) == State::unsupported; });
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"norma check {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
      escaped(subject), report.laws.size(), failures, skipped);
  for (const LawReport& r : report.laws) {
    text += fmt::format("  <testcase classname=\"norma.{}\" name=\"{}\">\n", word(r.severity), r.law->slug);
    std::string details;
    for (const Finding* f : findings(r)) details += fmt::format("{}\n{}\n", f->what, command(subject, r, *f));
    if (fails(r, strict)) {
      text += fmt::format("    <failure message=\"{}\">{}</failure>\n", escaped(verdict(r)), escaped(details));
    } else if (state_of(r) == State::unsupported) {
      text += fmt::format("    <skipped message=\"{} cases are not supported by the subject\"/>\n", r.unsupported);
    } else if (!details.empty()) {
      text += fmt::format("    <system-out>{}</system-out>\n", escaped(details));
    }
    text += "  </testcase>\n";
  }
  return text + "</testsuite>\n";
}

nlohmann::ordered_json to_json(const Report& report, const std::string& subject, bool strict) {
  const properties::Accuracy& a = report.accuracy;
  nlohmann::ordered_json j{
      {"subject", report.subject},
      {"arithmetic", report.arithmetic},
      {"seed", report.settings.seed},
      {"cases", report.settings.cases},
      {"shard", fmt::format("{}/{}", report.settings.shard, report.settings.shards)},
      {"strict", strict},
      {"verdict", fails(report, strict) ? "violated" : "holds"},
      {"must_violations", report.must_violations()},
      {"should_violations", report.should_violations()},
      {"accuracy",
       {{"elements", a.elements},
        {"correctly_rounded", a.correctly_rounded},
        {"faithful", a.faithful},
        {"within_bound", a.within},
        {"max_ulp_error", std::isfinite(a.worst_ulp) ? nlohmann::ordered_json(a.worst_ulp) : nlohmann::ordered_json("inf")},
        {"max_ulp_case", a.worst_ulp_case},
        {"max_margin", std::isfinite(a.worst_margin) ? nlohmann::ordered_json(a.worst_margin) : nlohmann::ordered_json("inf")},
        {"max_margin_case", a.worst_margin_case},
        {"ulp_histogram", a.histogram}}}};
  auto laws = nlohmann::ordered_json::array();
  for (const LawReport& r : report.laws) {
    nlohmann::ordered_json law{{"law", r.law->slug},
                               {"statement", r.law->statement},
                               {"severity", word(r.severity)},
                               {"held", r.held},
                               {"broken", r.broken},
                               {"broken_out_of_range", r.ranged},
                               {"vacuous", r.vacuous},
                               {"unsupported", r.unsupported},
                               {"verdict", verdict(r)},
                               {"families", r.families},
                               {"unsupported_because", r.reasons}};
    for (const Finding* f : findings(r)) {
      law["findings"].push_back({{"what", f->what},
                                 {"case", properties::to_line(f->smallest)},
                                 {"found_as", properties::to_line(f->original)},
                                 {"command", command(subject, r, *f)},
                                 {"cpp", properties::to_cpp(f->smallest)}});
    }
    laws.push_back(std::move(law));
  }
  j["laws"] = std::move(laws);
  return j;
}

Status check_writable(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path parent = std::filesystem::absolute(path, ignored).parent_path();
  const std::filesystem::file_status there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return {Code::io_error, fmt::format("{}: expected a regular file, or none yet", printable(path))};
  }
  if (access(parent.c_str(), W_OK) != 0)
    return {Code::io_error, fmt::format("{}: cannot be written: no such directory, or no right to", printable(path))};
  return {};
}

}  // namespace norma::program
