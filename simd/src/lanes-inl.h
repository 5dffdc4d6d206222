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

// Highway emulates the conversions of f16 where there is no instruction for them, without infinities, NaNs or rounding to nearest even.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)) || \
    (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR)
constexpr bool native_f16 = true;
#else
constexpr bool native_f16 = false;
#endif

template <class DF>
HWY_INLINE hn::Vec<DF> floats_of(DF f, const float16_t* from) {
  if constexpr (native_f16) {
    return hn::PromoteTo(f, hn::LoadU(hn::Rebind<float16_t, DF>(), from));
  } else {
    // The bits of a half in the place of a float's, which makes the exponent too small by 112; infinities and NaNs get the largest one.
    const hn::RebindToSigned<DF> i;
    const auto half = hn::PromoteTo(i, hn::LoadU(hn::Rebind<std::uint16_t, DF>(), reinterpret_cast<const std::uint16_t*>(from)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(i, 0x7fff)));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(i, 0x8000)));
    const auto scaled = hn::BitCast(i, hn::Mul(hn::BitCast(f, magnitude), hn::Set(f, 0x1p112F)));
    const auto special = hn::Gt(magnitude, hn::Set(i, 0x7bff << 13));
    return hn::BitCast(f, hn::Or(sign, hn::IfThenElse(special, hn::Or(magnitude, hn::Set(i, 0x7f800000)), scaled)));
  }
}
template <class DF>
HWY_INLINE hn::Vec<DF> floats_of(DF f, const bfloat16_t* from) {
  return hn::PromoteTo(f, hn::LoadU(hn::Rebind<bfloat16_t, DF>(), from));
}

// As many elements as there are doubles in a vector.
template <class T>
HWY_INLINE VD load_doubles(const T* from) {
  if constexpr (std::is_same_v<T, double>) {
    return hn::LoadU(D(), from);
  } else if constexpr (std::is_same_v<T, float>) {
    return hn::PromoteTo(D(), hn::LoadU(H(), from));
  } else {
    return hn::PromoteTo(D(), floats_of(H(), from));
  }
}

#if HWY_TARGET != HWY_SCALAR

// As many elements as there are floats in a vector.
template <class T>
HWY_INLINE VF load_floats(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(F(), from);
  } else {
    return floats_of(F(), from);
  }
}

template <class T>
HWY_INLINE float load_float(const T* from) {
  const hn::CappedTag<float, 1> f;
  if constexpr (std::is_same_v<T, float>) {
    return hn::GetLane(hn::LoadU(f, from));
  } else {
    return hn::GetLane(floats_of(f, from));
  }
}

HWY_INLINE VF to_floats(VD low, VD high) {
  const VF v = hn::Combine(F(), hn::DemoteTo(H(), high), hn::DemoteTo(H(), low));
#if HWY_TARGET == HWY_EMU128  // which stops at the largest float
  const auto beyond = [](VD d) HWY_ATTR { return hn::IfThenElseZero(hn::Ge(hn::Abs(d), hn::Set(D(), 0x1.ffffffp127)), d); };
  const VF huge = hn::Combine(F(), hn::DemoteTo(H(), beyond(high)), hn::DemoteTo(H(), beyond(low)));
  return hn::IfThenElse(hn::Ne(huge, hn::Zero(F())), hn::CopySign(hn::Inf(F()), huge), v);
#else
  return v;
#endif
}

HWY_INLINE VF quieted(VF v) { return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(F(), hn::Set(I(), 0x7fc00000)), v); }

