#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "kernels.h"

namespace norma::simd {
namespace {

Status refuse(Code code, std::string message) { return {code, std::move(message)}; }

Status validate(const Call& call) {
  const auto bad = [](Code code, const char* message) { return refuse(code, message); };
  if (!(call.epsilon >= 0 && call.epsilon < std::numeric_limits<double>::infinity())) {
    return bad(Code::bad_epsilon, "epsilon: expected a finite number >= 0");
  }
  return {};
}

}  // namespace

Status normalize(const Call& original) {
  if (Status status = validate(original); !status.ok()) return status;
  Call call = original;
  if (call.x_stride == 0) call.x_stride = static_cast<std::ptrdiff_t>(call.cols);
  if (call.y_stride == 0) call.y_stride = static_cast<std::ptrdiff_t>(call.cols);
  Rule rule;
  rule.call = &call;
  rule.spec.op = call.op;
  rule.spec.profile = call.profile;
  rule.spec.epsilon = call.epsilon;
  Counters counters;
  rows(rule, 0, call.rows, counters);
  counters.vector = call.rows * call.cols - counters.double_double - counters.exact;
  if (call.counters != nullptr) *call.counters = counters;
  return {};
}

}  // namespace norma::simd
