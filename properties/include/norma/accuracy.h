// What the exact values say of every y that was looked at, in tables of fixed size that the shares of a run are joined by: sums and maxima.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "norma/law.h"

namespace norma::properties {

// The most that was seen of something; of equals the one that comes first.
struct Extreme {
  double value = 0;  // none was seen where it is zero
  Source source;
  std::string line;  // of the case
  std::string what;  // which element, and what it is by right
  double ulp = 0, margin = 0, condition = 0;

  void join(const Extreme& other);
};

// Of elements to which the standard model applies and whose exact value is a number.
struct Tally {
  std::int64_t elements = 0, correctly_rounded = 0, faithful = 0, within = 0;
  Extreme ulp, margin;  // the largest error, in ulp and as a part of its bound; of what is correctly rounded it is none

  void join(const Tally& other);
};

// The same by the condition number of the group, mean|x|/√v, in powers of two.
struct Condition {
  std::int64_t elements = 0;
  double ulp = 0, margin = 0;  // the largest
  // Error and bound in units in the last place at |γ|·max(1, |x̂|) + |β|, the size of what y is made of: there cancellation of γ·x̂ and β
  // does not hide what the condition number does. A bound is infinite where nothing is promised.
  double error = 0, bound = 0;

  void join(const Condition& other);
};

struct Accuracy : Tally {
  static constexpr int least_condition =
      -8;  // the exponent of the first bin; what is smaller is there too, and in the last one what is larger

  Extreme depth;                             // the least c whose bound covers everything seen (truth.h)
  std::array<std::int64_t, 24> histogram{};  // correctly rounded; then by log2 of the error in ulp: up to 1/2, 1, 2, 4, …
  std::array<Condition, 64> conditions{};
  std::map<std::pair<Op, Format>, Tally> kinds;  // by the op and the format of y

  // Every element of y of a case; `deepest` is what truth_of made of depth.value.
  void see(const Case& c, const Truth& truth, const Tensor& y, const Depth& deepest, const Source& source);
  void join(const Accuracy& other);
};

}  // namespace norma::properties
