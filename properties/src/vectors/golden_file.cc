#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "norma/reference.h"
#include "norma/text.h"
#include "norma/vectors.h"

namespace norma::properties {
namespace {

using nlohmann::ordered_json;

// What a reader stumbles over, on its way out.
struct Stumble {
  std::string what;
};
[[noreturn]] void stumble(std::string what) { throw Stumble{std::move(what)}; }

// The keys of an object, all of them and no others.
void expect_keys(const ordered_json& j, std::initializer_list<std::string_view> keys, std::string_view of) {
  if (!j.is_object()) stumble(std::string(of) + ": expected an object");
  for (const auto& [key, value] : j.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) stumble(std::string(of) + " has no " + quote(key));
  }
  for (const std::string_view key : keys) {
    if (!j.contains(key)) stumble(std::string(of) + ": expected " + std::string(key));
  }
}

std::string text_of(const ordered_json& j, std::string_view key) {
  const ordered_json& value = j.at(std::string(key));
  if (!value.is_string()) stumble(std::string(key) + ": expected a string");
  return value.get<std::string>();
}
std::int64_t integer_of(const ordered_json& j, std::string_view key) {
  const ordered_json& value = j.at(std::string(key));
  if (!value.is_number_integer()) stumble(std::string(key) + ": expected a whole number");
  return value.get<std::int64_t>();
}
double number_of(const ordered_json& j, std::string_view key) {
  const Result<Bits> bits = parse_number(text_of(j, key), Format::f64);
  if (!bits.ok()) stumble(std::string(key) + ": " + bits.status().message);
  return value_of(Format::f64, *bits);
}
template <class T>
T one_of_two(const ordered_json& j, std::string_view key, std::pair<std::string_view, T> a, std::pair<std::string_view, T> b) {
  const std::string word = text_of(j, key);
  if (word == a.first) return a.second;
  if (word == b.first) return b.second;
  stumble(std::string(key) + ": " + quote(word) + ": expected " + std::string(a.first) + " or " + std::string(b.first));
}

Shape shape_of(const ordered_json& j, std::string_view of) {
  const ordered_json& list = j.at("shape");
  if (!list.is_array() || list.size() > 8) stumble(std::string(of) + ": shape: expected up to 8 extents");
  Shape shape;
  std::int64_t count = 1;
  constexpr std::int64_t most = std::int64_t{1} << 28;
  for (const ordered_json& extent : list) {
    if (!extent.is_number_unsigned() || extent > most || (extent != 0 && count > most / extent.get<std::int64_t>())) {
      stumble(std::string(of) + ": shape: no extent " + extent.dump());
    }
    shape.push_back(extent.get<std::int64_t>());
    count *= std::max<std::int64_t>(1, shape.back());
  }
  return shape;
}

// Little-endian, two digits a byte.
void read_bits(const ordered_json& j, std::string_view key, std::string_view of, Tensor& to) {
  const std::string digits = text_of(j, key);
  if (digits.size() != 2 * to.data.size()) {
    stumble(std::string(of) + ": " + std::string(key) + " has " + std::to_string(digits.size()) + " digits: expected " +
            std::to_string(2 * to.data.size()));
  }
  for (std::size_t i = 0; i < to.data.size(); ++i) {
    unsigned byte = 0;
    const char* const at = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, byte, 16);
    if (error != std::errc() || end != at + 2) stumble(std::string(of) + ": " + std::string(key) + ": expected hexadecimal digits");
    to.data[i] = static_cast<std::byte>(byte);
  }
}

Format format_of(const ordered_json& j) {
  const std::string name = text_of(j, "dtype");
  const std::optional<Format> format = format_named(name);
  if (!format) stumble("there is no dtype " + quote(name));
  return *format;
}

Tensor tensor_from(const ordered_json& j, Role role) {
  const std::string_view of = name(role);
  Tensor t = tensor_of(role, format_of(j), shape_of(j, of));
  read_bits(j, "data", of, t);
  return t;
}

template <class See>
void each_role(const ordered_json& j, std::string_view of, See&& see) {
  if (!j.is_object()) stumble(std::string(of) + ": expected an object");
  for (const auto& [key, value] : j.items()) {
    const std::optional<Role> role = role_named(key);
    if (!role) stumble("there is no tensor " + quote(key));
    see(*role, value);
  }
}

