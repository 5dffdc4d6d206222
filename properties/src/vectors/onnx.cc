// Golden cases as ONNX says them. Operators and their definitions: docs/Changelog.md of github.com/onnx/onnx, where each is by its version;
// messages and their fields: onnx/onnx.proto there.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "norma/reference.h"
#include "norma/vectors.h"
#include "protobuf.h"

namespace norma::properties {
namespace {

// What becomes of a tensor that a case has not: a gain of ones, a bias of zeros and the like change nothing.
enum class Absent : std::uint8_t { never, left_out, zeros, ones };

struct Input {
  Role role;
  std::string_view name;  // as the specification has it
  char type;              // the type variable: what shares one has one format
  Absent absent = Absent::never;
};
struct Output {
  Role role;
  std::string_view name;
};

struct Operator {
  Op op;
  std::string_view name;
  int opset;       // that it came with
  int ir_version;  // of the release of that opset
  bool stash;      // x̂ is computed in a wider type (the attribute stash_type) and cast to the type of x, in which the rest is computed
  std::vector<Format> formats;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

// The first of an op that takes the format of x. LayerNormalization takes float64, too, but its stash_type is float32 or bfloat16.
const Operator* operator_for(const Case& c) {
  using enum Absent;
  using Inputs = std::vector<Input>;
  const auto affine = [](std::string_view x, std::string_view gain, std::string_view bias, Absent without) {
    return Inputs{{Role::x, x, 'T'}, {Role::gamma, gain, 'T', ones}, {Role::beta, bias, 'T', without}};
  };
  const auto batch = [](Input mean, Input variance) {
    return Inputs{{Role::x, "X", 'T'}, {Role::gamma, "scale", '1', ones}, {Role::beta, "B", '1', zeros}, mean, variance};
  };
  static const Inputs training = batch({Role::running_mean, "input_mean", '2', zeros}, {Role::running_variance, "input_var", '2', ones});
  static const Inputs inference = batch({Role::mean, "input_mean", '2'}, {Role::variance, "input_var", '2'});
  static const Inputs layer = affine("X", "Scale", "B", left_out), group = affine("X", "scale", "bias", zeros);
  static const Inputs instance = affine("input", "scale", "B", zeros);
  static const Inputs rms{{Role::x, "X", 'T'}, {Role::gamma, "scale", 'T', ones}};
  static const std::vector<Output> only_y{{Role::y, "Y"}}, statistics{{Role::y, "Y"}, {Role::mean, "Mean"}, {Role::rstd, "InvStdDev"}};
  static const std::vector<Output> running{{Role::y, "Y"}, {Role::running_mean, "running_mean"}, {Role::running_variance, "running_var"}};
  static const std::vector<Output> only_output{{Role::y, "output"}};
  using F = Format;
  static const std::vector<F> all{F::f32, F::f64, F::f16, F::bf16};
  static const std::array<Operator, 7> table{{
      {Op::layer_norm, "LayerNormalization", 17, 8, true, {F::f32, F::f16, F::bf16}, layer, statistics},
      {Op::rms_norm, "RMSNormalization", 23, 11, true, all, rms, only_y},
      {Op::batch_norm_training, "BatchNormalization", 15, 8, false, all, training, running},
      {Op::batch_norm_inference, "BatchNormalization", 15, 8, false, all, inference, only_y},
      {Op::group_norm, "GroupNormalization", 21, 10, true, all, group, only_y},
      {Op::instance_norm, "InstanceNormalization", 6, 3, false, {F::f32, F::f64, F::f16}, instance, only_output},
      {Op::instance_norm, "InstanceNormalization", 22, 10, false, {F::bf16}, instance, only_output},
  }};
  const auto found = std::find_if(table.begin(), table.end(), [&](const Operator& o) {
    return o.op == c.spec.op && std::find(o.formats.begin(), o.formats.end(), c.x().format) != o.formats.end();
  });
  return found == table.end() ? nullptr : &*found;
}

double as_float32(double value) { return value_of(Format::f32, nearest_bits(Format::f32, value)); }
bool fits_float32(double value) { return least_infinite(Format::f32) > value && (as_float32(value) != 0) == (value != 0); }

constexpr std::array<Role, 2> running_roles{Role::running_mean, Role::running_variance};
bool updates(const Case& c) {
  return std::any_of(running_roles.begin(), running_roles.end(), [&](Role r) { return c.inputs[r] || c.outputs.contain(r); });
}
bool casts(const Case& c, const Operator& o) { return o.stash && info(c.x().format).precision < info(Format::f32).precision; }

// Why ONNX cannot say a case: the first that holds.
struct Obstacle {
  std::string_view what;
  bool (*holds)(const Case& c, const Operator& o);
};
constexpr std::array<Obstacle, 13> obstacles{{
    {"a residual", [](const Case& c, const Operator&) { return c.inputs[Role::residual].has_value(); }},
    {"epsilon outside the root",
     [](const Case& c, const Operator&) { return c.spec.profile.epsilon_placement == EpsilonPlacement::outside; }},
    {"y by the unbiased variance", [](const Case& c, const Operator&) { return c.spec.profile.variance == Estimator::unbiased; }},
    {"a gain of 1 + gamma", [](const Case& c, const Operator&) { return c.spec.profile.gain_offset; }},
    {"x̂ rounded before the gain where ONNX does not round it",
     [](const Case& c, const Operator& o) { return c.spec.profile.cast_before_gain && !casts(c, o); }},
    {"running statistics by the unbiased variance, or a momentum that is the weight of the new",
     [](const Case& c, const Operator&) {
       return updates(c) && (c.spec.profile.running_variance != Estimator::biased || c.spec.profile.momentum != Momentum::weight_of_old);
     }},
    {"a bias, which RMSNormalization has not",
     [](const Case& c, const Operator& o) {
       return c.inputs[Role::beta] && std::none_of(o.inputs.begin(), o.inputs.end(), [](const Input& i) { return i.role == Role::beta; });
     }},
    {"a format of its own for what ONNX gives the type of another",
     [](const Case& c, const Operator& o) {
       for (const Input& a : o.inputs) {
         for (const Input& b : o.inputs) {
           if (a.type == b.type && c.inputs[a.role] && c.inputs[b.role] && c.inputs[a.role]->format != c.inputs[b.role]->format)
             return true;
         }
       }
       return c.format != c.x().format;
     }},
    // The reference rounds x̂ and y; a gain of ones or a bias of zeros leaves no third rounding.
    {"a gain and a bias of f16 or bf16, between which ONNX rounds",
     [](const Case& c, const Operator& o) { return casts(c, o) && c.inputs[Role::gamma] && c.inputs[Role::beta]; }},
    {"channels on another axis than 1",
     [](const Case& c, const Operator& o) {
       return info(o.op).grouping != Grouping::trailing && axis_of(c.spec, c.x().shape.size()) != 1;
     }},
    {"two axes, where InstanceNormalization takes three or more",
     [](const Case& c, const Operator& o) { return o.op == Op::instance_norm && c.x().shape.size() < 3; }},
    // "Reduction over an empty set of values yields undefined" (ReduceMean).
    {"the mean of no elements",
     [](const Case& c, const Operator& o) {
       const Shape& x = c.x().shape;
       const bool rows = info(o.op).grouping == Grouping::trailing;
       return !info(o.op).given_statistics && product(x.begin() + (rows ? axis_of(c.spec, x.size()) : 0), x.end()) == 0;
     }},
    {"an epsilon or a momentum that no float32 is near",
     [](const Case& c, const Operator&) {
       return !fits_float32(c.spec.effective_epsilon()) || (updates(c) && !fits_float32(c.spec.momentum));
     }},
}};

std::string_view obstacle(const Case& c, const Operator* o) {
  if (o == nullptr)
    return c.spec.op == Op::layer_norm ? "float64 in LayerNormalization, which computes in float32" : "an op or a format that ONNX has not";
  const auto found = std::find_if(obstacles.begin(), obstacles.end(), [&](const Obstacle& each) { return each.holds(c, *o); });
  return found == obstacles.end() ? "" : found->what;
}

// The case as the operator has it: float32 attributes, what the definition casts, and every tensor that it must be given.
Result<Case> as_operator_has_it(Case c, const Operator& o) {
  c.spec.epsilon = as_float32(c.spec.effective_epsilon());
  c.spec.momentum = as_float32(updates(c) ? c.spec.momentum : 0.9);  // ONNX's default shows in no output
  c.spec.profile.cast_before_gain = casts(c, o);
  const Case given = c;
  for (const Input& input : o.inputs) {
    if (c.inputs[input.role] || (input.absent != Absent::zeros && input.absent != Absent::ones)) continue;
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, input.role);
    if (!shape.ok()) return shape.status();
    Format format = c.x().format;
    for (const Input& other : o.inputs) {
      if (other.type == input.type && given.inputs[other.role]) format = given.inputs[other.role]->format;
    }
    Tensor t = tensor_of(input.role, format, *shape);
    for (std::int64_t i = 0; input.absent == Absent::ones && i < size_of(t); ++i) set_bits(t, i, nearest_bits(format, 1));
    c.inputs[input.role] = std::move(t);
  }
  return c;
}

// TensorProto.DataType, in the order of the formats.
constexpr std::array<int, formats.size()> data_types{10, 16, 1, 11, 17, 19};
int data_type(Format format) { return data_types[static_cast<std::size_t>(format)]; }

Message tensor_proto(std::string_view name, const Tensor& t) {
  Message m;
  for (const std::int64_t extent : t.shape) m.integer(1, extent);
  return m.integer(2, data_type(t.format)).bytes(8, name).bytes(9, {reinterpret_cast<const char*>(t.data.data()), t.data.size()});
}

Message value_info_proto(std::string_view name, const Tensor& t) {
  Message shape;
  for (const std::int64_t extent : t.shape) shape.message(1, Message().integer(1, extent));
  return Message().bytes(1, name).message(2, Message().message(1, Message().integer(1, data_type(t.format)).message(2, shape)));
}

// AttributeProto.
Message attribute(std::string_view name, std::int64_t value) { return Message().bytes(1, name).integer(3, value).integer(20, 2); }
Message attribute(std::string_view name, double value) {
  return Message().bytes(1, name).real(2, static_cast<float>(value)).integer(20, 1);
}

std::vector<Message> attributes(const Case& c, const Operator& o) {
  std::vector<Message> list;
  if (info(o.op).grouping == Grouping::trailing) list.push_back(attribute("axis", std::int64_t{c.spec.effective_axis()}));
  list.push_back(attribute("epsilon", *c.spec.epsilon));
  if (o.op == Op::group_norm) list.push_back(attribute("num_groups", *c.spec.groups));
  if (o.stash) list.push_back(attribute("stash_type", std::int64_t{data_type(c.x().format == Format::f64 ? Format::f64 : Format::f32)}));
  if (o.op == Op::batch_norm_training) {
    list.push_back(attribute("momentum", c.spec.momentum));
    list.push_back(attribute("training_mode", std::int64_t{1}));
  }
  return list;
}

}  // namespace

Result<OnnxTest> to_onnx(const GoldenCase& g) {
  // The axis is one of x.
  if (const Result<Shape> shape = tensor_shape(g.c.spec, g.c.x().shape, Role::y); !shape.ok()) return shape.status();
  const Operator* const o = operator_for(g.c);
  OnnxTest test;
  test.obstacle = obstacle(g.c, o);
  if (!test.obstacle.empty()) return test;
  const Result<Case> c = as_operator_has_it(g.c, *o);
  if (!c.ok()) return c.status();
  const Result<GoldenCase> made = golden_case(*c, g.comment);
  if (!made.ok()) return made.status();

  Message node, graph;
  std::vector<Message> inputs, outputs;
  const auto add = [&](const std::string& kind, std::size_t index, const Message& bytes) {
    test.files.push_back({"test_data_set_0/" + kind + "_" + std::to_string(index) + ".pb", bytes.text()});
  };
  for (const Input& input : o->inputs) {
    const std::optional<Tensor>& t = c->inputs[input.role];
    if (!t) continue;  // left out at the end
    node.bytes(1, input.name);
    add("input", inputs.size(), tensor_proto(input.name, *t));
    inputs.push_back(value_info_proto(input.name, *t));
  }
  for (const Output& output : o->outputs) {
    const bool known = made->right[output.role].has_value();
    // In training BatchNormalization has to have all of its outputs, but a graph need not show them.
    if (known || o->op == Op::batch_norm_training) node.bytes(2, output.name);
    if (!known) continue;
    Tensor t;
    for (const auto& [kind, tensors] : {std::pair{"low", &made->low}, std::pair{"high", &made->high}, std::pair{"output", &made->right}}) {
      t = *(*tensors)[output.role];
      // A statistic keeps the axes that it is made of, as ones.
      if (output.role == Role::mean || output.role == Role::rstd) t.shape.resize(c->x().shape.size(), 1);
      add(kind, outputs.size(), tensor_proto(output.name, t));
    }
    outputs.push_back(value_info_proto(output.name, t));
  }
  node.bytes(4, o->name);
  for (const Message& each : attributes(*c, *o)) node.message(5, each);
  graph.message(1, node).bytes(2, g.id);
  for (const Message& each : inputs) graph.message(11, each);
  for (const Message& each : outputs) graph.message(12, each);
  const Message model = Message()
                            .integer(1, o->ir_version)
                            .bytes(2, "norma")
                            .bytes(6, g.comment)
                            .message(7, graph)
                            .message(8, Message().bytes(1, "").integer(2, o->opset))
                            .message(14, Message().bytes(1, "severity").bytes(2, made->must ? "must" : "should"));
  // The last, so that a folder that is not complete is no test.
  test.files.push_back({"model.onnx", model.text()});
  return test;
}

}  // namespace norma::properties
