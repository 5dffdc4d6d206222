#include "norma/accuracy.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "laws/common.h"

namespace norma::properties {
namespace {

// Laws are in one table: the order of its rows is that of their addresses.
bool before(const Source& a, const Source& b) { return a.law == b.law ? a.number < b.number : std::less<const Law*>()(a.law, b.law); }

// An error as a part of its bound; none of what is right, or of which nothing is promised.
double margin_of(const Element& e, bool same) { return same || std::isinf(e.bound) ? 0 : e.distance / e.bound; }

Extreme extreme(double value, const Case& c, const Tensor& y, const Element& e, std::int64_t i, const Source& source) {
  const bool same = same_number(c.format, bits_at(y, i), e.rounded);
  return {value,      source,
          to_line(c), show(y, i) + ", exactly " + to_shortest(c.format, e.rounded) + " (" + to_hex(c.format, e.rounded) + ")",
          e.error,    margin_of(e, same),
          e.condition};
}

// A unit in the last place at a positive value.
double ulp_at(double value, Format format) {
  return std::ldexp(1.0, info(format).ulp_exponent(std::isfinite(value) ? std::ilogb(value) : info(format).max_exponent()));
}

std::size_t bin_of(double condition) {
  constexpr int last = static_cast<int>(std::tuple_size_v<decltype(Accuracy::conditions)>) - 1;
  if (!(condition > 0)) return 0;
  if (std::isinf(condition)) return last;
  return static_cast<std::size_t>(std::clamp(std::ilogb(condition) - Accuracy::least_condition, 0, last));
}

}  // namespace

void Extreme::join(const Extreme& other) {
  if (other.value > value || (other.value == value && value != 0 && before(other.source, source))) *this = other;
}

void Tally::join(const Tally& other) {
  elements += other.elements;
  correctly_rounded += other.correctly_rounded;
  faithful += other.faithful;
  within += other.within;
  ulp.join(other.ulp);
  margin.join(other.margin);
}

void Condition::join(const Condition& other) {
  elements += other.elements;
  ulp = std::max(ulp, other.ulp);
  margin = std::max(margin, other.margin);
  error = std::max(error, other.error);
  bound = std::max(bound, other.bound);
}

void Accuracy::see(const Case& c, const Truth& truth, const Tensor& y, const Depth& deepest, const Source& source) {
  Tally seen;
  std::int64_t worst_ulp = 0, worst_margin = 0;
  for (std::size_t i = 0; i < truth.y().size(); ++i) {
    const Element& e = truth.y()[i];
    const auto at = static_cast<std::int64_t>(i);
    const Bits bits = bits_at(y, at);
    if (e.range || !std::isfinite(e.exact)) continue;
    const bool same = same_number(c.format, bits, e.rounded);
    seen.elements += 1;
    seen.correctly_rounded += same;
    seen.faithful += same || e.error < 1;
    seen.within += within_bound(e, c.format, bits);
    const int bin = same ? 0 : std::isinf(e.error) ? 23 : std::clamp(static_cast<int>(std::ceil(std::log2(e.error))) + 2, 1, 23);
    histogram[static_cast<std::size_t>(bin)] += 1;
    Condition one{1, same && std::isinf(e.error) ? 0 : e.error, margin_of(e, same), 0, 0};
    if (!same && one.ulp > seen.ulp.value) seen.ulp.value = one.ulp, worst_ulp = at;
    if (one.margin > seen.margin.value) seen.margin.value = one.margin, worst_margin = at;
    if (const double unit = ulp_at(e.size, c.format); e.size != 0) one.error = e.distance / unit, one.bound = e.bound / unit;
    conditions[bin_of(e.condition)].join(one);
  }
  if (seen.elements == 0) return;
  Tally& kind = kinds[{c.spec.op, c.format}];
  const auto element = [&](std::int64_t i) -> const Element& { return truth.y()[static_cast<std::size_t>(i)]; };
  const auto complete = [&](Extreme& e, const Extreme& known, std::int64_t i) {
    e = e.value > known.value ? extreme(e.value, c, y, element(i), i, source) : Extreme{};
  };
  complete(seen.ulp, kind.ulp, worst_ulp);
  complete(seen.margin, kind.margin, worst_margin);
  kind.join(seen);
  Tally::join(seen);
  if (deepest.least > depth.value) depth = extreme(deepest.least, c, y, element(deepest.element), deepest.element, source);
}

void Accuracy::join(const Accuracy& other) {
  Tally::join(other);
  depth.join(other.depth);
  for (std::size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
  for (std::size_t i = 0; i < conditions.size(); ++i) conditions[i].join(other.conditions[i]);
  for (const auto& [kind, tally] : other.kinds) kinds[kind].join(tally);
}

}  // namespace norma::properties
