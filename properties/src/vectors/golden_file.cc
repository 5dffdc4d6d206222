#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

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
void expect_keys(const ordered_json& j, std::span<const std::string_view> keys, std::string_view of) {
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
std::int64_t integer_of(const ordered_json& j, std::string_view key, std::int64_t least, std::int64_t most) {
  const ordered_json& value = j.at(std::string(key));
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) && value.get<std::int64_t>() >= least
                        : value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
  if (!fits) stumble(std::string(key) + ": expected a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value.get<std::int64_t>();
}
bool boolean_of(const ordered_json& j, std::string_view key) {
  const ordered_json& value = j.at(std::string(key));
  if (!value.is_boolean()) stumble(std::string(key) + ": expected true or false");
  return value.get<bool>();
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

// Little-endian, two digits a byte: as many as the tensor has.
const std::string& digits_of(const ordered_json& j, std::string_view key, std::string_view of, std::size_t bytes) {
  const ordered_json& value = j.at(std::string(key));
  if (!value.is_string()) stumble(std::string(key) + ": expected a string");
  const std::string& digits = value.get_ref<const std::string&>();
  if (digits.size() != 2 * bytes) {
    stumble(std::string(of) + ": " + std::string(key) + " has " + std::to_string(digits.size()) + " digits: expected " +
            std::to_string(2 * bytes));
  }
  return digits;
}
void read_bits(const ordered_json& j, std::string_view key, std::string_view of, Tensor& to) {
  const std::string& digits = digits_of(j, key, of, to.data.size());
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
  const Format format = format_of(j);
  const Shape shape = shape_of(j, of);
  // Before there is memory for it.
  const auto bytes = static_cast<std::size_t>(product(shape.begin(), shape.end()) * info(format).bytes());
  for (const char* key : {"data", "lo", "hi"}) {
    if (j.contains(key)) (void)digits_of(j, key, of, bytes);
  }
  Tensor t = tensor_of(role, format, shape);
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

// What a case is but for its tensors.
constexpr std::string_view call_keys[] = {"id",      "comment", "flags", "severity", "op",      "dtype",
                                          "profile", "shape",   "axis",  "groups",   "epsilon", "momentum"};

GoldenCase parse_call(const ordered_json& j) {
  GoldenCase g;
  g.id = text_of(j, "id");
  g.comment = text_of(j, "comment");
  const ordered_json& flags = j.at("flags");
  if (!flags.is_array()) stumble("flags: expected an array");
  for (const ordered_json& flag : flags) {
    if (!flag.is_string()) stumble("flags: expected strings");
    g.flags.push_back(flag.get<std::string>());
  }
  g.must = one_of_two<bool>(j, "severity", {"must", true}, {"should", false});
  const std::string op_name = text_of(j, "op");
  const std::optional<Op> op = op_named(op_name);
  if (!op || info(*op).grouping == Grouping::leading_index) stumble("there is no op " + quote(op_name));
  Case& c = g.c;
  c.spec.op = *op;
  c.format = format_of(j);
  const ordered_json& p = j.at("profile");
  expect_keys(
      p,
      std::array<std::string_view, 6>{"epsilon_placement", "variance", "running_variance", "momentum", "gain_offset", "cast_before_gain"},
      "profile");
  Profile& profile = c.spec.profile;
  const std::pair<std::string_view, Estimator> biased{"biased", Estimator::biased}, unbiased{"unbiased", Estimator::unbiased};
  profile.epsilon_placement =
      one_of_two<EpsilonPlacement>(p, "epsilon_placement", {"inside", EpsilonPlacement::inside}, {"outside", EpsilonPlacement::outside});
  profile.variance = one_of_two(p, "variance", biased, unbiased);
  profile.running_variance = one_of_two(p, "running_variance", biased, unbiased);
  profile.momentum =
      one_of_two<Momentum>(p, "momentum", {"weight_of_new", Momentum::weight_of_new}, {"weight_of_old", Momentum::weight_of_old});
  profile.gain_offset = integer_of(p, "gain_offset", 0, 1) != 0;
  profile.cast_before_gain = boolean_of(p, "cast_before_gain");
  c.spec.axis = static_cast<int>(integer_of(j, "axis", -8, 7));
  if (c.spec.op == Op::group_norm) c.spec.groups = integer_of(j, "groups", 1, std::int64_t{1} << 28);
  c.spec.epsilon = number_of(j, "epsilon");
  c.spec.momentum = number_of(j, "momentum");
  return g;
}

// Once the tensors are there: they are those of a call.
void expect_whole(const GoldenCase& g, const Shape& shape) {
  if (!g.c.inputs[Role::x]) stumble("there is no x");
  if (g.c.x().shape != shape) stumble("its shape is not that of x");
  const OpInfo& op = info(g.c.spec.op);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    for (const std::optional<Tensor>* t : {&g.c.inputs[role], &g.right[role]}) {
      if (!*t) continue;
      if (t == &g.c.inputs[role] && !op.inputs.contain(role)) stumble(std::string(op.name) + " has no " + std::string(name(role)));
      const Result<Shape> expected = role == Role::x ? shape : tensor_shape(g.c.spec, shape, role);
      if (!expected.ok()) stumble(expected.status().message);
      if ((*t)->shape != *expected) {
        stumble(std::string(name(role)) + " has shape " + to_text((*t)->shape) + ": expected " + to_text(*expected));
      }
    }
  }
  if (!g.right[Role::y]) stumble("there is no y");
}

GoldenCase parse(const ordered_json& j) {
  std::vector<std::string_view> keys(std::begin(call_keys), std::end(call_keys));
  keys.insert(keys.end(), {"inputs", "outputs"});
  expect_keys(j, keys, "a case");
  GoldenCase g = parse_call(j);
  Case& c = g.c;
  each_role(j.at("inputs"), "inputs", [&](Role role, const ordered_json& t) {
    expect_keys(t, std::array<std::string_view, 3>{"dtype", "shape", "data"}, name(role));
    c.inputs[role] = tensor_from(t, role);
  });
  each_role(j.at("outputs"), "outputs", [&](Role role, const ordered_json& t) {
    expect_keys(t, std::array<std::string_view, 5>{"dtype", "shape", "data", "lo", "hi"}, name(role));
    g.right[role] = g.low[role] = g.high[role] = tensor_from(t, role);
    read_bits(t, "lo", name(role), *g.low[role]);
    read_bits(t, "hi", name(role), *g.high[role]);
    c.outputs = c.outputs | Roles{role};
  });
  expect_whole(g, shape_of(j, "a case"));
  return g;
}

// Of tensors that are called as add_to calls them; those of the case are taken out.
GoldenCase take(const std::string& id, const std::string& call, std::map<std::string, Tensor>& tensors) {
  const ordered_json j = ordered_json::parse(call);
  expect_keys(j, call_keys, "a case");
  GoldenCase g = parse_call(j);
  if (g.id != id) stumble("it is called " + quote(g.id));
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const auto part = [&](std::string_view kind) -> std::optional<Tensor> {
      auto node = tensors.extract(tensor_name(id, kind, role));
      if (node.empty()) return std::nullopt;
      node.mapped().name = name(role);
      return std::move(node.mapped());
    };
    g.c.inputs[role] = part("in");
    g.right[role] = part("out");
    g.low[role] = part("lo");
    g.high[role] = part("hi");
    const auto matches = [&](const std::optional<Tensor>& t) {
      return t.has_value() == g.right[role].has_value() && (!t || (t->format == g.right[role]->format && t->shape == g.right[role]->shape));
    };
    if (!matches(g.low[role]) || !matches(g.high[role])) stumble(std::string(name(role)) + ": lo and hi are not like out");
    if (g.right[role]) g.c.outputs = g.c.outputs | Roles{role};
  }
  expect_whole(g, shape_of(j, "a case"));
  return g;
}

}  // namespace

