#include "common.h"

#include <algorithm>
#include <cmath>

namespace norma::properties {

std::string show(const Tensor& t, std::int64_t i) {
  return t.name + "[" + std::to_string(i) + "] = " + to_shortest(t.format, bits_at(t, i)) + " (" + to_hex(t.format, bits_at(t, i)) + ")";
}

bool same_number(Format format, Bits a, Bits b) {
  if (a == b) return true;
  const Decoded x = decode(format, a), y = decode(format, b);
  if (x.kind == Kind::nan || y.kind == Kind::nan) return x.kind == y.kind;
  return x.kind == Kind::finite && y.kind == Kind::finite && x.significand == 0 && y.significand == 0;
}

Bits negated(Format format, Bits bits) { return bits ^ info(format).sign_bit(); }

std::optional<Outcome> first_outside(const Truth& truth, const ByRole<Tensor>& got, Role role) {
  if (!got[role] || !truth.outputs[role]) return std::nullopt;
  const Tensor& t = *got[role];
  for (std::int64_t i = 0; i < size_of(t); ++i) {
    const Element& e = (*truth.outputs[role])[static_cast<std::size_t>(i)];
    if (within_bound(e, t.format, bits_at(t, i))) continue;
    char text[160] = "";
    // What is not a number is not so many ulp away.
    if (std::isfinite(e.distance)) std::snprintf(text, sizeof text, ": %.4g ulp away, %.4g of the bound", e.error, e.distance / e.bound);
    return broken(show(t, i) + ", exactly " + to_shortest(t.format, e.rounded) + " (" + to_hex(t.format, e.rounded) + ")" + text, e.range);
  }
  return std::nullopt;
}

std::optional<Outcome> first_difference(const Tensor& got, const Tensor& want, std::string_view of) {
  for (std::int64_t i = 0; i < size_of(got); ++i) {
    if (same_number(got.format, bits_at(got, i), bits_at(want, i))) continue;
    return broken(show(got, i) + ", but " + to_shortest(want.format, bits_at(want, i)) + " " + std::string(of));
  }
  return std::nullopt;
}

const Tensor& y_of(const ByRole<Tensor>& outputs) { return *outputs[Role::y]; }

std::vector<double> values(const Tensor& t) {
  std::vector<double> v(static_cast<std::size_t>(size_of(t)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = value_at(t, static_cast<std::int64_t>(i));
  return v;
}

Case rows_of(const Case& c, std::int64_t begin, std::int64_t end) {
  Case to = c;
  for (const Role role : {Role::x, Role::residual}) {
    if (!c.inputs[role]) continue;
    const Tensor& t = *c.inputs[role];
    const auto row = static_cast<std::ptrdiff_t>(t.shape[0] == 0 ? 0 : t.data.size() / static_cast<std::size_t>(t.shape[0]));
    to.inputs[role]->shape[0] = end - begin;
    to.inputs[role]->data.assign(t.data.begin() + begin * row, t.data.begin() + end * row);
  }
  return to;
}

}  // namespace norma::properties
