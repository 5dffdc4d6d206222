// The production path as `norma run` and later subjects meet it: a spec and tensors by role, in norma::simd's own terms.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "norma/rounding.h"
#include "norma/simd.h"
#include "norma/spec.h"
#include "norma/status.h"

namespace norma::program {

inline constexpr std::size_t most_threads = 1024;

// oneTBB's threads, at most so many.
class Threads final : public simd::Executor {
 public:
  explicit Threads(std::size_t threads);
  ~Threads() override;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  [[nodiscard]] std::size_t threads() const override;
  void run(std::size_t tasks, void (*task)(void* context, std::size_t i), void* context) override;

 private:
  struct Arena;  // so that nobody else has to know oneTBB
  std::unique_ptr<Arena> arena_;
};
// So many, kept from call to call: for a process that does nothing else.
Threads& kept_threads(int count);

// As many as this process may run on.
[[nodiscard]] std::size_t all_threads();

// How to compute, beyond what the spec says.
struct Production {
  simd::Accuracy accuracy = simd::Accuracy::correctly_rounded;
  simd::Executor* executor = nullptr;
  simd::Counters* counters = nullptr;
};

// Computes with norma::simd what norma::compute computes. What makes no sense is refused as there; what does, but is not offered here, with
// a sentence that says so. On any status but ok, no output but a running statistic has been touched.
Status produce(const Spec& spec, Mode mode, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, const Production& how);

// What computes the same bits by design says of itself as a subject (norma/subject.h).
inline constexpr std::string_view correctly_rounded_words =
    "algorithm=correctly_rounded bitwise=batch_independence,scale_invariance,alignment,threads threads";

}  // namespace norma::program
