#include "kernel.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "norma/mutants.h"

namespace norma::properties {
namespace {

template <class Byte>
std::int64_t elements_of(const BasicView<Byte>& view) {
  std::int64_t count = 1;
  for (const std::int64_t extent : view.shape) count *= extent;
  return count;
}

template <class Byte>
std::int64_t offset_in(const BasicView<Byte>& view, std::int64_t element) {
  if (view.strides.empty()) return element;
  std::int64_t offset = 0;
  for (std::size_t a = view.shape.size(); a-- > 0; element /= view.shape[a]) offset += element % view.shape[a] * view.strides[a];
  return offset;
}

template <class T, class Byte>
T number_at(const BasicView<Byte>& view, std::int64_t offset) {
  return static_cast<T>(value_of(view.format, load(view.format, view.data + offset * info(view.format).bytes())));
}

}  // namespace

template <class T>
void Kernel<T>::normalize() {
  const Membership m = grouping();
  groups_.resize(static_cast<std::size_t>(m.groups));
  for (std::size_t i = 0; i < m.group.size(); ++i) {
    groups_[static_cast<std::size_t>(m.group[i])].push_back({static_cast<std::int64_t>(i), m.parameter[i], m.group[i]});
  }
  for (const Places& members : groups_) {
    if (!members.empty()) group(members);
  }
  finish();
}

template <class T>
Membership Kernel<T>::grouping() const {
  Case shape_only;
  shape_only.spec = spec();
  shape_only.inputs[Role::x] = tensor_of(Role::x, format(Role::x), shape());
  return membership(shape_only);
}

template <class T>
void Kernel<T>::group(const Places& group) {
  const std::int64_t g = group.front().group;
  const Values x = gather(group);  // all of it, before y may replace it
  const Statistics<T> s = statistics(op_.given_statistics ? Values() : sample(group), g);
  store_statistics(s, x, g);
  apply(x, s, group);
  update(s, g);
}

template <class T>
auto Kernel<T>::gather(const Places& group) const -> Values {
  Values x(group.size());
  std::transform(group.begin(), group.end(), x.begin(), [this](const Place& at) {
    const T value = read(Role::x, at.element);
    return given(Role::residual) ? rounded(format(Role::x), value + read(Role::residual, at.element)) : value;
  });
  return x;
}

template <class T>
Statistics<T> Kernel<T>::statistics(const Values& x, std::int64_t g) {
  using enum Arithmetic::Algorithm;
  Statistics<T> s;
  if (op_.given_statistics) {
    s.mean = read(Role::mean, g);
    s.variance = variance(read(Role::variance, g));
  } else {
    s = method_.algorithm == single_pass ? this->single_pass(x) : method_.algorithm == welford ? this->welford(x) : this->two_pass(x);
    const bool unbiased = op_.centred && profile().variance == Estimator::unbiased;
    s.variance = variance(s.squares / (unbiased ? s.n - 1 : s.n));
  }
  s.rstd = rstd(s.variance);
  return s;
}

template <class T>
Statistics<T> Kernel<T>::two_pass(const Values& x) {
  Statistics<T> s;
  s.n = count(x.size());
  if (op_.centred) s.mean = sum(x) / s.n;
  s.squares = squares_about(x, s.mean);
  return s;
}

template <class T>
Statistics<T> Kernel<T>::single_pass(const Values& x) {
  Statistics<T> s;
  s.n = count(x.size());
  Values terms(x.size());
  std::transform(x.begin(), x.end(), terms.begin(), [this](T value) { return square(value); });
  s.squares = sum(terms);
  if (!op_.centred) return s;
  s.mean = sum(x) / s.n;
  s.squares = (s.squares / s.n - square(s.mean)) * s.n;
  return s;
}

template <class T>
Statistics<T> Kernel<T>::welford(const Values& x) {
  if (!op_.centred) return two_pass(x);
  Statistics<T> s;
  s.n = count(x.size());
  s.mean = x.front();
  for (std::size_t k = 1; k < x.size(); ++k) {
    const T before = x[k] - s.mean;
    s.mean = add(s.mean, before / static_cast<T>(k + 1));
    s.squares = add(s.squares, before * (x[k] - s.mean));
  }
  return s;
}

template <class T>
T Kernel<T>::sum(const Values& terms) {
  Values partial(method_.lanes, T{-0.0});
  for (std::size_t k = 0; k < terms.size(); ++k) partial[k % method_.lanes] = add(partial[k % method_.lanes], terms[k]);
  for (std::size_t half = method_.lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] = add(partial[lane], partial[lane + half]);
  }
  return partial[0];
}

template <class T>
T Kernel<T>::squares_about(const Values& x, T mean) {
  Values terms(x.size());
  std::transform(x.begin(), x.end(), terms.begin(), [this, mean](T value) { return square(deviation(value, mean)); });
  return sum(terms);
}

