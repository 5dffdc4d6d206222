#include "norma/case.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "norma/exact.h"
#include "norma/group.h"
#include "norma/reference.h"
#include "norma/text.h"

namespace norma::properties {

std::int64_t size_of(const Tensor& t) { return static_cast<std::int64_t>(t.data.size()) / info(t.format).bytes(); }

std::int64_t Case::elements() const { return size_of(x()); }

int axis_of(const Spec& spec, std::size_t rank) {
  const int axis = spec.effective_axis();
  return axis < 0 ? axis + static_cast<int>(rank) : axis;
}

std::int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

Bits bits_at(const Tensor& t, std::int64_t i) { return load(t.format, t.data.data() + i * info(t.format).bytes()); }
void set_bits(Tensor& t, std::int64_t i, Bits bits) { store(t.format, bits, t.data.data() + i * info(t.format).bytes()); }

double value_of(Format format, Bits bits) {
  if (format == Format::f64) return std::bit_cast<double>(bits);
  if (format == Format::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (format == Format::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
  const Decoded v = decode(format, bits);
  const double sign = v.negative ? -1.0 : 1.0;
  if (v.kind == Kind::nan) return std::numeric_limits<double>::quiet_NaN();
  if (v.kind == Kind::infinite) return sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(static_cast<double>(v.significand), v.exponent);
}

double value_at(const Tensor& t, std::int64_t i) { return value_of(t.format, bits_at(t, i)); }

Bits nearest_bits(Format format, double value) {
  if (std::isnan(value)) return info(format).quiet_nan();
  if (format == Format::f64) return std::bit_cast<Bits>(value);
  if (format == Format::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const Bits sign = std::signbit(value) ? info(format).sign_bit() : 0;
  if (std::isinf(value)) return info(format).overflow() | sign;
  if (value == 0) return sign;
  const Decoded d = decode(Format::f64, std::bit_cast<Bits>(value));
  const int shift = std::countl_zero(d.significand);
  return round(Digits{d.negative, d.significand << shift, d.exponent - shift, false}, format).bits;
}

Tensor tensor_of(Role role, Format format, Shape shape) {
  const std::int64_t count = product(shape.begin(), shape.end());
  return {std::string(name(role)), format, std::move(shape),
          std::vector<std::byte>(static_cast<std::size_t>(count) * static_cast<std::size_t>(info(format).bytes()))};
}

Membership membership(const Case& c) {
  const Shape& shape = c.x().shape;
  const OpInfo& op = info(c.spec.op);
  const auto rank = static_cast<int>(shape.size());
  const int axis = axis_of(c.spec, shape.size());
  std::int64_t inner = 1;
  for (int a = op.grouping == Grouping::trailing ? axis : axis + 1; a < rank; ++a) inner *= shape[static_cast<std::size_t>(a)];
  const std::int64_t channels = op.grouping == Grouping::trailing ? 1 : shape[static_cast<std::size_t>(axis)];
  const std::int64_t groups = c.spec.op == Op::group_norm      ? c.spec.groups.value_or(1)
                              : c.spec.op == Op::instance_norm ? channels
                                                               : std::int64_t{1};
  const std::int64_t n = c.elements();
  Membership m;
  m.group.resize(static_cast<std::size_t>(n));
  m.parameter.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (op.grouping == Grouping::trailing) {
      m.group[at] = i / inner;
      m.parameter[at] = i % inner;
    } else {
      const std::int64_t channel = i / inner % channels;
      const std::int64_t of_case = i / inner / channels;
      m.parameter[at] = channel;
      m.group[at] = op.grouping == Grouping::channel ? channel : of_case * groups + channel / (channels / groups);
    }
    m.groups = std::max(m.groups, m.group[at] + 1);
  }
  return m;
}

namespace {

std::string hex(Format format, Bits bits) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (int shift = info(format).width - 4; shift >= 0; shift -= 4) text += digits[bits >> shift & 15];
  return text;
}

std::string tensor_text(const Tensor& t) {
  std::string text = std::string(info(t.format).name) + "[";
  for (std::size_t a = 0; a < t.shape.size(); ++a) text += (a != 0 ? "," : "") + std::to_string(t.shape[a]);
  text += "]:";
  const std::int64_t n = size_of(t);
  for (std::int64_t i = 0; i < n;) {
    std::int64_t run = 1;
    while (i + run < n && bits_at(t, i + run) == bits_at(t, i)) ++run;
    if (i != 0) text += ',';
    text += hex(t.format, bits_at(t, i));
    if (run > 1) text += '*' + std::to_string(run);
    i += run;
  }
  return text;
}

// The switches of a profile and a placement that are not as usual.
struct Switch {
  std::string_view name;
  bool (*get)(const Case&);
  void (*set)(Case&);
};
constexpr Switch switches[] = {
    {"epsilon_outside", [](const Case& c) { return c.spec.profile.epsilon_placement == EpsilonPlacement::outside; },
     [](Case& c) { c.spec.profile.epsilon_placement = EpsilonPlacement::outside; }},
    {"unbiased", [](const Case& c) { return c.spec.profile.variance == Estimator::unbiased; },
     [](Case& c) { c.spec.profile.variance = Estimator::unbiased; }},
    {"running_biased", [](const Case& c) { return c.spec.profile.running_variance == Estimator::biased; },
     [](Case& c) { c.spec.profile.running_variance = Estimator::biased; }},
    {"momentum_of_old", [](const Case& c) { return c.spec.profile.momentum == Momentum::weight_of_old; },
     [](Case& c) { c.spec.profile.momentum = Momentum::weight_of_old; }},
    {"gain_offset", [](const Case& c) { return c.spec.profile.gain_offset; }, [](Case& c) { c.spec.profile.gain_offset = true; }},
    {"cast_before_gain", [](const Case& c) { return c.spec.profile.cast_before_gain; },
     [](Case& c) { c.spec.profile.cast_before_gain = true; }},
    {"channels_last", [](const Case& c) { return c.placement.channels_last; }, [](Case& c) { c.placement.channels_last = true; }},
    {"in_place", [](const Case& c) { return c.placement.in_place; }, [](Case& c) { c.placement.in_place = true; }},
};

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  while (true) {
    const std::size_t end = text.find(by);
    const std::string_view part = text.substr(0, end);
    if (!part.empty() || by != ' ') parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Status bad(const std::string& what) { return {Code::bad_parameter, "case: " + what}; }

Result<Tensor> parse_tensor(Role role, std::string_view text, std::int64_t most) {
  const std::size_t open = text.find('['), close = text.find("]:");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return bad("expected FORMAT[extents]:bits for " + std::string(name(role)) + ", not " + quote(text));
  }
  const std::optional<Format> format = format_named(text.substr(0, open));
  if (!format) return bad("no format " + quote(text.substr(0, open)) + " for " + std::string(name(role)));
  Shape shape;
  std::int64_t count = 1;
  for (const std::string_view extent : split(text.substr(open + 1, close - open - 1), ',')) {
    const std::optional<std::int64_t> value = integer(extent);
    if (!value || *value < 0 || *value > most || (*value != 0 && count > most / *value)) {
      return bad("no extent " + quote(extent) + " for " + std::string(name(role)));
    }
    shape.push_back(*value);
    count *= *value;
  }
  Tensor t = tensor_of(role, *format, std::move(shape));
  std::int64_t at = 0;
  for (const std::string_view item : split(text.substr(close + 2), ',')) {
    const std::size_t star = item.find('*');
    const std::string_view digits = item.substr(0, star);
    const std::optional<std::int64_t> run = star == std::string_view::npos ? 1 : integer(item.substr(star + 1));
    Bits bits = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    if (error != std::errc() || end != digits.data() + digits.size() ||
        digits.size() != static_cast<std::size_t>(info(*format).width / 4)) {
      return bad(std::to_string(info(*format).width / 4) + " hexadecimal digits expected in " + std::string(name(role)) + ", not " +
                 quote(digits));
    }
    if (!run || *run < 1 || *run > count - at) return bad(std::string(name(role)) + " has more elements than its shape");
    for (std::int64_t k = 0; k < *run; ++k) set_bits(t, at++, bits);
  }
  if (at != count) {
    return bad(std::string(name(role)) + " has " + std::to_string(at) + " elements, its shape " + std::to_string(count));
  }
  return t;
}

}  // namespace

std::string to_line(const Case& c) {
  std::string line = std::string(info(c.spec.op).name) + " " + std::string(info(c.format).name);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (c.inputs[role]) line += " " + std::string(name(role)) + "=" + tensor_text(*c.inputs[role]);
  }
  if (c.spec.epsilon) line += " epsilon=" + to_hex(*c.spec.epsilon);
  if (c.spec.axis) line += " axis=" + std::to_string(*c.spec.axis);
  if (c.spec.groups) line += " groups=" + std::to_string(*c.spec.groups);
  if (c.spec.momentum != Spec().momentum) line += " momentum=" + to_hex(c.spec.momentum);
  for (const Switch& s : switches) {
    if (s.get(c)) line += " " + std::string(s.name);
  }
  std::string want;
  for (std::size_t r = 0; r < role_count; ++r) {
    if (c.outputs.contain(static_cast<Role>(r))) want += (want.empty() ? "" : ",") + std::string(role_names[r]);
  }
  if (want != "y") line += " want=" + want;
  if (c.placement.row_gap != 0) line += " gap=" + std::to_string(c.placement.row_gap);
  if (c.placement.offset != 0) line += " offset=" + std::to_string(c.placement.offset);
  if (c.placement.threads != 0) line += " threads=" + std::to_string(c.placement.threads);
  if (c.salt != 0) line += " salt=" + std::to_string(c.salt);
  return line;
}

std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Result<Case> parse_case(std::string_view line, std::int64_t most) {
  Case c;
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() < 2) return bad("expected OP FORMAT x=… , not " + quote(line));
  const std::optional<Op> op = op_named(words[0]);
  if (!op) return bad("no op " + quote(words[0]));
  c.spec.op = *op;
  const std::optional<Format> format = format_named(words[1]);
  if (!format) return bad("no format " + quote(words[1]));
  c.format = *format;
  std::set<std::string_view> said;
  for (const std::string_view word : std::span(words).subspan(2)) {
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    if (!said.insert(key).second) return bad(quote(key) + " is there twice");
    if (equals == std::string_view::npos) {
      const auto* s = std::find_if(std::begin(switches), std::end(switches), [&](const Switch& sw) { return sw.name == word; });
      if (s == std::end(switches)) return bad("no switch " + quote(word));
      s->set(c);
      continue;
    }
    const std::string_view value = word.substr(equals + 1);
    const auto number = [&](std::int64_t low, std::int64_t high) -> std::optional<std::int64_t> {
      const std::optional<std::int64_t> v = integer(value);
      return v && *v >= low && *v <= high ? v : std::nullopt;
    };
    const auto real = [&]() -> std::optional<double> {
      const Result<Bits> bits = parse_number(value, Format::f64);
      return bits.ok() ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
    };
    bool good = true;
    if (key == "epsilon") {
      good = (c.spec.epsilon = real()).has_value();
    } else if (key == "momentum") {
      const std::optional<double> v = real();
      good = v.has_value();
      if (good) c.spec.momentum = *v;
    } else if (key == "axis") {
      const auto v = number(-64, 64);
      good = v.has_value();
      if (good) c.spec.axis = static_cast<int>(*v);
    } else if (key == "groups") {
      good = (c.spec.groups = number(1, std::numeric_limits<std::int64_t>::max())).has_value();
    } else if (key == "gap" || key == "offset") {
      const auto v = number(0, 1 << 20);
      good = v.has_value();
      if (good) (key == "gap" ? c.placement.row_gap : c.placement.offset) = *v;
    } else if (key == "threads") {
      const auto v = number(1, 256);
      good = v.has_value();
      if (good) c.placement.threads = static_cast<int>(*v);
    } else if (key == "salt") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), c.salt);
      good = error == std::errc() && end == value.data() + value.size();
    } else if (key == "want") {
      c.outputs = {};
      good = !value.empty();
      for (const std::string_view wanted : split(value, ',')) {
        const std::optional<Role> role = role_named(wanted);
        good = good && role.has_value();
        if (!role) continue;
        good = good && !c.outputs.contain(*role);
        c.outputs = c.outputs | Roles{*role};
      }
    } else if (const std::optional<Role> role = role_named(key); role && info(*op).inputs.contain(*role)) {
      Result<Tensor> t = parse_tensor(*role, value, most);
      if (!t.ok()) return t.status();
      c.inputs[*role] = std::move(*t);
    } else {
      return bad(std::string(info(*op).name) + " takes no " + quote(key));
    }
    if (!good) return bad("no " + std::string(key) + " " + quote(value));
  }
  if (!c.inputs[Role::x]) return bad("no x");
  return c;
}

