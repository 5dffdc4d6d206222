// The exact outputs of a case, and how far an honest subject of a given arithmetic may be from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "norma/harness.h"

namespace norma::properties {

// How far from the exact value an output may be.
//
// For two_pass in the standard model fl(a∘b) = (a∘b)(1+δ) + η, |δ| <= u, η at most the smallest subnormal number and 0 for sums, with
// g_k = ku/(1−ku), A = mean|x|, v = σ² + ε, D = g_{c+2}·A + η, t = D/√(v+D²), c the depth of the sums and K = 9:
//     |ŷ − y| <= |γ|·(t + |x̂|·(1 − 1/√(1+D²/v)) + g_{c+K}·(|x̂| + t) + η) + g_2·(|γ·x̂| + |β|) + η + ½ ulp
// with the ulp where |y| and all the rest before it may take y: an error may carry it into the next binade.
// The mean's error e, |e| <= D, enters through Σ(x − μ̂)² = n(σ² + e²), which is exact.
// single_pass computes σ² as Σx²/n − μ̂², which is off by g_{c+4}·(Σx²/n + μ²); welford's update loses h·σ·√(σ² + A²) + h²A² of it,
// h = g_{4c+9}, and D is g_{2c+6}·A + (c+2)·η there: each step's mean is rounded, and what follows averages that out again; a group
// of equal elements it leaves exact. Where such a loss may reach v nothing is promised. A mean of sums in a wider format is rounded for the
// deviations, products before they are summed: D has u·A more, and the losses what these roundings add. What is given in a format wider
// than the compute format is rounded once more. correctly_rounded is off by nothing but its rounding.
struct Element {
  double exact = 0;      // rounded to a double
  double xhat = 0;       // of y
  double bound = 0;      // absolute, the last rounding included; infinite where nothing is promised
  double error = 0;      // |got − exact|, in units in the last place of its format at the exact value
  double ulp = 0;        // that unit
  double distance = 0;   // |got − exact|; error·ulp, but for infinities and for errors of more units than a double can count
  Bits rounded = 0;      // the correctly rounded value
  bool range = false;    // a square, a sum or a factor of y leaves the range of the compute format: the standard model does not apply
  double condition = 0;  // of y: A/√v of its group
  double size = 0;       // of y: |γ|·max(1, |x̂|) + |β|, what it is made of
};

// Bounds and errors are doubles, themselves rounded: what is compared with a bound may be this many times as large.
inline constexpr double bound_slack = 1 + 1e-9;
// An infinity is as far away as the least number that rounds to it, with room to spare.
[[nodiscard]] double least_infinite(Format format);

// Whether an element is as an honest subject gives it.
[[nodiscard]] bool within_bound(const Element& e, Format format, Bits got);

// Of one output, element by element. Not finite exact values have error 0 where the reply is the same special value, else infinity.
using Elements = std::vector<Element>;

struct Truth {
  ByRole<Elements> outputs;

  [[nodiscard]] const Elements& y() const { return *outputs[Role::y]; }
};

// The least c whose bound covers what was seen: one number for how well a kernel sums. Infinite where no c does; u·c < 1 has to hold.
struct Depth {
  double least = 0;
  std::int64_t element = -1;  // of y that needs it
};

// Whether bounds say anything of a case: not of x in a format that the compute format does not hold.
[[nodiscard]] bool promises(const Arithmetic& arithmetic, const Case& c);

// Of the outputs in the case; `error` where `got`, if it is given, has the tensor. `depth`, if it is given, is raised to what y takes
// where the standard model applies; a correctly_rounded subject is graded as two_pass.
Result<Truth> truth_of(const Case& c, const Arithmetic& arithmetic, const ByRole<Tensor>* got = nullptr, Depth* depth = nullptr);

}  // namespace norma::properties