std::string tensor_name(std::string_view id, std::string_view kind, Role role) {
  return std::string(id) + "." + std::string(kind) + "." + std::string(name(role));
}

Result<std::vector<GoldenCase>> golden_cases(TensorFile file) {
  if (!file.unreadable.empty()) {
    const auto& [name, dtype] = *file.unreadable.begin();
    return Status{Code::bad_file, "tensor " + quote(name) + " has dtype " + dtype};
  }
  std::map<std::string, Tensor> tensors;
  for (Tensor& t : file.tensors) {
    std::string tensor = t.name;
    tensors.emplace(std::move(tensor), std::move(t));
  }
  std::vector<GoldenCase> cases;
  for (const auto& [id, call] : file.metadata) {
    try {
      cases.push_back(take(id, call, tensors));
    } catch (const Stumble& s) {
      return Status{Code::bad_file, "case " + quote(id) + ": " + s.what};
    } catch (const nlohmann::json::parse_error& error) {
      return Status{Code::bad_file, "metadata " + quote(id) + ": byte " + std::to_string(error.byte) + ": expected a case in JSON"};
    }
  }
  if (!tensors.empty()) return Status{Code::bad_file, "tensor " + quote(tensors.begin()->first) + " belongs to no case"};
  return cases;
}

Result<GoldenCase> parse_golden(std::string_view json) {
  try {
    return parse(ordered_json::parse(json));
  } catch (const Stumble& s) {
    return Status{Code::bad_file, s.what};
  } catch (const nlohmann::json::parse_error& error) {
    return Status{Code::bad_file, "byte " + std::to_string(error.byte) + ": expected a case in JSON"};
  }
}

bool inside(Format format, Bits got, Bits low, Bits high) {
  const double v = value_of(format, got), least = value_of(format, low), most = value_of(format, high);
  return std::isnan(v) ? std::isnan(least) : least <= v && v <= most;
}

Comparison compare(const Tensor& got, const Tensor& right, const Tensor& low, const Tensor& high) {
  Comparison c;
  for (std::int64_t i = 0; i < size_of(right); ++i) {
    const Bits bits = bits_at(got, i), exact = bits_at(right, i);
    c.right += inside(right.format, bits, exact, exact);
    if (!c.outside && !inside(right.format, bits, bits_at(low, i), bits_at(high, i))) c.outside = i;
  }
  return c;
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
