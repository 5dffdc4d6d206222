#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "norma/reference.h"
#include "norma/text.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::vector<std::string> numbers;
  std::map<std::string, std::string> parameters;  // by role name
  std::optional<std::string> shape;
  std::string format = "f32";
  Words words;
  bool json = false;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (std::string& part : parts) part = trimmed(part);
  return parts;
}

// Numbers as text, rounded to a format; `rounded` collects those that were not representable.
Result<Tensor> to_tensor(std::string name, const std::vector<std::string>& words, Format format, Shape shape, ordered_json& rounded) {
  Tensor tensor{std::move(name), format, std::move(shape), {}};
  tensor.data.resize(words.size() * static_cast<std::size_t>(info(format).bytes()));
  for (std::size_t i = 0; i < words.size(); ++i) {
    bool exact = true;
    Result<Bits> bits = parse_number(words[i], format, &exact);
    if (!bits.ok()) return Status{bits.status().code, fmt::format("{}: {}", tensor.name, bits.status().message)};
    store(format, *bits, tensor.data.data() + i * static_cast<std::size_t>(info(format).bytes()));
    ordered_json note{{"given", words[i]}, {"used", to_decimal(Real(Dyadic(decode(format, *bits))))}};
    if (!exact && std::find(rounded.begin(), rounded.end(), note) == rounded.end()) rounded.push_back(std::move(note));
  }
  return tensor;
}

// The numbers of the command line as x: rows are set apart by "/", and a shape may be given.
Result<Tensor> parse_x(const Options& options, const Spec& spec, Format format, ordered_json& rounded) {
  std::vector<std::string> words;
  std::vector<std::int64_t> rows{0};
  for (const std::string& word : options.numbers) {
    if (word == "/") {
      rows.push_back(0);
    } else {
      words.push_back(trimmed(word));
      ++rows.back();
    }
  }
  if (words.empty()) return Status{Code::bad_shape, "x: expected at least one number"};
  const auto count = static_cast<std::int64_t>(words.size());
  Shape shape{static_cast<std::int64_t>(rows.size()), rows.front()};
  if (rows.size() > 1) {
    const auto odd = std::find_if(rows.begin(), rows.end(), [&](std::int64_t length) { return length != rows.front(); });
    if (odd != rows.end()) {
      return Status{Code::bad_shape,
                    fmt::format("row {} has {} numbers: expected {}, as in row 1", odd - rows.begin() + 1, *odd, rows.front())};
    }
  } else {
    // Without rows: one group of all the numbers.
    switch (info(spec.op).grouping) {
      case Grouping::trailing:
        shape = {count};
        break;
      case Grouping::channel:
        shape = {count, 1};
        break;
      case Grouping::leading_index:
        shape = {1, count};
        break;
      case Grouping::channel_groups:
        shape = spec.op == Op::instance_norm ? Shape{1, 1, count} : Shape{1, count};
        break;
    }
  }
  if (options.shape) {
    shape.clear();
    std::int64_t product = 1;
    for (const std::string& extent : split(*options.shape)) {
      if (extent.empty() || extent.size() > 9 || extent.find_first_not_of("0123456789") != std::string::npos) {
        return Status{Code::bad_shape, fmt::format("--shape {}: expected whole numbers like 2,3,4", *options.shape)};
      }
      shape.push_back(std::stoll(extent));
      product = shape.back() > count ? count + 1 : product * shape.back();
    }
    if (product != count) return Status{Code::bad_shape, fmt::format("--shape {} does not hold {} numbers", *options.shape, count)};
  }
  return to_tensor("x", words, format, shape, rounded);
}

// A value as people and programs want to see it.
struct Shown {
  std::string exact;    // a fraction or a root
  std::string decimal;  // 20 digits
};

Shown show(const Real& y) { return {to_exact(y), to_decimal(y)}; }

ordered_json to_json(const Shown& s) { return {{"exact", s.exact}, {"decimal", s.decimal}}; }

struct Element {
  std::int64_t index = 0;
  Shown deviation, squared, squeezed, xhat, y;
  Rounded rounded;
  double error = 0;
};

struct Group {
  Shown mean, variance, guarded, root, rstd;
  std::vector<Element> elements;
};

