// Subjects to measure the laws with: honest ones, of which no law may complain, and mutants, each with one fault that a law has to find.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "norma/harness.h"

namespace norma::properties {

// Plain loops in f32 (f64 for f64), their arithmetic declared as it is.
[[nodiscard]] const std::vector<BuiltIn>& honest_kernels();

struct Mutant {
  std::string_view name;
  std::string_view fault;   // what is wrong with it
  std::string_view report;  // where somebody was bitten by it; empty where that is not known
  std::string_view law;     // that means it
};
[[nodiscard]] std::span<const Mutant> mutants();
[[nodiscard]] BuiltIn built_in(const Mutant& mutant);

}  // namespace norma::properties
