// What laws are made of.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "norma/law.h"
#include "norma/text.h"

namespace norma::properties {

inline Outcome holds() { return {}; }
inline Outcome vacuous() { return {Outcome::Kind::vacuous, "", false}; }
inline Outcome broken(std::string what, bool range = false) { return {Outcome::Kind::broken, std::move(what), range}; }

// "y[3] = 0.5 (0x3f000000)"
[[nodiscard]] std::string show(const Tensor& t, std::int64_t i);

// The first element of an output that is not.
[[nodiscard]] std::optional<Outcome> first_outside(const Truth& truth, const ByRole<Tensor>& got, Role role);
// The first element in which two outputs differ; zeros of either sign are one number, NaNs too.
[[nodiscard]] std::optional<Outcome> first_difference(const Tensor& got, const Tensor& want, std::string_view of);

[[nodiscard]] bool same_number(Format format, Bits a, Bits b);
[[nodiscard]] Bits negated(Format format, Bits bits);
[[nodiscard]] const Tensor& y_of(const ByRole<Tensor>& outputs);
[[nodiscard]] std::vector<double> values(const Tensor& t);

// What two outputs may differ by because of this one; its exact value is known but for its rounding to a double.
inline double room(const Element& e) { return e.bound + 0x1p-51 * std::fabs(e.exact); }

// The numbers of an output obey `expected` within the bounds of both: |ŷ[i] − expected(i)| <= bounds[i] (doubles, with room for theirs).
template <class Expected, class Bound>
std::optional<Outcome> first_off(const Tensor& got, const Truth& truth, std::string_view law, Expected&& expected, Bound&& bound) {
  for (std::int64_t i = 0; i < size_of(got); ++i) {
    const Element& e = truth.y()[static_cast<std::size_t>(i)];
    const double v = value_at(got, i);
    const double want = expected(i);
    const double most = bound(i) * bound_slack + 4 * 0x1p-52 * (std::fabs(v) + std::fabs(want));
    if (std::isnan(v) && std::isnan(want)) continue;
    if (v == want || std::fabs(v - want) <= most || std::isinf(most)) continue;
    if (std::isinf(v) && std::fabs(want) + most >= std::ldexp(1.0, info(got.format).max_exponent())) continue;
    char text[160];
    std::snprintf(text, sizeof text, ", expected %.9g ± %.3g (%.*s)", want, most, static_cast<int>(law.size()), law.data());
    return broken(show(got, i) + text, e.range);
  }
  return std::nullopt;
}

// y of two calls, b's element i beside a's element source(i): they differ as their exact values do, within both bounds.
template <class Source>
Outcome differ_exactly(Trial& t, const Case& a, const ByRole<Tensor>& ya, const Case& b, const ByRole<Tensor>& yb, std::string_view law,
                       const Source& source) {
  const Truth of_a = t.truth(a, ya);
  Truth of_b = t.truth(b, yb);
  const auto at_a = [&](std::int64_t i) -> const Element& { return of_a.y()[static_cast<std::size_t>(source(i))]; };
  const auto at_b = [&](std::int64_t i) -> const Element& { return of_b.y()[static_cast<std::size_t>(i)]; };
  // What is out of range in either case is so in the difference.
  for (std::int64_t i = 0; i < size_of(y_of(yb)); ++i) (*of_b.outputs[Role::y])[static_cast<std::size_t>(i)].range |= at_a(i).range;
  return first_off(
             y_of(yb), of_b, law, [&](std::int64_t i) { return value_at(y_of(ya), source(i)) + (at_b(i).exact - at_a(i).exact); },
             [&](std::int64_t i) { return room(at_a(i)) + room(at_b(i)); })
      .value_or(holds());
}
// The same of the trial's own case and another one of its shape.
inline Outcome differ_exactly(Trial& t, const Case& other, std::string_view law) {
  const ByRole<Tensor> a = t.run(t.base), b = t.run(other);
  return differ_exactly(t, t.base, a, other, b, law, [](std::int64_t i) { return i; });
}

// A case with other numbers in a tensor: number(i) for the bits of element i.
template <class Number>
Case with(const Case& c, Role role, Number&& number) {
  Case to = c;
  for (std::int64_t i = 0; i < size_of(*to.inputs[role]); ++i) set_bits(*to.inputs[role], i, number(i));
  return to;
}

// Rows [begin, end) of the first axis.
[[nodiscard]] Case rows_of(const Case& c, std::int64_t begin, std::int64_t end);

extern const std::span<const Law> laws_of_values, laws_of_symmetry, laws_of_affine, laws_of_structure, laws_of_memory;

}  // namespace norma::properties