// √(variance + ε) and what stands under it, from the exact variance.
void guard(const Real& variance, const Spec& spec, Group& g) {
  const Dyadic epsilon(decode(Format::f64, std::bit_cast<Bits>(spec.effective_epsilon())));
  const bool inside = spec.profile.epsilon_placement == EpsilonPlacement::inside;
  Real under = variance;
  if (inside) under.p = add(under.p, epsilon);
  g.guarded = show(under);
  const std::optional<Fraction> f = to_fraction(under);
  if (!f || f->numerator < 0) {
    g.root = f ? Shown{"nan", "nan"} : g.guarded;
    return;
  }
  if (f->numerator.is_zero()) {
    g.root = show(Real(inside ? Dyadic(0) : epsilon));
    return;
  }
  const Surd root = Surd::reciprocal_root(Dyadic(f->denominator), f->numerator, 1);  // √(numerator/denominator)
  g.root = show(affine(nullptr, Dyadic(1), root, inside ? nullptr : &epsilon));
}

Shown square(const Real& y) {
  const std::optional<Fraction> f = to_fraction(y);
  if (!f) return show(Real(y.p * y.p));
  const Surd reciprocal = Surd::ratio(1, f->denominator * f->denominator);
  return show(affine(nullptr, Dyadic(f->numerator * f->numerator), reciprocal, nullptr));
}

// The layout of a role that numbers its groups, or its elements, from 0.
ByRole<View> layouts(const Spec& spec, const Tensor& x, Format y_format, std::initializer_list<Role> roles) {
  ByRole<View> wanted;
  for (const Role role : roles) {
    if (!info(spec.op).outputs.contain(role)) continue;
    if (Result<Shape> shape = tensor_shape(spec, x.shape, role); shape.ok()) wanted[role] = View{y_format, nullptr, *shape, {}};
  }
  return wanted;
}

Result<std::vector<Group>> explain(const Call& call, const ByRole<ConstView>& inputs, const Tensor& x, Format format) {
  std::vector<Group> groups;
  const Spec& spec = call.spec;
  // Of batch_norm_inference the statistics are inputs; evaluating the op that computes nothing but them would be another op.
  if (info(spec.op).given_statistics) {
    const auto count = inputs[Role::mean]->shape.empty() ? 1 : inputs[Role::mean]->shape.front();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = [&](Role role) {
        const ConstView& view = *inputs[role];
        return Real(Dyadic(decode(view.format, load(view.format, view.data + i * info(view.format).bytes()))));
      };
      Group& g = groups.emplace_back();
      g.mean = show(value(Role::mean));
      g.variance = show(value(Role::variance));
      guard(value(Role::variance), spec, g);
    }
  }
  const auto at = [&](std::int64_t i) -> Group& {
    if (groups.size() <= static_cast<std::size_t>(i)) groups.resize(static_cast<std::size_t>(i) + 1);
    return groups[static_cast<std::size_t>(i)];
  };
  // Values of a group are visited together, its statistics first, then element by element, y last.
  std::int64_t current = 0;
  Element element;
  ByRole<View> wanted = layouts(spec, x, format, {Role::rstd, Role::mean, Role::variance, Role::deviation, Role::xhat, Role::y});
  Status status = evaluate(spec, inputs, wanted, call.mode, [&](Role role, std::int64_t offset, const Real& value) {
    switch (role) {
      case Role::mean:
        at(offset).mean = show(value);
        break;
      case Role::variance:
        at(offset).variance = show(value);
        guard(value, spec, at(offset));
        break;
      case Role::rstd:
        current = offset;
        at(offset).rstd = show(value);
        break;
      case Role::deviation:
        element = {offset, show(value), square(value), {}, {}, {}, {}, 0};
        break;
      case Role::xhat:
        element.xhat = show(value);
        break;
      case Role::y:
        element.y = show(value);
        element.rounded = round(value, format, call.mode);
        element.error = ulp_error(value, format, element.rounded.bits);
        at(current).elements.push_back(element);
        break;
      default:
        break;
    }
  });
  if (!status.ok()) return status;

  Spec bare = spec;
  bare.epsilon = 0;
  bare.profile.cast_before_gain = false;
  std::size_t next = 0;
  ByRole<View> squeezed = layouts(bare, x, format, {Role::rstd, Role::xhat});
  status = evaluate(bare, inputs, squeezed, call.mode, [&](Role role, std::int64_t offset, const Real& value) {
    if (role == Role::rstd) {
      current = offset;
      next = 0;
    } else {
      at(current).elements[next++].squeezed = show(value);
    }
  });
  if (!status.ok()) return status;
  return groups;
}

std::string with_decimal(const Shown& s) { return s.exact == s.decimal ? s.exact : fmt::format("{} = {}", s.exact, s.decimal); }

