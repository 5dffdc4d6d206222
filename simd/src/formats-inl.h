// From the formats of a call to types.

#if defined(NORMA_SIMD_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_FORMATS_INL_H_
#undef NORMA_SIMD_FORMATS_INL_H_
#else
#define NORMA_SIMD_FORMATS_INL_H_
#endif

#include "wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

// kernel(rule, T(), P()) with the types of x and of gain and bias.
template <class Kernel>
bool with_formats(const Rule& given, const Kernel& kernel) {
  Rule rule = given;
  rule.moments = &WideMomentsOf;
  const bool same = rule.call->params == rule.call->format;
  switch (rule.call->format) {
    case Format::f32:
      return kernel(rule, float(), float());
    case Format::f64:
      return same ? kernel(rule, double(), double()) : kernel(rule, double(), float());  // NOLINT(bugprone-branch-clone): two types
    case Format::f16:
      return same ? kernel(rule, float16_t(), float16_t()) : kernel(rule, float16_t(), float());
    default:
      return same ? kernel(rule, bfloat16_t(), bfloat16_t()) : kernel(rule, bfloat16_t(), float());
  }
}

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