// Floats rounded to the format of T, to nearest even. NaNs come out right only if `quieted`.
// Past the caches with `stream`, for which `to` is a multiple of the vector's bytes. Where a test of the rounding follows, what is halfway
// between two values need not be right.
template <bool kHalfway = true, class T>
HWY_INLINE void store_floats(VF v, T* to, bool stream = false) {
  if constexpr (std::is_same_v<T, float>) {
    if (stream) {
      hn::Stream(v, F(), to);
    } else {
      hn::StoreU(v, F(), to);
    }
  } else if constexpr (std::is_same_v<T, float16_t> && native_f16) {
    hn::StoreU(hn::DemoteTo(hn::Rebind<float16_t, F>(), v), hn::Rebind<float16_t, F>(), to);
  } else if constexpr (std::is_same_v<T, float16_t>) {
    const hn::Rebind<std::uint16_t, F> u16;
    const VI bits = hn::BitCast(I(), v);
    const VI magnitude = hn::And(bits, hn::Set(I(), 0x7fffffff));
    const VI sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(I(), 0x8000));
    // As below for bf16, after taking 112 from the exponent; what is beyond becomes infinity.
    const VI odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(I(), 1));
    const VI carried = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, hn::Set(I(), 0xfff - (112 << 23)))));
    const VI normal = hn::Min(carried, hn::Set(I(), 0x7c00));
    // The last place of 1/2 is that of a subnormal half: the addition rounds.
    const VF half = hn::Set(F(), 0.5F);
    const VI small = hn::Sub(hn::BitCast(I(), hn::Add(hn::BitCast(F(), magnitude), half)), hn::BitCast(I(), half));
    VI rounded = hn::IfThenElse(hn::Lt(magnitude, hn::Set(I(), 113 << 23)), small, normal);
    rounded = hn::IfThenElse(hn::Gt(magnitude, hn::Set(I(), 0x7f800000)), hn::Set(I(), 0x7e00), rounded);
    hn::StoreU(hn::DemoteTo(u16, hn::Or(sign, rounded)), u16, reinterpret_cast<std::uint16_t*>(to));
  } else {
    // Half a unit in the last place less a bit, and the bit of the even neighbour; a carry out of the significand is right, out of the
    // largest value it makes infinity.
    const hn::RebindToUnsigned<F> u32;
    const hn::Rebind<std::uint16_t, F> u16;
    const auto bits = hn::BitCast(u32, v);
    auto carry = hn::Set(u32, 0x8000);
    if (kHalfway) carry = hn::Add(hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1)), hn::Set(u32, 0x7fff));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, carry));
    hn::StoreU(hn::DemoteTo(u16, hn::BitCast(I(), rounded)), u16, reinterpret_cast<std::uint16_t*>(to));
  }
}

// The smallest normal value, of the format and of its arithmetic in floats.
template <class T>
constexpr float smallest_normal = std::is_same_v<T, float16_t> ? 0x1p-14F : 0x1p-125F;

// Which floats lie halfway between two values of T.
template <class T>
HWY_INLINE MF halfway(VF v) {
  if constexpr (std::is_same_v<T, float>) return hn::Not(hn::FirstN(F(), hn::Lanes(F())));
  constexpr int behind = std::is_same_v<T, float16_t> ? 13 : 16;
  const VI bits = hn::And(hn::BitCast(I(), v), hn::Set(I(), (1 << behind) - 1));
  return hn::RebindMask(F(), hn::Eq(bits, hn::Set(I(), 1 << (behind - 1))));
}

// Whether all between two floats rounds to the same value of T, in its normal range. Neither is NaN where it does.
template <class T>
HWY_INLINE MF round_alike(VF below, VF above) {
  const VI low = hn::BitCast(I(), below);
  const VI high = hn::BitCast(I(), above);
  if constexpr (std::is_same_v<T, float>) {
    return hn::And(hn::Eq(below, above), hn::RebindMask(F(), hn::Eq(low, high)));  // zeros of different sign are not alike
  } else {
    // Between the same midpoints, and on neither of them.
    constexpr int behind = std::is_same_v<T, float16_t> ? 13 : 16;
    const VI half = hn::Set(I(), 1 << (behind - 1));
    const auto same = hn::Eq(hn::ShiftRight<behind>(hn::Add(low, half)), hn::ShiftRight<behind>(hn::Add(high, half)));
    const MF tie = hn::Or(halfway<T>(below), halfway<T>(above));
    const VF least = hn::Set(F(), smallest_normal<T>);
    const MF normal = hn::And(hn::Ge(hn::Abs(below), least), hn::Ge(hn::Abs(above), least));
    return hn::And(normal, hn::AndNot(tie, hn::RebindMask(F(), same)));
  }
}

