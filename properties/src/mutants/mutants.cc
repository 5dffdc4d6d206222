#include "norma/mutants.h"

#include <string>

#include "faults.h"

namespace norma::properties {

std::span<const Mutant> mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> list;
    for (const auto part : {faults_of_axes, faults_of_groups, faults_of_counts, faults_of_sums, faults_of_epsilon, faults_of_parameters,
                            faults_of_values, faults_of_running_statistics, faults_of_memory}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

BuiltIn built_in(const Mutant& mutant) {
  return {"mutant:" + std::string(mutant.name), std::string(mutant.fault), honest_kernels().front().words, mutant.normalize,
          mutant.threaded};
}

}  // namespace norma::properties
