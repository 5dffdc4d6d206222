#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

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

bool Rows(const Rule& given, std::size_t begin, std::size_t end, Counters& counters) {
  Rule rule = given;
  rule.moments = &WideMomentsOf;
  const bool same = rule.call->params == rule.call->format;
  switch (rule.call->format) {
    case Format::f32:
      return rows_of<float, float>(rule, begin, end, counters);
    case Format::f64:
      return same ? rows_of<double, double>(rule, begin, end, counters) : rows_of<double, float>(rule, begin, end, counters);
    case Format::f16:
      return same ? rows_of<float16_t, float16_t>(rule, begin, end, counters) : rows_of<float16_t, float>(rule, begin, end, counters);
    default:
      return same ? rows_of<bfloat16_t, bfloat16_t>(rule, begin, end, counters) : rows_of<bfloat16_t, float>(rule, begin, end, counters);
  }
}

}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace norma::simd {

HWY_EXPORT(Rows);

bool rows(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  return HWY_DYNAMIC_DISPATCH(Rows)(rule, begin, end, counters);
}

}  // namespace norma::simd
#endif
