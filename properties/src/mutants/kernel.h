// One plain implementation of every op of subject.h, in steps that can be replaced one by one: an honest subject replaces none of them,
// a mutant one.
//
// All arithmetic is in T, which is double where x is f64 and float otherwise, in the order that Method says; elements are rounded to their
// tensor's format once, when they are stored. A sum starts at −0, the neutral element of addition, so that signs of zeros are those of IEEE
// 754.
#pragma once

#include <cstddef>
#include <vector>

#include "norma/case.h"
#include "norma/harness.h"

#ifdef __FAST_MATH__
#error "a kernel whose compiler reorders it does not compute what it declares"
#endif

namespace norma::properties {

struct Method {
  Arithmetic::Algorithm algorithm = Arithmetic::Algorithm::two_pass;
  std::size_t lanes = 1;  // partial sums, a power of two; welford has one
};

struct Call {
  Spec spec;
  ByRole<ConstView> inputs;
  ByRole<View> outputs;
};

// An element of x: its number, and those of its gain and bias and of the statistics of its group.
struct Place {
  std::int64_t element = 0, parameter = 0, group = 0;
};
using Places = std::vector<Place>;

// A number as a format holds it.
template <class T>
T rounded(Format format, T value) {
  return static_cast<T>(value_of(format, nearest_bits(format, static_cast<double>(value))));
}

template <class T>
struct Statistics {
  T n{};
  T mean{};      // zero in rms_norm
  T squares{};   // Σ(x − μ)², or Σx²
  T variance{};  // what stands under the root beside ε
  T rstd{};
};

template <class T>
class Kernel {
 public:
  using Values = std::vector<T>;

  Kernel(Call call, const Method& method) : call_(std::move(call)), method_(method), op_(info(call_.spec.op)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  void normalize();

 protected:
  // The steps, in the order in which they are taken.
  [[nodiscard]] virtual Membership grouping() const;
  virtual void group(const Places& group);
  [[nodiscard]] virtual Values sample(const Places& group) { return gather(group); }  // what the statistics of a group are made of
  [[nodiscard]] virtual Statistics<T> statistics(const Values& x, std::int64_t g);
  [[nodiscard]] virtual T count(std::size_t n) const { return static_cast<T>(n); }
  [[nodiscard]] virtual T sum(const Values& terms);
  [[nodiscard]] virtual T squares_about(const Values& x, T mean);
  [[nodiscard]] virtual T add(T a, T b) const { return a + b; }
  [[nodiscard]] virtual T square(T deviation) const { return deviation * deviation; }
  [[nodiscard]] virtual T variance(T value) const { return value; }
  [[nodiscard]] virtual T rstd(T variance) const;
  virtual void store_statistics(const Statistics<T>& s, const Values& x, std::int64_t g);
  virtual void apply(const Values& x, const Statistics<T>& s, const Places& group);
  [[nodiscard]] virtual T deviation(T x, T mean) const { return op_.centred ? x - mean : x; }
  [[nodiscard]] virtual T standardize(T x, const Statistics<T>& s) const { return deviation(x, s.mean) * s.rstd; }
  [[nodiscard]] virtual T restyle(T xhat, const Place& at) const;
  [[nodiscard]] virtual T gain(std::int64_t parameter) const;
  [[nodiscard]] virtual T bias(std::int64_t parameter) const { return read(Role::beta, parameter); }
  virtual void update(const Statistics<T>& s, std::int64_t g);
  [[nodiscard]] virtual T running_variance(const Statistics<T>& s) const;
  virtual void finish() {}
  // What they read and write: elements by their number in logical order.
  [[nodiscard]] virtual std::int64_t offset(Role role, std::int64_t element) const;
  [[nodiscard]] virtual T read(Role role, std::int64_t element) const;
  virtual void put(Role role, std::int64_t element, T value);

  // What steps are made of.
  [[nodiscard]] bool given(Role role) const { return call_.inputs[role].has_value(); }
  [[nodiscard]] bool wanted(Role role) const { return call_.outputs[role].has_value(); }
  [[nodiscard]] const Spec& spec() const { return call_.spec; }
  [[nodiscard]] const Profile& profile() const { return call_.spec.profile; }
  [[nodiscard]] const Shape& shape() const { return call_.inputs[Role::x]->shape; }
  [[nodiscard]] Format format(Role role) const { return given(role) ? call_.inputs[role]->format : call_.outputs[role]->format; }
  [[nodiscard]] std::int64_t size(Role role) const;            // elements of a tensor
  [[nodiscard]] T old(Role role, std::int64_t element) const;  // what an output holds
  [[nodiscard]] T epsilon() const { return static_cast<T>(call_.spec.effective_epsilon()); }
  [[nodiscard]] Values gather(const Places& group) const;  // x, or x + residual rounded to the format of x
  [[nodiscard]] Statistics<T> two_pass(const Values& x);
  [[nodiscard]] Statistics<T> single_pass(const Values& x);
  [[nodiscard]] Statistics<T> welford(const Values& x);
  void store_at(Role role, std::int64_t offset, T value);
  void blend(Role role, std::int64_t g, T value);

  Call call_;
  Method method_;
  const OpInfo& op_;
  std::vector<Places> groups_;
};

extern template class Kernel<float>;
extern template class Kernel<double>;

// Whether this is a call that the kernel does.
[[nodiscard]] Status check(const Call& call);

template <template <class> class K>
Status run(Call call, const Method& method = {}) {
  if (Status s = check(call); !s.ok()) return s;
  if (call.inputs[Role::x]->format == Format::f64) {
    K<double>(std::move(call), method).normalize();
  } else {
    K<float>(std::move(call), method).normalize();
  }
  return {};
}

}  // namespace norma::properties
