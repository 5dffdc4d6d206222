#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "norma/law.h"
#include "norma/mutants.h"
#include "norma/spec.h"
#include "norma/targets.h"
#include "norma/vectors.h"
#include "program.h"
#include "settings.h"
#include "subjects.h"

namespace norma::program {
namespace {

nlohmann::ordered_json list_ops() {
  auto rows = nlohmann::ordered_json::array();
  for (const OpInfo& op : ops) {
    rows.push_back({{"name", op.name},
                    {"epsilon", fmt::format("{}", op.epsilon)},
                    {"axis", op.axis},
                    {"normalizes", op.summary},
                    {"inputs", role_list(op.inputs)},
                    {"required", role_list(op.required)},
                    {"outputs", role_list(op.outputs)}});
  }
  return rows;
}

nlohmann::ordered_json list_formats() {
  auto rows = nlohmann::ordered_json::array();
  for (const FormatInfo& f : formats) {
    rows.push_back({{"name", f.name},
                    {"bits", f.width},
                    {"precision", f.precision},
                    {"exponents", fmt::format("{} to {}", f.min_exponent(), f.max_exponent())},
                    {"infinity", f.has_infinity ? "yes" : "no"},
                    {"safetensors", f.safetensors},
                    {"npy", f.npy.empty() ? "none" : fmt::format("<{}", f.npy)}});
  }
  return rows;
}

nlohmann::ordered_json list_settings() {
  auto rows = nlohmann::ordered_json::array();
  for (const Setting& s : settings()) rows.push_back({{"name", s.name}, {"values", s.values}, {"meaning", s.help}});
  return rows;
}

nlohmann::ordered_json list_targets() {
  auto rows = nlohmann::ordered_json::array();
  for (const std::string& target : simd::targets()) rows.push_back({{"target", target}});
  return rows;
}

nlohmann::ordered_json list_laws() {
  auto rows = nlohmann::ordered_json::array();
  for (const properties::Law& law : properties::laws()) {
    std::vector<std::string_view> names;
    for (const Op op : law.wish().ops) names.push_back(info(op).name);
    rows.push_back({{"law", law.slug},
                    {"claim", law.claim},
                    {"severity", law.severity == properties::Severity::must ? "must"
                                 : law.by_design                            ? "must if declared"
                                                                            : "should"},
                    {"ops", names.empty() ? "all" : fmt::format("{}", fmt::join(names, " "))},
                    {"statement", law.statement}});
  }
  return rows;
}

nlohmann::ordered_json list_subjects() {
  auto rows = nlohmann::ordered_json::array();
  for (const properties::BuiltIn& subject : built_in_subjects()) {
    rows.push_back(
        {{"subject", subject.name}, {"available", "yes"}, {"what", subject.summary}, {"arithmetic", subject.words}, {"get", ""}});
  }
  for (const Shipped& subject : shipped_subjects()) {
    const bool here = !subject.start.empty();
    rows.push_back({{"subject", subject.name},
                    {"available", here ? "yes" : "no"},
                    {"what", subject.summary},
                    {"arithmetic", "as it declares"},
                    {"get", here ? "" : subject.get}});
  }
  rows.push_back({{"subject", "PATH.so"},
                  {"available", "yes"},
                  {"what", "a shared library with norma/subject.h: properties/examples/subject.c"},
                  {"arithmetic", "as it declares"},
                  {"get", ""}});
  rows.push_back({{"subject", "exec:COMMAND"},
                  {"available", "yes"},
                  {"what", "a program that speaks safetensors: properties/examples/subject.py"},
                  {"arithmetic", "as it declares"},
                  {"get", ""}});
  return rows;
}

nlohmann::ordered_json list_mutants() {
  auto rows = nlohmann::ordered_json::array();
  for (const properties::Mutant& m : properties::mutants()) {
    rows.push_back({{"mutant", m.name}, {"law", m.law}, {"report", m.report}, {"fault", m.fault}});
  }
  return rows;
}

nlohmann::ordered_json list_flags() {
  auto rows = nlohmann::ordered_json::array();
  for (const properties::Flag& flag : properties::flags()) {
    rows.push_back({{"flag", flag.name}, {"claim", flag.claim}, {"description", flag.notes}});
  }
  return rows;
}

std::string cell(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), " "));
  return value.dump();
}

// A line a row; what is a list in itself gets a line of its own under it.
void print(const nlohmann::ordered_json& rows) {
  std::vector<std::vector<std::string>> lines(1);
  bool lists = false;
  for (const auto& row : rows) {
    lines.emplace_back();
    for (const auto& [key, value] : row.items()) {
      lists = lists || value.is_array();
      if (value.is_array()) continue;
      if (&row == &rows.front()) lines.front().push_back(key);
      lines.back().push_back(cell(value));
    }
  }
  print_table(lines);
  if (!lists) return;
  for (const auto& row : rows) {
    fmt::print("\n{}\n", row.front().get<std::string>());
    for (const auto& [key, value] : row.items()) {
      if (value.is_array()) fmt::print("  {:<9} {}\n", key, cell(value));
    }
  }
}

constexpr std::array<std::pair<std::string_view, nlohmann::ordered_json (*)()>, 8> lists{{{"ops", list_ops},
                                                                                          {"formats", list_formats},
                                                                                          {"settings", list_settings},
                                                                                          {"targets", list_targets},
                                                                                          {"laws", list_laws},
                                                                                          {"subjects", list_subjects},
                                                                                          {"mutants", list_mutants},
                                                                                          {"flags", list_flags}}};

int list(const std::string& what, bool json) {
  std::vector<std::string_view> names;
  for (const auto& [name, make] : lists) {
    if (name == what) {
      const auto rows = make();
      if (json) {
        fmt::print("{}\n", rows.dump(2));
      } else {
        print(rows);
      }
      return holds;
    }
    names.push_back(name);
  }
  return fail(
      {Code::bad_parameter, fmt::format("there is no list \"{}\"{} (expected {})", what, suggestion(what, names), fmt::join(names, ", "))});
}

}  // namespace

void add_list(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("list", "What there is: ops, formats, settings, targets, laws, subjects, mutants, flags");
  struct Options {
    std::string what;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("WHAT", options->what, "ops, formats, settings, targets, laws, subjects, mutants or flags")->required();
  command->add_flag("--json", options->json, "print one JSON array")->disable_flag_override();
  command->callback([options, &chosen] { chosen = [options] { return list(options->what, options->json); }; });
}

}  // namespace norma::program
