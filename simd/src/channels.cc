#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "channels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "channels-inl.h"
#include "columns-inl.h"
#include "formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {

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

HWY_EXPORT(Runs);
bool runs(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  return HWY_DYNAMIC_DISPATCH(Runs)(rule, begin, end, counters);
}

HWY_EXPORT(Columns);
bool columns(const Rule& rule, std::size_t begin, std::size_t end, Counters& counters) {
  return HWY_DYNAMIC_DISPATCH(Columns)(rule, begin, end, counters);
}

}  // namespace norma::simd
#endif
