// A call together with the op's rule for making groups, told once more: by asking every element where it belongs.
#pragma once

#include "testing.h"

namespace norma::testing {

// A call on x of three axes.
struct Problem {
  Spec spec;
  Mode mode = Mode::nearest_even;
  ByRole<Tensor> inputs;
  ByRole<Tensor> outputs;

  [[nodiscard]] std::int64_t extent(int axis) const { return inputs[Role::x]->shape()[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] int axis() const { return spec.effective_axis() < 0 ? spec.effective_axis() + 3 : spec.effective_axis(); }

  // The group of an element, and its place among the parameters. The axes before or after the channel count as the op's definition says.
  [[nodiscard]] std::int64_t group(const std::int64_t (&at)[3]) const {
    const std::int64_t c = at[axis()];
    switch (spec.op) {
      case Op::layer_norm:
      case Op::rms_norm:
        return axis() == 0 ? 0 : axis() == 1 ? at[0] : at[0] * extent(1) + at[1];
      case Op::group_norm:
        return at[0] * *spec.groups + c / (extent(axis()) / *spec.groups);
      case Op::instance_norm:
        return at[0] * extent(axis()) + c;
      default:
        return c;
    }
  }
  [[nodiscard]] std::size_t parameter(const std::int64_t (&at)[3]) const {
    if (info(spec.op).grouping != Grouping::trailing) return static_cast<std::size_t>(at[axis()]);
    std::int64_t index = 0;
    for (int i = axis(); i < 3; ++i) index = index * extent(i) + at[i];
    return static_cast<std::size_t>(index);
  }
};

// Everything needed to run it again.
inline std::string text(const Problem& problem) {
  const Spec& s = problem.spec;
  const Profile& p = s.profile;
  std::ostringstream out;
  out << info(s.op).name << std::hexfloat << " epsilon " << s.effective_epsilon() << " axis " << s.effective_axis() << " groups "
      << s.groups.value_or(0) << " momentum " << s.momentum << " mode " << static_cast<int>(problem.mode) << " profile "
      << static_cast<int>(p.epsilon_placement) << static_cast<int>(p.variance) << static_cast<int>(p.running_variance)
      << static_cast<int>(p.momentum) << p.gain_offset << p.cast_before_gain << static_cast<int>(p.residual_sum);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto& input = problem.inputs[static_cast<Role>(r)];
    if (!input) continue;
    out << "\n  " << role_names[r] << " " << info(input->format()).name << " [";
    for (const std::int64_t extent : input->shape()) out << extent << " ";
    out << "] {";
    for (std::size_t i = 0; i < input->size(); ++i) out << hex(input->bits(i)) << ", ";
    out << "}";
  }
  return out.str();
}

}  // namespace norma::testing