// The smaller magnitude; of a number and NaN the number.
HWY_INLINE VF least_magnitude(VF a, VF b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return VF{_mm512_range_ps(a.raw, b.raw, 0b1010)};
#else
  return hn::BitCast(F(), hn::Min(hn::BitCast(I(), a), hn::BitCast(I(), hn::Abs(b))));  // a is one already
#endif
}

// Decides for blocks of doubles whether rounding each to the format of T gives the rounding of every real number near it.
//
// The midpoints between neighbours of the format are doubles (f32), or floats (f16, bf16: the double is rounded to a float first), whose
// bits behind the format's own are a one and zeros. A value whose trailing bits, as an integer, are more than `tolerance` from that
// pattern is farther than `tolerance` units of the wider format from any midpoint. That holds for the format's normal range: below it
// the midpoints lie elsewhere, so values there have to fail. Beyond it the pattern is that of the overflow threshold.
//
// Several blocks share one verdict: of each lane the least distance and the least margin are kept.
template <class T>
class RoundingTest {
 public:
  using U = hn::RebindToUnsigned<F>;
  using VU = hn::Vec<U>;
  HWY_INLINE explicit RoundingTest(std::int32_t tolerance)
      : offset_(hn::Set(U(), static_cast<std::uint32_t>(tolerance) - (trailing + 1) / 2)),
        limit_(hn::Set(I(), 2 * tolerance)),
        distance_(hn::Set(U(), trailing)),
        magnitude_(hn::BitCast(F(), hn::Set(I(), 0x7fffffff))) {}

  // `value` is to_floats(low, high). All have one threshold, which goes to `passes`.
  HWY_INLINE void add(VD low, VD high, VF value) {
    add_distance(low, high, value);
    magnitude_ = least_magnitude(magnitude_, value);
  }
  // Each has its own, and `passes` gets none.
  HWY_INLINE void add(VD low, VD high, VF value, VF threshold) {
    add_distance(low, high, value);
    above_ = hn::And(above_, hn::Gt(hn::Abs(value), threshold));
  }

  // False where a midpoint is near, or |value| <= threshold, or the threshold is NaN, as it is where gain or bias are not finite.
  [[nodiscard]] HWY_INLINE MF passes(VF threshold) const {
    const MF far = hn::RebindMask(F(), hn::Gt(hn::BitCast(I(), distance_), limit_));
    return hn::And(far, hn::Gt(magnitude_, threshold));
  }
  [[nodiscard]] HWY_INLINE MF passes() const { return hn::And(hn::RebindMask(F(), hn::Gt(hn::BitCast(I(), distance_), limit_)), above_); }

 private:
  HWY_INLINE void add_distance(VD low, VD high, VF value) {
    VU wide = hn::BitCast(U(), value);
    if constexpr (std::is_same_v<T, float>) wide = hn::ConcatEven(U(), hn::BitCast(U(), high), hn::BitCast(U(), low));
    distance_ = hn::Min(distance_, hn::And(hn::Add(wide, offset_), hn::Set(U(), trailing)));
  }

  // The bits behind the format's own in the wider one.
  static constexpr std::uint32_t trailing = (1U << (std::is_same_v<T, float> ? 29 : std::is_same_v<T, float16_t> ? 13 : 16)) - 1;
  VU offset_;
  VI limit_;
  VU distance_;
  VF magnitude_;
  MF above_ = hn::FirstN(F(), hn::Lanes(F()));
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