// Long fractions are in the JSON; on a terminal the decimal says more.
std::string brief(const Shown& s) {
  return s.exact.size() <= 64 ? with_decimal(s) : fmt::format("{}  (the exact form is in --json)", s.decimal);
}

std::string input_text(const ByRole<ConstView>& inputs, Role role, std::int64_t i) {
  const ConstView& view = *inputs[role];
  return to_shortest(view.format, load(view.format, view.data + i * info(view.format).bytes()));
}

void print_group(const Group& g, const Call& call, const ByRole<ConstView>& inputs, Format format) {
  const OpInfo& op = info(call.spec.op);
  const bool squares = !op.given_statistics;
  const std::string d = op.centred ? "x - mean" : "x";
  fmt::print("\nCentre: {}\n", op.centred ? "subtract the mean, the one number whose deviations sum to 0" : "no mean is subtracted");
  if (op.centred) fmt::print("  mean = {}\n", brief(g.mean));
  std::vector<std::vector<std::string>> rows{{"x", d}};
  for (const Element& e : g.elements) rows.push_back({input_text(inputs, Role::x, e.index), e.deviation.exact});
  if (op.centred) print_table(rows, 2);

  const std::string_view spread = op.grouping == Grouping::leading_index ? "sum of squares" : op.centred ? "variance" : "mean square";
  fmt::print("\nSqueeze: divide by the root of the {}\n", spread);
  fmt::print("  {} = {}\n", spread, brief(g.variance));
  rows = {squares ? std::vector<std::string>{d, "squared", "squeezed"} : std::vector<std::string>{d, "squeezed"}};
  for (const Element& e : g.elements) {
    rows.push_back({e.deviation.exact});
    if (squares) rows.back().push_back(e.squared.exact);
    rows.back().push_back(brief(e.squeezed));
  }
  print_table(rows, 2);

  const bool inside = call.spec.profile.epsilon_placement == EpsilonPlacement::inside;
  fmt::print("\nGuard: epsilon {} the root keeps a flat group from dividing 0 by 0\n", inside ? "under" : "beside");
  fmt::print("  epsilon = {}\n", describe_epsilon(call.spec.effective_epsilon()));
  if (inside) fmt::print("  {} + epsilon = {}\n", spread, brief(g.guarded));
  fmt::print("  {} = {}\n", inside ? "its root" : fmt::format("root of the {} + epsilon", spread), brief(g.root));
  rows = {{d, "xhat"}};
  for (const Element& e : g.elements) rows.push_back({e.deviation.exact, brief(e.xhat)});
  print_table(rows, 2);

  fmt::print("\nRestyle: y = {}xhat{}, then one rounding to {}\n",
             !inputs[Role::gamma]            ? ""
             : call.spec.profile.gain_offset ? "(1 + gamma) * "
                                             : "gamma * ",
             inputs[Role::beta] ? " + beta" : "", info(format).name);
  rows = {{"y, the real number", "rounded", "bits", "error in ulp"}};
  for (const Element& e : g.elements) {
    rows.push_back({e.y.decimal, to_shortest(format, e.rounded.bits), to_hex(format, e.rounded.bits), fmt::format("{:.6g}", e.error)});
  }
  print_table(rows, 2);
}

ordered_json to_json(const Group& g, Format format) {
  ordered_json j{{"mean", to_json(g.mean)},
                 {"variance", to_json(g.variance)},
                 {"guarded", to_json(g.guarded)},
                 {"root", to_json(g.root)},
                 {"rstd", to_json(g.rstd)}};
  if (g.mean.exact.empty()) j.erase("mean");
  for (const Element& e : g.elements) {
    j["elements"].push_back({{"index", e.index},
                             {"deviation", to_json(e.deviation)},
                             {"squared", to_json(e.squared)},
                             {"squeezed", to_json(e.squeezed)},
                             {"xhat", to_json(e.xhat)},
                             {"y", to_json(e.y)},
                             {"rounded", to_shortest(format, e.rounded.bits)},
                             {"bits", to_hex(format, e.rounded.bits)},
                             {"ulp_error", e.error},
                             {"inexact", e.rounded.inexact}});
  }
  return j;
}

