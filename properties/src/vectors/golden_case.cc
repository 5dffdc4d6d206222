#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "norma/case.h"
#include "norma/reference.h"
#include "norma/text.h"
#include "norma/truth.h"
#include "norma/vectors.h"

namespace norma::properties {
namespace {

using nlohmann::ordered_json;

std::string little_endian(const Tensor& t) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : t.data) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

ordered_json described(const Tensor& t) { return {{"dtype", info(t.format).name}, {"shape", t.shape}, {"data", little_endian(t)}}; }

// The least and the largest number of a format within the bound. Doubles are off by less than the room made for them, outwards; what is
// rounded inwards is a number of the format, so that nothing that is within the bound is lost.
std::pair<Bits, Bits> interval(const Element& e, Format format) {
  if (!std::isfinite(e.exact)) return {e.rounded, e.rounded};
  const Bits infinite = info(format).infinity();
  const double room = e.range ? std::numeric_limits<double>::infinity() : e.bound * bound_slack + 0x1p-51 * std::fabs(e.exact);
  const auto bits = [&](double value, Mode mode) {
    if (std::fabs(value) >= least_infinite(format) && (mode == Mode::down) == (value > 0)) value *= std::numeric_limits<double>::infinity();
    if (std::isinf(value)) return value > 0 ? infinite : infinite | info(format).sign_bit();
    Bits b = nearest_bits(format, value);
    if (mode == Mode::up && value_of(format, b) < value) b = next_up(format, b);
    if (mode == Mode::down && value_of(format, b) > value) b = next_down(format, b);
    return b;
  };
  return {bits(e.exact - room, Mode::up), bits(e.exact + room, Mode::down)};
}

std::vector<std::string> flags_of(const Case& c, const Truth& truth) {
  const Tie tie = closest_tie(c);
  std::vector<std::string> names;
  for (const Flag& flag : flags()) {
    if (flag.raised(c, truth, tie)) names.emplace_back(flag.name);
  }
  return names;
}

// All but the tensors.
ordered_json call_of(const GoldenCase& g) {
  const Case& c = g.c;
  const Profile& p = c.spec.profile;
  const auto estimator = [](Estimator e) { return e == Estimator::biased ? "biased" : "unbiased"; };
  return {{"id", g.id},
          {"comment", g.comment},
          {"flags", g.flags},
          {"severity", g.must ? "must" : "should"},
          {"op", info(c.spec.op).name},
          {"dtype", info(c.format).name},
          {"profile",
           {{"epsilon_placement", p.epsilon_placement == EpsilonPlacement::inside ? "inside" : "outside"},
            {"variance", estimator(p.variance)},
            {"running_variance", estimator(p.running_variance)},
            {"momentum", p.momentum == Momentum::weight_of_new ? "weight_of_new" : "weight_of_old"},
            {"gain_offset", p.gain_offset ? 1 : 0},
            {"cast_before_gain", p.cast_before_gain}}},
          {"shape", c.x().shape},
          {"axis", c.spec.effective_axis()},
          {"groups", c.spec.groups.value_or(1)},
          {"epsilon", to_hex(c.spec.effective_epsilon())},
          {"momentum", to_hex(c.spec.momentum)}};
}

std::string line_of(const ordered_json& j) { return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

}  // namespace

Result<GoldenCase> golden_case(const Case& c, std::string_view comment) {
  Case asked = c;
  // Statistics of f64 are f64: truth_of takes their format from tensors.
  ByRole<Tensor> formats;
  for (const Role role : {Role::y, Role::mean, Role::rstd}) {
    const bool of_nothing = role != Role::y && c.elements() == 0;  // statistics that nobody has
    if (!info(c.spec.op).outputs.contain(role) || of_nothing) continue;
    asked.outputs = asked.outputs | Roles{role};
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
    if (!shape.ok()) return shape.status();
    formats[role] = tensor_of(role, role == Role::y ? c.format : c.x().format == Format::f64 ? Format::f64 : Format::f32, *shape);
  }
  const Result<Truth> truth = truth_of(asked, {}, &formats);
  if (!truth.ok()) return truth.status();

  GoldenCase g{.id = id_of(c), .comment = std::string(comment), .flags = flags_of(c, *truth), .c = asked};
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!asked.outputs.contain(role) || !truth->outputs[role]) continue;
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
    if (!shape.ok()) return shape.status();
    const Format format = formats[role] ? formats[role]->format : c.inputs[role] ? c.inputs[role]->format : c.format;
    Tensor right = tensor_of(role, format, *shape), low = right, high = right;
    const Elements& elements = *truth->outputs[role];
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const auto [least, most] = interval(elements[i], format);
      set_bits(right, at, elements[i].rounded);
      set_bits(low, at, least);
      set_bits(high, at, most);
      if (elements[i].range) g.must = false;
    }
    g.right[role] = std::move(right);
    g.low[role] = std::move(low);
    g.high[role] = std::move(high);
  }
  return g;
}

std::string to_json(const GoldenCase& g) {
  ordered_json j = call_of(g);
  j["inputs"] = ordered_json::object();
  j["outputs"] = ordered_json::object();
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (g.c.inputs[role]) j["inputs"][std::string(name(role))] = described(*g.c.inputs[role]);
    if (!g.right[role]) continue;
    ordered_json& output = j["outputs"][std::string(name(role))] = described(*g.right[role]);
    output["lo"] = little_endian(*g.low[role]);
    output["hi"] = little_endian(*g.high[role]);
  }
  return line_of(j);
}

Result<std::string> to_golden(const Case& c, std::string_view comment) {
  const Result<GoldenCase> g = golden_case(c, comment);
  if (!g.ok()) return g.status();
  return to_json(*g);
}

void add_to(TensorFile& file, const GoldenCase& g) {
  file.metadata.emplace(g.id, line_of(call_of(g)));
  const auto add = [&](std::string_view kind, Role role, const std::optional<Tensor>& tensor) {
    if (!tensor) return;
    file.tensors.push_back(*tensor);
    file.tensors.back().name = tensor_name(g.id, kind, role);
  };
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    add("in", role, g.c.inputs[role]);
    add("out", role, g.right[role]);
    add("lo", role, g.low[role]);
    add("hi", role, g.high[role]);
  }
}

}  // namespace norma::properties
