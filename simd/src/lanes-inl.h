// Elements of every format as vectors of doubles, and vectors of doubles rounded back to it.
//
// A block is two vectors of doubles, and one of as many floats: everything below steps by blocks.

#if defined(NORMA_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_LANES_INL_H_
#undef NORMA_SIMD_LANES_INL_H_
#else
#define NORMA_SIMD_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using H = hn::Rebind<float, D>;  // a float for each double
using VD = hn::Vec<D>;
#if HWY_TARGET != HWY_SCALAR  // which has no two floats in the place of a double
using F = hn::Repartition<float, D>;
using I = hn::RebindToSigned<F>;
using VF = hn::Vec<F>;
using VI = hn::Vec<I>;
using MF = hn::Mask<F>;
#endif

using hwy::bfloat16_t;
using hwy::float16_t;

template <class T>
constexpr Format format_of() {
  if constexpr (std::is_same_v<T, float>) return Format::f32;
  if constexpr (std::is_same_v<T, double>) return Format::f64;
  if constexpr (std::is_same_v<T, float16_t>) return Format::f16;
  return Format::bf16;
}

// As many elements as there are doubles in a vector.
template <class T>
HWY_INLINE VD load_doubles(const T* from) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(D(), from);
  else if constexpr (std::is_same_v<T, float>)
    return hn::PromoteTo(D(), hn::LoadU(H(), from));
  else
    return hn::PromoteTo(D(), hn::PromoteTo(H(), hn::LoadU(hn::Rebind<T, D>(), from)));
}

#if HWY_TARGET != HWY_SCALAR

// As many elements as there are floats in a vector.
template <class T>
HWY_INLINE VF load_floats(const T* from) {
  if constexpr (std::is_same_v<T, float>)
    return hn::LoadU(F(), from);
  else
    return hn::PromoteTo(F(), hn::LoadU(hn::Rebind<T, F>(), from));
}

HWY_INLINE VF to_floats(VD low, VD high) { return hn::Combine(F(), hn::DemoteTo(H(), high), hn::DemoteTo(H(), low)); }

// Floats rounded to the format of T, to nearest even.
template <class T>
HWY_INLINE void store_floats(VF v, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(v, F(), to);
  } else if constexpr (std::is_same_v<T, float16_t>) {
    hn::StoreU(hn::DemoteTo(hn::Rebind<float16_t, F>(), v), hn::Rebind<float16_t, F>(), to);
  } else {
    // Half a unit in the last place less a bit, and the bit of the even neighbour; a carry out of the significand is right, out of the
    // largest value it makes infinity. NaNs do not come here.
    const hn::RebindToUnsigned<F> u32;
    const hn::Rebind<std::uint16_t, F> u16;
    const auto bits = hn::BitCast(u32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fff))));
    hn::StoreU(hn::DemoteTo(u16, hn::BitCast(I(), rounded)), u16, reinterpret_cast<std::uint16_t*>(to));
  }
}

// Decides for a block of doubles whether rounding each to the format of T gives the rounding of every real number near it.
//
// The midpoints between neighbours of the format are doubles (f32), or floats (f16, bf16: the double is rounded to a float first), whose
// bits behind the format's own are a one and zeros. A value whose trailing bits, as an integer, are more than `tolerance` from that
// pattern is farther than `tolerance` units of the wider format from any midpoint. That holds for the format's normal range: below it
// the midpoints lie elsewhere, so values there fail the test. Beyond it the pattern is that of the overflow threshold.
template <class T>
class RoundingTest {
 public:
  static constexpr int shift = std::is_same_v<T, float> ? 3 : std::is_same_v<T, float16_t> ? 19 : 16;
  // The smallest normal value, of the format and of its arithmetic in floats.
  static constexpr float least = std::is_same_v<T, float16_t> ? 0x1p-14f : 0x1p-125f;

  HWY_INLINE explicit RoundingTest(std::int32_t tolerance)
      : offset_(hn::Set(I(), tolerance << shift)), limit_(hn::Set(I(), INT32_MIN + (tolerance << (shift + 1)))) {}

  // `value` is to_floats(low, high). False where a midpoint is near, or |value| <= threshold, or value is NaN.
  HWY_INLINE MF passes(VD low, VD high, VF value, VF threshold) const {
    VI bits;
    if constexpr (std::is_same_v<T, float>)
      bits = hn::ConcatEven(I(), hn::BitCast(I(), high), hn::BitCast(I(), low));
    else
      bits = hn::BitCast(I(), value);
    const VI distance = hn::Add(hn::ShiftLeft<shift>(bits), offset_);
    return hn::And(hn::RebindMask(F(), hn::Gt(distance, limit_)), hn::Gt(hn::Abs(value), threshold));
  }

 private:
  VI offset_, limit_;
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
