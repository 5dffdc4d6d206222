// How a mutant is made: the plain kernel with one step replaced, or by another method than it declares, or misled about its call.
#pragma once

#include <span>
#include <utility>

#include "kernel.h"
#include "norma/mutants.h"

namespace norma::properties {

template <template <class> class K, Method method = Method{}>
Status faulty(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return run<K>({spec, inputs, outputs}, method);
}

template <void (*change)(Call&)>
Status misled(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  Call call{spec, inputs, outputs};
  change(call);
  return run<Kernel>(std::move(call));
}

[[nodiscard]] inline bool by_row(const Spec& spec) { return info(spec.op).grouping == Grouping::trailing; }

// By where the fault is.
extern const std::span<const Mutant> faults_of_sums, faults_of_counts, faults_of_groups, faults_of_epsilon, faults_of_parameters,
    faults_of_values, faults_of_running_statistics, faults_of_axes, faults_of_memory;

}  // namespace norma::properties
