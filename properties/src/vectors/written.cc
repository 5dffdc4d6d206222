#include <utility>

#include "norma/reference.h"
#include "sources.h"

namespace norma::properties {
namespace {

Tensor tensor(Role role, Format format, Shape shape, const std::vector<double>& values) {
  Tensor t = tensor_of(role, format, std::move(shape));
  for (std::int64_t i = 0; i < size_of(t); ++i) set_bits(t, i, nearest_bits(format, values[static_cast<std::size_t>(i)]));
  return t;
}

}  // namespace

std::vector<double> made(std::int64_t n, const std::function<double(double i)>& of) {
  std::vector<double> all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = of(static_cast<double>(i));
  return all;
}

Written::Written(Op op, Format format, Shape shape, const std::vector<double>& x, double epsilon) {
  c.spec.op = op;
  c.spec.epsilon = epsilon;
  c.format = format;
  c.inputs[Role::x] = tensor(Role::x, format, std::move(shape), x);
}

Written&& Written::with(Role role, const std::vector<double>& values, Format format) && {
  c.inputs[role] = tensor(role, format, *tensor_shape(c.spec, c.x().shape, role), values);
  return std::move(*this);
}
Written&& Written::with(Role role, const std::vector<double>& values) && { return std::move(*this).with(role, values, c.format); }

Written&& Written::with(Profile profile) && {
  c.spec.profile = profile;
  return std::move(*this);
}

Written&& Written::by_groups(std::int64_t groups) && {
  c.spec.groups = groups;
  return std::move(*this);
}

Written&& Written::running(const std::vector<double>& mean, const std::vector<double>& variance, double momentum) && {
  c.spec.momentum = momentum;
  c.outputs = c.outputs | Roles{Role::running_mean, Role::running_variance};
  return std::move(*this).with(Role::running_mean, mean).with(Role::running_variance, variance);
}

}  // namespace norma::properties
