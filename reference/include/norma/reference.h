// The reference: the correctly rounded value of every output of every op, and, for those who want to measure rather than compute, the
// exact value behind it.
//
// Definition (Ba, Kiros and Hinton 2016, equations 3 and 4; Ioffe and Szegedy 2015 for the batch; Zhang and Sennrich 2019 for RMSNorm),
// for a group x of n elements, in real arithmetic with one rounding at the very end:
//     μ = Σx/n    σ² = Σ(x − μ)²/n    rstd = 1/√(σ² + ε)    x̂ = (x − μ)·rstd    y = γ·x̂ + β
// The ops differ in what forms a group and in whether a mean is subtracted; the profile says what else may differ. weight_norm is
// y = g·v/√(Σv² + ε), with ε = 0 unless given.
//
// Formats of inputs and outputs are independent of one another. Inputs of any value are accepted: NaN and infinities follow IEEE 754
// evaluation of the formulas above and stay in their group; ε = 0 with σ² = 0 is 0/0. Signs of zero follow that evaluation too.
// Error bound: none is needed. Every output has the bits of the real value rounded once (twice where the profile says
// cast_before_gain). Nothing here prints, aborts or reads the environment; of exceptions only std::bad_alloc can occur.
#pragma once

#include <functional>

#include "norma/exact.h"
#include "norma/spec.h"
#include "norma/status.h"

namespace norma {

// Computes every output that is given into its memory, in its format. Shapes:
//   y, sum, deviation, xhat, residual   the shape of x;
//   gamma, beta                         layer_norm, rms_norm: any shape that broadcasts to that of x, aligned at the last axis;
//                                       batch, group and instance norm: [channels]; weight_norm: [units];
//   mean, variance, rstd                one value per group: the leading axes; [channels]; [cases, groups]; [units]. `variance` is what
//                                       stands under the root beside ε: the mean square in rms_norm, the sum of squares in weight_norm;
//   running_mean, running_variance      [channels].
// Where a parameter's or a statistic's shape is fixed, additional axes of extent 1 are accepted anywhere.
// An output may be the very view of an input of x's shape, or of the running statistic it updates; no other overlap is allowed, not even of
// views whose elements interleave.
// An empty batch leaves running statistics as they are. On any status but ok, no output has been touched; after
// std::bad_alloc, which only rows of thousands of exponents can provoke, some may have been.
Status compute(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, Mode mode = Mode::nearest_even);

// Called with the role, the offset in elements of the output's view at which the value belongs, and the value itself, exactly. The Real
// lives for the call.
using Visitor = std::function<void(Role role, std::int64_t offset, const Real& value)>;

// Hands every element of every wanted output to `visit`. Of the views in `wanted` only format, shape and strides count, and the
// format only for cast_before_gain. Values of one group are visited together, statistics first, then element by element.
Status evaluate(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& wanted, Mode mode, const Visitor& visit);

// The shape that an input or output has, given that of x; parameters without broadcasting.
Result<Shape> tensor_shape(const Spec& spec, const Shape& x, Role role);

}  // namespace norma
