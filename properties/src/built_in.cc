// What functions of this program need to be subjects.
#include <utility>

#include "norma/harness.h"

namespace norma::properties {

ByRole<ConstView> with_running(const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  ByRole<ConstView> all = inputs;
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    if (outputs[role]) all[role] = ConstView{outputs[role]->format, outputs[role]->data, outputs[role]->shape, outputs[role]->strides};
  }
  return all;
}

namespace {

Status unsupported(std::string what) { return {Code::bad_parameter, std::move(what)}; }

}  // namespace

BuiltIn row_kernel(std::string name, Op op, RowKernel kernel, std::string words) {
  BuiltIn subject;
  subject.name = std::move(name);
  subject.words = std::move(words);
  subject.normalize = [op, kernel = std::move(kernel)](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
    if (spec.op != op) return unsupported("another op");
    if (!(spec.profile == Profile{})) return unsupported("another profile");
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const auto& in = inputs[role];
      const auto& out = outputs[role];
      const bool known = role == Role::x || role == Role::gamma || role == Role::beta;
      if ((in && !known) || (out && role != Role::y)) return unsupported(std::string(norma::name(role)));
      if ((in && in->format != Format::f32) || (out && out->format != Format::f32)) return unsupported("formats other than f32");
      if ((in && !contiguous(*in)) || (out && !contiguous(*out))) return unsupported("gaps between rows");
    }
    const Shape& shape = inputs[Role::x]->shape;
    const auto first = shape.begin() + axis_of(spec, shape.size());
    const std::int64_t rows = product(shape.begin(), first), cols = product(first, shape.end());
    const auto parameter = [&](Role role) { return inputs[role] ? reinterpret_cast<const float*>(inputs[role]->data) : nullptr; };
    for (const Role role : {Role::gamma, Role::beta}) {
      if (!inputs[role]) continue;
      const std::int64_t count = product(inputs[role]->shape.begin(), inputs[role]->shape.end());
      if (count != 0 && count != cols) return unsupported("a " + std::string(norma::name(role)) + " that is broadcast");
    }
    kernel(parameter(Role::x), parameter(Role::gamma), parameter(Role::beta), reinterpret_cast<float*>(outputs[Role::y]->data), rows, cols,
           static_cast<float>(spec.effective_epsilon()));
    return Status{};
  };
  return subject;
}

}  // namespace norma::properties
