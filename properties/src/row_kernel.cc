#include <algorithm>
#include <utility>

#include "norma/harness.h"

namespace norma::properties {
namespace {

template <class V>
bool contiguous(const V& view) {
  std::int64_t stride = 1;
  for (std::size_t i = view.strides.size(); i-- > 0; stride *= view.shape[i]) {
    if (view.shape[i] != 1 && view.strides[i] != stride) return false;
  }
  return true;
}

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
    const int axis = spec.effective_axis();
    std::int64_t rows = 1, cols = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      (static_cast<int>(i) < (axis < 0 ? axis + static_cast<int>(shape.size()) : axis) ? rows : cols) *= shape[i];
    }
    const auto parameter = [&](Role role) { return inputs[role] ? reinterpret_cast<const float*>(inputs[role]->data) : nullptr; };
    for (const Role role : {Role::gamma, Role::beta}) {
      if (inputs[role] && std::count(inputs[role]->shape.begin(), inputs[role]->shape.end(), 0) == 0) {
        std::int64_t count = 1;
        for (const std::int64_t extent : inputs[role]->shape) count *= extent;
        if (count != cols) return unsupported("a " + std::string(norma::name(role)) + " that is broadcast");
      }
    }
    kernel(parameter(Role::x), parameter(Role::gamma), parameter(Role::beta), reinterpret_cast<float*>(outputs[Role::y]->data), rows, cols,
           static_cast<float>(spec.effective_epsilon()));
    return Status{};
  };
  return subject;
}

}  // namespace norma::properties
