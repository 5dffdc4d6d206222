#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "norma/tensor_file.h"
#include "report.h"
#include "settings.h"
#include "subjects.h"

namespace norma::program {
namespace {

constexpr std::array<std::string_view, 3> keys{"subject", "law", "reason"};

Result<Waiver> waiver_of(const nlohmann::ordered_json& j) {
  const auto bad = [](std::string what) { return Status{Code::bad_parameter, std::move(what)}; };
  if (!j.is_object()) return bad("expected an object with subject, law and reason");
  for (const auto& [key, value] : j.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return bad(fmt::format("a waiver has no {}{} (expected subject, law and reason)", quote(key), suggestion(key, keys)));
    }
    if (!value.is_string()) return bad(fmt::format("{}: expected a string", key));
  }
  for (const std::string_view key : keys) {
    if (!j.contains(key)) return bad(fmt::format("expected {}", key));
  }
  Waiver w{j["subject"].get<std::string>(), j["law"].get<std::string>(), trimmed(j["reason"].get<std::string>())};
  if (Status status = known_subject(w.subject); !status.ok()) return status;
  std::vector<std::string_view> laws;
  for (const properties::Law& law : properties::laws()) laws.push_back(law.slug);
  if (std::find(laws.begin(), laws.end(), w.law) == laws.end()) {
    return bad(fmt::format("there is no law {}{} (see norma list laws)", quote(w.law), suggestion(w.law, laws)));
  }
  if (printable(w.reason) != w.reason) {
    return bad(fmt::format("the reason of {} has characters that do not show: expected one line", w.law));
  }
  if (w.reason.find_first_not_of("\xc2\xa0 ") == std::string::npos)
    return bad(fmt::format("{} of {} is waived without a reason: expected one", w.law, quote(w.subject)));
  return w;
}

}  // namespace

Result<std::vector<Waiver>> read_waivers(const std::string& path, const std::string& subject) {
  std::vector<std::int64_t> lines;
  const Result<nlohmann::ordered_json> json = read_json(path, &lines);
  if (!json.ok()) return Status{json.status().code, json.status().message};
  if (!json->is_array()) return Status{Code::bad_file, fmt::format("{}: expected an array of waivers", printable(path))};
  std::vector<Waiver> all;
  for (std::size_t i = 0; i < json->size(); ++i) {
    Result<Waiver> w = waiver_of((*json)[i]);
    const bool again = w.ok() && std::any_of(all.begin(), all.end(),
                                             [&](const Waiver& other) { return other.subject == w->subject && other.law == w->law; });
    if (again) w = Status{Code::bad_parameter, fmt::format("{} of {} is waived twice: expected it once", w->law, quote(w->subject))};
    if (!w.ok()) return Status{Code::bad_file, fmt::format("{}: line {}: {}", printable(path), lines[i], w.status().message)};
    all.push_back(std::move(*w));
  }
  std::erase_if(all, [&](const Waiver& w) { return w.subject != subject; });
  return all;
}

}  // namespace norma::program
