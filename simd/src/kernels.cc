#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "channels-inl.h"
#include "columns-inl.h"
#include "fast-inl.h"
#include "rows-inl.h"
#include "wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {

template <class T, class P>
bool rows_of(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (!std::is_same_v<T, double>) {
    if (rule.call->accuracy == Accuracy::fast) {
      if (rule.centred()) return normalize_rows_fast<true, T, P>(rule, begin, end, counters);
      return normalize_rows_fast<false, T, P>(rule, begin, end, counters);
    }
  }
#endif
  if (rule.centred()) return normalize_rows<true, T, P>(rule, begin, end, counters);
  return normalize_rows<false, T, P>(rule, begin, end, counters);
}

// Calls kernel<T, P>() for the formats of a call.
template <class Kernel>
bool with_formats(const Rule& given, const Kernel& kernel) {
  Rule rule = given;
  rule.moments = &WideMomentsOf;
  const bool same = rule.call->params == rule.call->format;
  switch (rule.call->format) {
    case Format::f32:
      return kernel(rule, float(), float());
    case Format::f64:
      return same ? kernel(rule, double(), double()) : kernel(rule, double(), float());
    case Format::f16:
      return same ? kernel(rule, float16_t(), float16_t()) : kernel(rule, float16_t(), float());
    default:
      return same ? kernel(rule, bfloat16_t(), bfloat16_t()) : kernel(rule, bfloat16_t(), float());
  }
}

bool Rows(const Rule& given, std::size_t begin, std::size_t end, Counters& counters) {
  return with_formats(given,
                      [&](const Rule& rule, auto t, auto p) { return rows_of<decltype(t), decltype(p)>(rule, begin, end, counters); });
}
bool Runs(const Rule& given, std::size_t begin, std::size_t end, Counters& counters) {
  return with_formats(
      given, [&](const Rule& rule, auto t, auto p) { return normalize_runs<decltype(t), decltype(p)>(rule, begin, end, counters); });
}
bool Columns(const Rule& given, std::size_t begin, std::size_t end, Counters& counters) {
  return with_formats(
      given, [&](const Rule& rule, auto t, auto p) { return normalize_columns<decltype(t), decltype(p)>(rule, begin, end, counters); });
}

}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace norma::simd {

HWY_EXPORT(Rows);
HWY_EXPORT(Runs);
HWY_EXPORT(Columns);

bool rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  return HWY_DYNAMIC_DISPATCH(Rows)(rule, begin, end, counters);
}
bool runs(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  return HWY_DYNAMIC_DISPATCH(Runs)(rule, begin, end, counters);
}
bool columns(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  return HWY_DYNAMIC_DISPATCH(Columns)(rule, begin, end, counters);
}

}  // namespace norma::simd
#endif
