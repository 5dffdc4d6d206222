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
  std::string_view kind;    // the class that the collection of public reports puts it in; empty where nobody reported it
  std::string_view report;  // where somebody was bitten by it
  std::string_view law;     // that means it
  Status (*normalize)(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs);
  Status (*threaded)(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, int threads) = nullptr;
};
[[nodiscard]] std::span<const Mutant> mutants();
// It declares the arithmetic of the honest kernel that it is made of.
[[nodiscard]] BuiltIn built_in(const Mutant& mutant);

}  // namespace norma::properties