std::string to_cpp(const Case& c) {
  std::string text = "// " + to_line(c).substr(0, 100) + "\n";
  const auto integers = [](const Shape& shape) {
    std::string list = "{";
    for (std::size_t a = 0; a < shape.size(); ++a) list += (a != 0 ? ", " : "") + std::to_string(shape[a]);
    return list + "}";
  };
  std::string views;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!c.inputs[role]) continue;
    const Tensor& t = *c.inputs[role];
    const std::string id(name(role));
    text += "const std::vector<std::uint" + std::to_string(info(t.format).width) + "_t> " + id + "{";
    for (std::int64_t i = 0; i < size_of(t); ++i) text += (i != 0 ? ", 0x" : "0x") + hex(t.format, bits_at(t, i));
    text += "};\n";
    views += "inputs[norma::Role::" + id + "] = norma::ConstView{norma::Format::" + std::string(info(t.format).name) +
             ", reinterpret_cast<const std::byte*>(" + id + ".data()), " + integers(t.shape) + ", {}};\n";
  }
  text += "norma::Spec spec;\nspec.op = norma::Op::" + std::string(info(c.spec.op).name) + ";\n";
  text += "spec.epsilon = " + to_hex(c.spec.effective_epsilon()) + ";\n";
  if (c.spec.axis) text += "spec.axis = " + std::to_string(*c.spec.axis) + ";\n";
  if (c.spec.groups) text += "spec.groups = " + std::to_string(*c.spec.groups) + ";\n";
  for (const auto& [name, field] : {std::pair{"epsilon_outside", "epsilon_placement = norma::EpsilonPlacement::outside"},
                                    {"unbiased", "variance = norma::Estimator::unbiased"},
                                    {"running_biased", "running_variance = norma::Estimator::biased"},
                                    {"momentum_of_old", "momentum = norma::Momentum::weight_of_old"},
                                    {"gain_offset", "gain_offset = true"},
                                    {"cast_before_gain", "cast_before_gain = true"}}) {
    const auto* s =
        std::find_if(std::begin(switches), std::end(switches), [&, n = std::string_view(name)](const Switch& sw) { return sw.name == n; });
    if (s->get(c)) text += "spec.profile." + std::string(field) + ";\n";
  }
  return text + "norma::ByRole<norma::ConstView> inputs;\n" + views;
}

}  // namespace norma::properties
