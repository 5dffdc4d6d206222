#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <span>

#include "norma/tensor_file.h"
#include "report.h"

namespace norma::program {
namespace {

using nlohmann::ordered_json;
using properties::Accuracy;
using properties::Condition;
using properties::Extreme;
using properties::Finding;
using properties::Law;
using properties::LawReport;
using properties::Reply;
using properties::Severity;
using properties::Tally;

constexpr std::span<const std::string_view> replies = properties::reply_words;

// What a reader stumbles over, on its way out of from_json.
struct Stumble {
  std::string what;
};

// Without the [json.exception.NAME.NUMBER] in front.
std::string sentence(const nlohmann::json::exception& error) {
  const std::string_view what = error.what();
  return std::string(what.substr(what.find("] ") + 2));
}

// What norma check wrote shows itself: another's words would do what they like to a terminal.
std::string line(const ordered_json& j) {
  std::string text = j.get<std::string>();
  if (printable(text) != text) throw Stumble{fmt::format("{} is no line", quote(text))};
  return text;
}

// JSON has no infinity.
ordered_json number(double value) { return std::isinf(value) ? ordered_json("inf") : ordered_json(value); }
// Errors, margins and bounds have no sign.
double number(const ordered_json& j) {
  const double value = j.is_string() && j == "inf" ? std::numeric_limits<double>::infinity() : j.get<double>();
  if (!(value >= 0)) throw Stumble{fmt::format("{} is negative", j.dump())};
  return value;
}
std::int64_t count(const ordered_json& j) {
  constexpr std::int64_t most = std::int64_t{1} << 53;  // sums of reports stay what JSON has
  if (!j.is_number_integer() || j < 0 || j > most) throw Stumble{fmt::format("{} is no count", j.dump())};
  return j.get<std::int64_t>();
}
// Several of them, in an array or by name.
template <class T>
T counts(const ordered_json& j) {
  for (const ordered_json& each : j) (void)count(each);
  return j.get<T>();
}

const Law& known_law(const std::string& slug) {
  if (const Law* law = properties::law_named(slug)) return *law;
  throw Stumble{fmt::format("there is no law {}", quote(slug))};
}

properties::Case case_of(const ordered_json& j) {
  constexpr std::int64_t most = std::int64_t{1} << 23;  // elements: more than any law asks about
  Result<properties::Case> c = properties::parse_case(j.get<std::string>(), most);
  if (!c.ok()) throw Stumble{c.status().message};
  return std::move(*c);
}

ordered_json to_json(const Extreme& e) {
  if (e.value == 0) return nullptr;
  return {{"element", e.what},
          {"ulp_error", number(e.ulp)},
          {"margin", number(e.margin)},
          {"condition", number(e.condition)},
          {"law", e.source.law->slug},
          {"number", e.source.number},
          {"case", e.line}};
}
Extreme extreme(const ordered_json& j, double value) {
  if (j.is_null()) return {};
  return {value,
          {&known_law(j.at("law").get<std::string>()), count(j.at("number"))},
          line(j.at("case")),
          line(j.at("element")),
          number(j.at("ulp_error")),
          number(j.at("margin")),
          number(j.at("condition"))};
}

ordered_json to_json(const Tally& t) {
  return {{"elements", t.elements},         {"correctly_rounded", t.correctly_rounded}, {"faithful", t.faithful},
          {"within_bound", t.within},       {"max_ulp_error", number(t.ulp.value)},     {"max_margin", number(t.margin.value)},
          {"worst_by_ulp", to_json(t.ulp)}, {"worst_by_margin", to_json(t.margin)}};
}
Tally tally(const ordered_json& j) {
  return {count(j.at("elements")),
          count(j.at("correctly_rounded")),
          count(j.at("faithful")),
          count(j.at("within_bound")),
          extreme(j.at("worst_by_ulp"), number(j.at("max_ulp_error"))),
          extreme(j.at("worst_by_margin"), number(j.at("max_margin")))};
}

ordered_json to_json(const Accuracy& a) {
  ordered_json j = to_json(static_cast<const Tally&>(a));
  j["effective_depth"] = number(a.depth.value);
  j["worst_by_depth"] = to_json(a.depth);
  j["ulp_histogram"] = a.histogram;
  j["conditions"] = ordered_json::array();
  for (std::size_t i = 0; i < a.conditions.size(); ++i) {
    const Condition& c = a.conditions[i];
    if (c.elements == 0) continue;
    j["conditions"].push_back({{"log2", static_cast<int>(i) + Accuracy::least_condition},
                               {"elements", c.elements},
                               {"max_ulp_error", number(c.ulp)},
                               {"max_margin", number(c.margin)},
                               {"max_error", number(c.error)},
                               {"max_bound", number(c.bound)}});
  }
  j["kinds"] = ordered_json::array();
  for (const auto& [kind, t] : a.kinds) {
    ordered_json row{{"op", info(kind.first).name}, {"dtype", info(kind.second).name}};
    row.update(to_json(t));
    j["kinds"].push_back(std::move(row));
  }
  return j;
}
Accuracy accuracy(const ordered_json& j) {
  Accuracy a;
  static_cast<Tally&>(a) = tally(j);
  a.depth = extreme(j.at("worst_by_depth"), number(j.at("effective_depth")));
  a.histogram = counts<decltype(a.histogram)>(j.at("ulp_histogram"));
  for (const ordered_json& bin : j.at("conditions")) {
    const auto at = static_cast<std::size_t>(bin.at("log2").get<int>() - Accuracy::least_condition);
    if (at >= a.conditions.size()) throw Stumble{fmt::format("conditions: no bin {}", bin.at("log2").dump())};
    a.conditions[at] = {count(bin.at("elements")), number(bin.at("max_ulp_error")), number(bin.at("max_margin")),
                        number(bin.at("max_error")), number(bin.at("max_bound"))};
  }
  for (const ordered_json& row : j.at("kinds")) {
    const std::optional<Op> op = op_named(row.at("op").get<std::string>());
    const std::optional<Format> format = format_named(row.at("dtype").get<std::string>());
    if (!op || !format) throw Stumble{fmt::format("kinds: no op {} in {}", row.at("op").dump(), row.at("dtype").dump())};
    a.kinds[{*op, *format}] = tally(row);
  }
  // Every element is in a bin of each, and of a kind.
  Tally sum;
  std::int64_t in_histogram = 0, in_conditions = 0;
  for (const auto& [kind, t] : a.kinds) sum.join(t);
  for (const std::int64_t n : a.histogram) in_histogram += n;
  for (const Condition& c : a.conditions) in_conditions += c.elements;
  const bool ordered = a.correctly_rounded <= a.faithful && a.faithful <= a.elements && a.within <= a.elements;
  const bool together = sum.elements == a.elements && sum.correctly_rounded == a.correctly_rounded && sum.faithful == a.faithful &&
                        sum.within == a.within && a.histogram[0] == a.correctly_rounded;
  if (!ordered || !together || in_histogram != a.elements || in_conditions != a.elements) {
    throw Stumble{"accuracy: its numbers of elements do not add up"};
  }
  return a;
}

ordered_json to_json(const CheckReport& report, const LawReport& r) {
  ordered_json j{{"law", r.law->slug},
                 {"claim", r.law->claim},
                 {"statement", r.law->statement},
                 {"severity", word(r.severity)},
                 {"state", word(state_of(report, r))},
                 {"verdict", verdict(report, r)},
                 {"held", r.held},
                 {"broken", r.broken},
                 {"broken_out_of_range", r.ranged},
                 {"vacuous", r.vacuous},
                 {"unsupported", r.unsupported},
                 {"families", r.families},
                 {"unsupported_because", r.reasons},
                 {"findings", ordered_json::array()}};
  for (const Finding* f : findings(r)) {
    const std::string line = properties::to_line(f->smallest);
    const std::string text = golden(r, *f);
    j["findings"].push_back({{"what", f->what},
                             {"out_of_range", r.first_ranged && f == &*r.first_ranged},
                             {"reply", replies[static_cast<std::size_t>(f->reply)]},
                             {"number", f->number},
                             {"case", line},
                             {"found_as", properties::to_line(f->original)},
                             {"command", command(report, *r.law, line)},
                             {"cpp", properties::to_cpp(f->smallest)},
                             {"golden", text.empty() ? ordered_json() : ordered_json::parse(text)}});
  }
  return j;
}
LawReport law_report(const ordered_json& j, std::int64_t share) {
  LawReport r;
  r.law = &known_law(j.at("law").get<std::string>());
  r.severity = j.at("severity") == word(Severity::must) ? Severity::must : Severity::should;
  r.held = count(j.at("held"));
  r.broken = count(j.at("broken"));
  r.ranged = count(j.at("broken_out_of_range"));
  r.vacuous = count(j.at("vacuous"));
  r.unsupported = count(j.at("unsupported"));
  r.families = counts<decltype(r.families)>(j.at("families"));
  r.reasons = counts<decltype(r.reasons)>(j.at("unsupported_because"));
  // Every case that is drawn is of a family; what is not supported is so for a reason.
  const auto sum = [](const auto& by_name) {
    std::int64_t all = 0;
    for (const auto& [name, n] : by_name) all += n;
    return all;
  };
  for (const auto* names : {&r.families, &r.reasons}) {
    for (const auto& [name, n] : *names) (void)line(name);
  }
  const std::int64_t drawn = r.tested() + r.unsupported;
  if (sum(r.families) != drawn || sum(r.reasons) != r.unsupported || drawn + r.vacuous > share) {
    throw Stumble{fmt::format("{}: its numbers of cases do not add up", r.law->slug)};
  }
  for (const ordered_json& f : j.at("findings")) {
    const auto reply = std::find(replies.begin(), replies.end(), f.at("reply").get<std::string>());
    if (reply == replies.end()) throw Stumble{fmt::format("there is no reply {}", f.at("reply").dump())};
    (f.at("out_of_range").get<bool>() ? r.first_ranged : r.first) =
        Finding{case_of(f.at("found_as")), case_of(f.at("case")), line(f.at("what")), static_cast<Reply::Kind>(reply - replies.begin()),
                count(f.at("number"))};
  }
  return r;
}

template <class Names>
ordered_json names_of(const Names& of) {
  ordered_json names = ordered_json::array();
  for (const auto each : of) names.push_back(info(each).name);
  return names;
}

CheckReport read(const ordered_json& j) {
  CheckReport report;
  report.subject = j.at("subject").get<std::string>();
  report.strict = j.at("strict").get<bool>();
  report.seconds = number(j.at("time"));
  properties::Report& of = report.report;
  of.subject = line(j.at("name"));
  of.arithmetic = line(j.at("arithmetic"));
  of.settings.seed = j.at("seed").get<std::uint64_t>();
  of.settings.cases = count(j.at("cases"));
  of.settings.shard = count(j.at("shard"));
  of.settings.shards = count(j.at("shards"));
  if (of.settings.cases < 1) throw Stumble{"cases: expected one or more"};
  if (of.settings.shard < 1 || of.settings.shard > of.settings.shards) {
    throw Stumble{fmt::format("there is no shard {}/{}", of.settings.shard, of.settings.shards)};
  }
  for (const ordered_json& op : j.at("ops")) {
    const std::optional<Op> known = op_named(op.get<std::string>());
    if (!known) throw Stumble{fmt::format("there is no op {}", op.dump())};
    of.settings.ops.push_back(*known);
  }
  for (const ordered_json& dtype : j.at("dtypes")) {
    const std::optional<Format> known = format_named(dtype.get<std::string>());
    if (!known) throw Stumble{fmt::format("there is no dtype {}", dtype.dump())};
    of.settings.formats.push_back(*known);
  }
  for (const ordered_json& w : j.at("waivers")) {
    report.waivers.push_back({report.subject, w.at("law").get<std::string>(), w.at("reason").get<std::string>()});
  }
  of.ended = line(j.at("ended_early"));
  of.accuracy = accuracy(j.at("accuracy"));
  const std::int64_t share = (of.settings.cases - of.settings.shard) / of.settings.shards + 1;
  for (const ordered_json& law : j.at("laws")) of.laws.push_back(law_report(law, share));
  return report;
}

// Characters for a parser, with the line that it has come to.
struct Counting {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  std::int64_t* line;
  reference operator*() const { return *at; }
  Counting& operator++() {
    *line += *at++ == '\n';
    return *this;
  }
  bool operator==(const Counting& other) const { return at == other.at; }
  bool operator!=(const Counting& other) const { return at != other.at; }
};

}  // namespace

std::string dump(const ordered_json& json) { return json.dump(2, ' ', false, ordered_json::error_handler_t::replace); }

ordered_json to_json(const CheckReport& report) {
  const properties::Report& of = report.report;
  ordered_json j{{"version", NORMA_VERSION},
                 {"subject", report.subject},
                 {"name", of.subject},
                 {"arithmetic", of.arithmetic},
                 {"seed", of.settings.seed},
                 {"cases", of.settings.cases},
                 {"shard", of.settings.shard},
                 {"shards", of.settings.shards},
                 {"ops", names_of(of.settings.ops)},
                 {"dtypes", names_of(of.settings.formats)},
                 {"strict", report.strict},
                 {"time", report.seconds},
                 {"verdict", fails(report) ? "violated" : "holds"},
                 {"headline", headline(report)},
                 {"ended_early", of.ended},
                 {"must_violations", of.must_violations()},
                 {"should_violations", of.should_violations()},
                 {"waivers", ordered_json::array()},
                 {"accuracy", to_json(of.accuracy)},
                 {"laws", ordered_json::array()}};
  for (const Waiver& w : report.waivers) j["waivers"].push_back({{"law", w.law}, {"reason", w.reason}});
  for (const LawReport& r : of.laws) j["laws"].push_back(to_json(report, r));
  return j;
}

Result<CheckReport> from_json(const ordered_json& j) {
  const auto no_report = [](const std::string& what) { return Status{Code::bad_file, "is no report of norma check: " + what}; };
  try {
    if (const std::string version = j.at("version").get<std::string>(); version != NORMA_VERSION) {
      return Status{Code::bad_file, fmt::format("is a report of norma {}: expected {}", quote(version), NORMA_VERSION)};
    }
    CheckReport report = read(j);
    // All else in it follows from what was read: the file is whole, and nobody has changed a part of it, if it does.
    const nlohmann::json given = nlohmann::json::parse(dump(j)), made = nlohmann::json::parse(dump(to_json(report)));
    if (given == made) return report;
    const nlohmann::json difference = nlohmann::json::diff(given, made);
    const std::string expected = difference[0].contains("value") ? difference[0]["value"].dump() : "nothing there";
    return Status{Code::bad_file, fmt::format("does not fit together: {}: expected {}", difference[0]["path"].get<std::string>(),
                                              expected.size() > 80 ? expected.substr(0, 80) + "…" : expected)};
  } catch (const Stumble& stumble) {
    return no_report(stumble.what);
  } catch (const nlohmann::json::exception& error) {
    return no_report(sentence(error));
  }
}

Result<ordered_json> read_json(const std::string& path, std::vector<std::int64_t>* lines) {
  const auto bad = [&](const std::string& what) { return Status{Code::bad_file, fmt::format("{}: {}", printable(path), what)}; };
  const Result<std::string> read = read_file(path);
  if (!read.ok()) return read.status();
  const std::string& text = *read;
  std::int64_t line = 1;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    using Event = ordered_json::parse_event_t;
    if (depth > 32) throw Stumble{fmt::format("line {}: expected no more than 32 levels", line)};
    if (lines != nullptr && depth == 1 && (event == Event::object_start || event == Event::array_start || event == Event::value)) {
      lines->push_back(line);
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    // The parser keeps the last of two, and who wrote them may have meant the first.
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      throw Stumble{fmt::format("line {}: the key {} is there twice", line, quote(value.get<std::string>()))};
    }
    return true;
  };
  // To the parser, it ends the text.
  if (text.find('\0') != std::string::npos) return bad("is no JSON: there is a byte 0 in it");
  try {
    return ordered_json::parse(Counting{text.data(), &line}, Counting{text.data() + text.size(), &line}, watch);
  } catch (const Stumble& stumble) {
    return bad(stumble.what);
  } catch (const nlohmann::json::exception& error) {
    return bad("is no JSON: " + sentence(error));
  }
}

}  // namespace norma::program