int explain(const Options& options) {
  Words words = options.words;
  words.try_emplace("op", "layer_norm");
  Result<Call> applied = apply({}, words);
  if (!applied.ok()) return fail(applied.status());
  Call call = *applied;
  if (call.batch_norm && options.parameters.contains("mean") && options.parameters.contains("variance"))
    call.spec.op = Op::batch_norm_inference;
  const OpInfo& op = info(call.spec.op);
  const std::optional<Format> x_format = format_named(options.format);
  if (!x_format) return fail({Code::bad_parameter, fmt::format("--format {}: norma list formats names them", options.format)});
  const Format format = call.dtype.value_or(*x_format);

  ordered_json rounded = ordered_json::array();
  Result<Tensor> x = parse_x(options, call.spec, *x_format, rounded);
  if (!x.ok()) return fail(x.status());
  std::map<Role, Tensor> tensors{{Role::x, std::move(*x)}};
  const Shape& shape = tensors.at(Role::x).shape;
  for (const auto& [name, list] : options.parameters) {
    const Role role = *role_named(name);
    if (!op.inputs.contain(role)) return fail({Code::bad_tensor, fmt::format("--{}: {} takes no input of that name", name, op.name)});
    Result<Shape> expected = tensor_shape(call.spec, shape, role);
    if (!expected.ok()) return fail(expected.status());
    const auto count = static_cast<std::size_t>(std::accumulate(expected->begin(), expected->end(), std::int64_t{1}, std::multiplies<>()));
    std::vector<std::string> values = split(list);
    if (values.size() == 1) values.resize(count, values[0]);  // one value stands for all
    if (values.size() != count)
      return fail({Code::bad_shape, fmt::format("--{}: {} values: expected 1 or {}", name, values.size(), count)});
    Result<Tensor> tensor = to_tensor(name, values, *x_format, *expected, rounded);
    if (!tensor.ok()) return fail(tensor.status());
    tensors.emplace(role, std::move(*tensor));
  }
  ByRole<ConstView> inputs;
  for (const auto& [role, tensor] : tensors) inputs[role] = tensor.view();
  Result<std::vector<Group>> groups = explain(call, inputs, tensors.at(Role::x), format);
  if (!groups.ok()) return fail(groups.status());

  if (options.json) {
    ordered_json j{{"op", op.name},
                   {"epsilon", fmt::format("{:a}", call.spec.effective_epsilon())},
                   {"dtype", info(format).name},
                   {"shape", shape},
                   {"rounded_inputs", rounded},
                   {"groups", ordered_json::array()}};
    for (const Group& g : *groups) j["groups"].push_back(to_json(g, format));
    fmt::print("{}\n", j.dump(2));
    return holds;
  }
  fmt::print("{} of {} {}\n", op.name, info(*x_format).name, to_text(shape));
  for (const auto& r : rounded)
    fmt::print("  {} is not a number of {}: used {}\n", r["given"].get<std::string>(), info(*x_format).name, r["used"].get<std::string>());
  for (std::size_t i = 0; i < groups->size(); ++i) {
    if (groups->size() > 1) fmt::print("\n{} {} of {}\n", op.grouping == Grouping::channel ? "column" : "group", i + 1, groups->size());
    print_group((*groups)[i], call, inputs, format);
  }
  return holds;
}

}  // namespace

void add_explain(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("explain", "Centre, Squeeze, Guard, Restyle: a normalization step by step, with exact numbers");
  command->footer(
      "Numbers may be decimals, hexadecimal floats or fractions (1/3). \"/\" starts a new row: norma explain --op batch_norm 1 10 / 5 20 / "
      "9 90\n"
      "explains a table of three cases, each neuron's column by itself. Lists are separated by commas; one value stands for all.");
  const auto options = std::make_shared<Options>();
  command->add_option("NUMBER", options->numbers, "the elements of x")->required();
  for (const Role role : {Role::gamma, Role::beta, Role::residual, Role::mean, Role::variance}) {
    const std::string word(name(role));
    command
        ->add_option_function<std::string>(
            "--" + word, [options, word](const std::string& list) { options->parameters[word] = list; },
            role == Role::gamma      ? "gain"
            : role == Role::beta     ? "bias"
            : role == Role::residual ? "added to x first"
                                     : "given statistics (batch_norm)")
        ->type_name("LIST");
  }
  command->add_option("--shape", options->shape, "of x, where it is not a row, a column, or rows set apart by /")->type_name("LIST");
  command->add_option("--format", options->format, "format of x and the parameters (default f32)")->type_name("FORMAT");
  command->add_flag("--json", options->json, "print one JSON object")->disable_flag_override();
  add_flags(*command, options->words);
  command->callback([options, &chosen] { chosen = [options] { return explain(*options); }; });
}

}  // namespace norma::program
