// The floating-point environment that IEEE 754 starts with, for as long as an object of this class lives: round to nearest, subnormals in
// and out, no traps. The caller's own, flags included, comes back at the end.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace norma::simd {

class FloatingPointEnvironment {
 public:
  FloatingPointEnvironment(const FloatingPointEnvironment&) = delete;
  FloatingPointEnvironment& operator=(const FloatingPointEnvironment&) = delete;

#if defined(__SSE2__)
  // Writing the register costs far more than reading it.
  FloatingPointEnvironment() : saved_(_mm_getcsr()) {
    if ((saved_ & ~flags) != initial) _mm_setcsr(initial);
  }
  ~FloatingPointEnvironment() {
    if (_mm_getcsr() != saved_) _mm_setcsr(saved_);
  }

 private:
  static constexpr std::uint32_t initial = 0x1F80;
  static constexpr std::uint32_t flags = 0x3F;
  std::uint32_t saved_;
#elif defined(__aarch64__)
  FloatingPointEnvironment() {
    std::uint64_t initial = 0;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control_), "=r"(status_));
    __asm__ volatile("msr fpcr, %0" : : "r"(initial));
  }
  ~FloatingPointEnvironment() { __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control_), "r"(status_)); }

 private:
  std::uint64_t control_ = 0;
  std::uint64_t status_ = 0;
#else
  FloatingPointEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatingPointEnvironment() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
};

}  // namespace norma::simd