template <class T>
T Kernel<T>::rstd(T variance) const {
  const bool outside = profile().epsilon_placement == EpsilonPlacement::outside;
  return 1 / (outside ? std::sqrt(variance) + epsilon() : std::sqrt(variance + epsilon()));
}

template <class T>
void Kernel<T>::store_statistics(const Statistics<T>& s, const Values& /*x*/, std::int64_t g) {
  if (wanted(Role::mean)) put(Role::mean, g, s.mean);
  if (wanted(Role::rstd)) put(Role::rstd, g, s.rstd);
}

template <class T>
void Kernel<T>::apply(const Values& x, const Statistics<T>& s, const Places& group) {
  for (std::size_t k = 0; k < group.size(); ++k) {
    if (wanted(Role::sum)) put(Role::sum, group[k].element, x[k]);
    put(Role::y, group[k].element, restyle(standardize(x[k], s), group[k]));
  }
}

template <class T>
T Kernel<T>::restyle(T xhat, const Place& at) const {
  T y = profile().cast_before_gain ? rounded(format(Role::y), xhat) : xhat;
  if (given(Role::gamma)) y *= gain(at.parameter);
  if (given(Role::beta)) y += bias(at.parameter);
  return y;
}

template <class T>
T Kernel<T>::gain(std::int64_t parameter) const {
  const T gamma = read(Role::gamma, parameter);
  return profile().gain_offset ? 1 + gamma : gamma;
}

template <class T>
void Kernel<T>::update(const Statistics<T>& s, std::int64_t g) {
  if (wanted(Role::running_mean)) blend(Role::running_mean, g, s.mean);
  // The unbiased variance of one value is 0/0; what is known stays.
  const bool known = groups_[static_cast<std::size_t>(g)].size() > 1 || profile().running_variance == Estimator::biased;
  if (wanted(Role::running_variance) && known) blend(Role::running_variance, g, running_variance(s));
}

template <class T>
T Kernel<T>::running_variance(const Statistics<T>& s) const {
  return s.squares / (profile().running_variance == Estimator::unbiased ? s.n - 1 : s.n);
}

template <class T>
void Kernel<T>::blend(Role role, std::int64_t g, T value) {
  const T momentum = static_cast<T>(spec().momentum);
  const T complement = static_cast<T>(1 - spec().momentum);
  const bool of_new = profile().momentum == Momentum::weight_of_new;
  put(role, g, (of_new ? complement : momentum) * old(role, g) + (of_new ? momentum : complement) * value);
}

template <class T>
std::int64_t Kernel<T>::offset(Role role, std::int64_t element) const {
  return given(role) ? offset_in(*call_.inputs[role], element) : offset_in(*call_.outputs[role], element);
}

template <class T>
T Kernel<T>::read(Role role, std::int64_t element) const {
  return number_at<T>(*call_.inputs[role], offset(role, element));
}

template <class T>
T Kernel<T>::old(Role role, std::int64_t element) const {
  return number_at<T>(*call_.outputs[role], offset(role, element));
}

template <class T>
void Kernel<T>::put(Role role, std::int64_t element, T value) {
  store_at(role, offset(role, element), value);
}

template <class T>
void Kernel<T>::store_at(Role role, std::int64_t offset, T value) {
  const View& view = *call_.outputs[role];
  store(view.format, nearest_bits(view.format, static_cast<double>(value)), view.data + offset * info(view.format).bytes());
}

template <class T>
std::int64_t Kernel<T>::size(Role role) const {
  return given(role) ? elements_of(*call_.inputs[role]) : elements_of(*call_.outputs[role]);
}

template class Kernel<float>;
template class Kernel<double>;

Status check(const Call& call) {
  if (call.spec.op == Op::weight_norm) return {Code::bad_parameter, "weight_norm is not among the ops of a subject"};
  if (call.spec.profile.residual_sum == ResidualSum::exact) return {Code::bad_parameter, "x + residual is rounded here"};
  if (!call.outputs[Role::y]) return {Code::bad_parameter, "a call without y"};
  return {};
}

namespace {

template <Arithmetic::Algorithm algorithm, std::size_t lanes>
Status honest(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return run<Kernel>({spec, inputs, outputs}, {algorithm, lanes});
}

}  // namespace

const std::vector<BuiltIn>& honest_kernels() {
  using enum Arithmetic::Algorithm;
  static const std::string by_design = " bitwise=batch_independence,alignment,scale_invariance,threads threads";
  // `compute` and `accumulate` are not among the words: f32, and f64 for f64.
  static const std::vector<BuiltIn> kernels{
      {"plain", "two passes, one loop a sum", "algorithm=two_pass depth=n-1" + by_design, honest<two_pass, 1>},
      {"blocked", "two passes, 16 sums side by side", "algorithm=two_pass depth=n/16" + by_design, honest<two_pass, 16>},
      {"welford", "one pass, Welford's update", "algorithm=welford depth=n-1" + by_design, honest<welford, 1>},
  };
  return kernels;
}

}  // namespace norma::properties