GoldenCase parse(const ordered_json& j) {
  expect_keys(j,
              {"id", "comment", "flags", "severity", "op", "dtype", "profile", "shape", "axis", "groups", "epsilon", "momentum", "inputs",
               "outputs"},
              "a case");
  GoldenCase g;
  g.id = text_of(j, "id");
  g.comment = text_of(j, "comment");
  g.must = one_of_two<bool>(j, "severity", {"must", true}, {"should", false});
  const std::string op_name = text_of(j, "op");
  const std::optional<Op> op = op_named(op_name);
  if (!op) stumble("there is no op " + quote(op_name));
  Case& c = g.c;
  c.spec.op = *op;
  c.format = format_of(j);
  const ordered_json& p = j.at("profile");
  expect_keys(p, {"epsilon_placement", "variance", "running_variance", "momentum", "gain_offset", "cast_before_gain"}, "profile");
  Profile& profile = c.spec.profile;
  const std::pair<std::string_view, Estimator> biased{"biased", Estimator::biased}, unbiased{"unbiased", Estimator::unbiased};
  profile.epsilon_placement =
      one_of_two<EpsilonPlacement>(p, "epsilon_placement", {"inside", EpsilonPlacement::inside}, {"outside", EpsilonPlacement::outside});
  profile.variance = one_of_two(p, "variance", biased, unbiased);
  profile.running_variance = one_of_two(p, "running_variance", biased, unbiased);
  profile.momentum =
      one_of_two<Momentum>(p, "momentum", {"weight_of_new", Momentum::weight_of_new}, {"weight_of_old", Momentum::weight_of_old});
  profile.gain_offset = integer_of(p, "gain_offset") != 0;
  profile.cast_before_gain = p.at("cast_before_gain").get<bool>();
  c.spec.axis = static_cast<int>(integer_of(j, "axis"));
  if (c.spec.op == Op::group_norm) c.spec.groups = integer_of(j, "groups");
  c.spec.epsilon = number_of(j, "epsilon");
  c.spec.momentum = number_of(j, "momentum");
  each_role(j.at("inputs"), "inputs", [&](Role role, const ordered_json& t) {
    expect_keys(t, {"dtype", "shape", "data"}, name(role));
    c.inputs[role] = tensor_from(t, role);
  });
  if (!c.inputs[Role::x]) stumble("there is no x");
  if (c.x().shape != shape_of(j, "a case")) stumble("its shape is not that of x");
  each_role(j.at("outputs"), "outputs", [&](Role role, const ordered_json& t) {
    expect_keys(t, {"dtype", "shape", "data", "lo", "hi"}, name(role));
    g.right[role] = g.low[role] = g.high[role] = tensor_from(t, role);
    read_bits(t, "lo", name(role), *g.low[role]);
    read_bits(t, "hi", name(role), *g.high[role]);
    c.outputs = c.outputs | Roles{role};
  });
  if (!g.right[Role::y]) stumble("there is no y");
  return g;
}

}  // namespace

Result<GoldenCase> parse_golden(std::string_view json) {
  try {
    return parse(ordered_json::parse(json));
  } catch (const Stumble& s) {
    return Status{Code::bad_file, s.what};
  } catch (const nlohmann::json::exception& error) {
    return Status{Code::bad_file, error.what()};
  }
}

bool inside(Format format, Bits got, Bits low, Bits high) {
  const double v = value_of(format, got), least = value_of(format, low), most = value_of(format, high);
  return std::isnan(v) ? std::isnan(least) : least <= v && v <= most;
}

std::optional<Outside> first_outside(const GoldenCase& g, const ByRole<Tensor>& got) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!got[role] || !g.right[role]) continue;
    for (std::int64_t i = 0; i < size_of(*got[role]); ++i) {
      if (!inside(got[role]->format, bits_at(*got[role], i), bits_at(*g.low[role], i), bits_at(*g.high[role], i))) return Outside{role, i};
    }
  }
  return std::nullopt;
}

std::string golden_file(std::string_view name, const std::vector<std::string>& cases) {
  std::set<std::string> used;
  for (const std::string& c : cases) {
    const ordered_json parsed = ordered_json::parse(c);
    for (const ordered_json& flag : parsed.at("flags")) used.insert(flag.get<std::string>());
  }
  ordered_json notes = ordered_json::object();
  for (const Flag& flag : flags()) {
    if (!used.contains(std::string(flag.name))) continue;
    ordered_json reports = ordered_json::array();
    for (std::string_view rest = flag.reports; !rest.empty();) {
      const std::size_t end = std::min(rest.find(", "), rest.size());
      reports.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    notes[std::string(flag.name)] = {{"description", flag.notes}, {"claim", flag.claim}, {"reports", std::move(reports)}};
  }
  // A case a line, for people and their tools to compare.
  std::string text = "{\n\"format\": \"norma golden vectors 1\",\n\"name\": " + ordered_json(name).dump() +
                     ",\n\"number_of_cases\": " + std::to_string(cases.size()) + ",\n\"notes\": " + notes.dump(1) + ",\n\"cases\": [\n";
  for (std::size_t i = 0; i < cases.size(); ++i) text += cases[i] + (i + 1 < cases.size() ? ",\n" : "\n");
  return text + "]\n}\n";
}

}  // namespace norma::properties
