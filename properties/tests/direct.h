// A function as a subject without a wall: for tests of what is on this side of it.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include "norma/check.h"
#include "norma/harness.h"
#include "norma/reference.h"

namespace norma::properties {

class Direct final : public Subject {
 public:
  explicit Direct(BuiltIn subject) : subject_(std::move(subject)), arithmetic_(*parse_arithmetic(subject_.words)) {}
  [[nodiscard]] const std::string& name() const override { return subject_.name; }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return arithmetic_; }

  Reply run(const Case& c) override {
    Reply reply;
    ByRole<ConstView> inputs;
    ByRole<View> outputs;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const bool wanted = c.outputs.contain(role) && info(c.spec.op).outputs.contain(role);
      const bool updated = wanted && c.inputs[role] && info(c.spec.op).inputs.contain(role);
      if (c.inputs[role] && !updated) inputs[role] = c.inputs[role]->view();
      if (!wanted) continue;
      const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
      if (!shape.ok()) return {Reply::Kind::refused, shape.status().message, {}};
      const Format format = role == Role::y || role == Role::sum ? c.format : Format::f32;
      reply.outputs[role] = updated ? *c.inputs[role] : tensor_of(role, format, *shape);
      outputs[role] = View{reply.outputs[role]->format, reply.outputs[role]->data.data(), *shape, {}};
    }
    const Status status = subject_.normalize(c.spec, inputs, outputs);
    if (status.code == Code::bad_parameter) return {Reply::Kind::unsupported, status.message, {}};
    if (!status.ok()) return {Reply::Kind::refused, status.message, {}};
    return reply;
  }

 private:
  BuiltIn subject_;
  Arithmetic arithmetic_;
};

// The reference with its spec changed first: what most mistakes are.
inline BuiltIn reference_with(std::string name, void (*change)(Spec&)) {
  return {std::move(name), "", "algorithm=correctly_rounded bitwise=batch_independence,scale_invariance,alignment",
          [change](const Spec& asked, const ByRole<ConstView>& given, const ByRole<View>& outputs) {
            Spec spec = asked;
            change(spec);
            return compute(spec, with_running(given, outputs), outputs);
          }};
}

inline const Law& law_named(std::string_view slug) {
  return *std::find_if(laws().begin(), laws().end(), [&](const Law& law) { return law.slug == slug; });
}

}  // namespace norma::properties
