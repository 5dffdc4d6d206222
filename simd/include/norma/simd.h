// The production path: normalization for a runtime that ships it.
//
// Two accuracies:
//   correctly_rounded   every output has the bits of the exact value rounded once, to nearest even: the bits of norma::compute, on every
//                       instruction set, for any number of threads, any batch, any position in it, any alignment.
//   fast                least time: layer and RMS norm of f32, f16 and bf16 in f32; the others, of f32, in f64 without the test of the
//                       rounding. A group whose numbers do not suit that (a condition too high, a square near overflow or underflow, a y
//                       that might come near the end of the format, anything not finite), a call that adds a residual or wants
//                       statistics, given statistics, and the rest are computed correctly rounded instead. The bits depend on the group,
//                       the layout and the instruction set alone. What is exactly a number is one; a flat group gives the bias, up to the
//                       sign of a zero. Error bound, with u = 2^-24, n the size of a group, g the gain (γ, or 1 + γ) and
//                       c = 39 + max(0, log2(n/2048)):
//                           |ŷ − y| <= c·u·|g|·(17·|x̂| + 5) + 3u·(|y| + |β|) + ½ ulp(y)
//
// Nothing here prints, aborts, reads the environment or touches a byte outside the tensors; of exceptions only std::bad_alloc can occur.
// Memory is allocated where a call normalizes in place or adds a residual without keeping the sum (one buffer per thread, kept and grown),
// and for a group of which some element needs the lower rungs. The floating-point environment of the caller has no influence (rounding
// direction, flush to zero, denormals are zero, masked exceptions) and is restored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "norma/spec.h"
#include "norma/status.h"

namespace norma::simd {

enum class Accuracy : std::uint8_t { correctly_rounded, fast };

// Which axis lies contiguous in memory: NCHW, where a case is channels × positions, or NHWC, positions × channels.
enum class Layout : std::uint8_t { channels_first, channels_last };

// How many elements each rung of the ladder settled, summed over calls. A call adds to them when it is done; they may be shared between
// threads. Of a call with `fast` only what a lower rung settled is counted.
struct Counters {
  std::uint64_t vector = 0;         // vectors of doubles, of pairs of them for f64, and a test of the rounding
  std::uint64_t double_double = 0;  // pairs of doubles, and a test
  std::uint64_t exact = 0;          // integers
};

// Somebody's threads. Norma starts none.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;
  // How many tasks can run at once.
  [[nodiscard]] virtual std::size_t threads() const = 0;
  // Calls task(context, i) once for every i in [0, tasks), in any order, and returns when all are done. `task` throws nothing but
  // std::bad_alloc.
  virtual void run(std::size_t tasks, void (*task)(void* context, std::size_t i), void* context) = 0;
};

// The largest group: elements of a row, or of a channel over the batch.
inline constexpr std::size_t largest_group = std::size_t{1} << 31;

// One call. Tensors need no alignment. Strides count elements from one row to the next of a tensor, where a row is what lies contiguous:
//   layer_norm, rms_norm        x[rows][cols], a row is `cols` elements;
//   the others, channels_first  x[cases][channels][positions], a row is a case;
//   the others, channels_last   x[cases][positions][channels], a row is the channels of one position.
// A stride of 0 stands for rows that follow one another without a gap. Rows of outputs do not overlap.
// An empty tensor (rows, cols, cases, channels or positions 0) is no error and needs no pointers.
struct Call {
  Op op = Op::layer_norm;  // weight_norm is not offered
  Accuracy accuracy = Accuracy::correctly_rounded;
  // Not offered: epsilon outside, unbiased variance, cast_before_gain, an exact residual sum.
  Profile profile;
  double epsilon = std::numeric_limits<double>::quiet_NaN();  // required, >= 0

  Format format = Format::f32;      // of x, residual, sum and y: f32, f64, f16 or bf16
  Format params = Format::f32;      // of gamma and beta: f32 or `format`
  Format statistics = Format::f32;  // of mean, variance, rstd and the running ones: f32 or `format`

  std::size_t rows = 0, cols = 0;                      // layer_norm, rms_norm
  std::size_t cases = 0, channels = 0, positions = 1;  // the others; positions is H·W, 1 for NC
  std::size_t groups = 1;                              // group_norm: a divisor of channels
  Layout layout = Layout::channels_first;

  const void* x = nullptr;
  const void* residual = nullptr;     // layer_norm, rms_norm: x + residual, rounded to `format`, takes the place of x
  const void* gamma = nullptr;        // [cols] or [channels]; null for 1 (for 0 with gain_offset)
  const void* beta = nullptr;         // [cols] or [channels]; null for none
  const void* mean_in = nullptr;      // batch_norm_inference, required: [channels]
  const void* variance_in = nullptr;  // batch_norm_inference, required: [channels]
  void* y = nullptr;                  // required; may be x or residual itself, with its stride
  void* sum = nullptr;                // x + residual, rounded; may be x or residual itself, with its stride
  void* mean = nullptr;               // per group, optional as all below
  void* rstd = nullptr;
  void* running_mean = nullptr;  // batch_norm_training, updated: [channels]
  void* running_variance = nullptr;
  double momentum = 0.1;

  std::ptrdiff_t x_stride = 0, residual_stride = 0, y_stride = 0, sum_stride = 0;

  Executor* executor = nullptr;  // null: the calling thread alone
  Counters* counters = nullptr;
};

// Computes y and what else is asked for. On any status but ok nothing has been written, with one exception: on no_memory some rows may have
// been, each as a whole, and where outputs take the place of inputs those rows' inputs are gone.
Status normalize(const Call& call);

}  // namespace norma::simd
