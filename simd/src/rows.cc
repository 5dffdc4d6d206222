#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "fast-inl.h"
#include "formats-inl.h"
#include "rows-inl.h"

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
  return with_formats(given,
                      [&](const Rule& rule, auto t, auto p) { return rows_of<decltype(t), decltype(p)>(rule, begin, end, counters); });
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
