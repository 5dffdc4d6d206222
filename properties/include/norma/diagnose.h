// What a subject computes instead: where its outputs are wrong they are held against hypotheses, each a way to be wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "norma/harness.h"
#include "norma/spec.h"

namespace norma::properties {

// How many elements of the outputs in question are as something has them: exactly, and within the bound of the subject's arithmetic.
struct Agreement {
  std::int64_t elements = 0, to_the_bit = 0, within = 0;

  friend bool operator==(const Agreement&, const Agreement&) = default;

  [[nodiscard]] double part_to_the_bit() const {
    return elements == 0 ? 0 : static_cast<double>(to_the_bit) / static_cast<double>(elements);
  }
  [[nodiscard]] double part_within() const { return elements == 0 ? 0 : static_cast<double>(within) / static_cast<double>(elements); }
};

// A hypothesis: another value of a field of the profile, which is computed exactly; two of them; or the fault of a mutant, in its loop.
struct Explanation {
  std::string name;
  std::string says;
  Agreement wrong;  // with outputs that are not the exact ones
  Agreement right;  // with outputs that are: a hypothesis must not contradict them

  [[nodiscard]] double score() const { return wrong.part_within() - (right.elements == 0 ? 0 : 1 - right.part_within()); }
  // Nearly everything is as it says, and it says something else than the definition does.
  [[nodiscard]] bool explains(const Agreement& exact) const { return score() > 0.9 && wrong.within > exact.within; }
};

struct Diagnosis {
  Op op = Op::layer_norm;
  std::int64_t cases = 0;        // that were answered
  std::int64_t unsupported = 0;  // that were not, because the subject does not do this
  std::int64_t unanswered = 0;   // that ended in a crash, a hang, a refusal or misbehaviour
  std::string unanswered_because;
  std::int64_t wrong = 0;                 // of the answered ones: some output leaves the bound
  bool range_only = true;                 // they do so only where a square or a sum leaves the range of the compute format
  Roles outputs{};                        // which
  Agreement exact;                        // of the wrong outputs with the exact values
  std::vector<Explanation> explanations;  // the best first, at most three
  // The least generous arithmetic whose bound holds everything that was seen, in the words of subject.h.
  std::optional<std::string> arithmetic;
  std::optional<Case> simplest;  // of the wrong ones: the fewest elements
};

struct DiagnosisSettings {
  std::vector<Op> ops;  // none: all
  std::vector<Format> formats;
  std::int64_t cases = 400;  // an op
  std::uint64_t seed = 1;
  std::function<void(std::int64_t steps)> progress;
  [[nodiscard]] const std::vector<Op>& asked() const;
  [[nodiscard]] std::int64_t steps() const;
};

// One for each op. The hypotheses run behind walls of their own.
Result<std::vector<Diagnosis>> diagnose(Subject& subject, const DiagnosisSettings& settings);

}  // namespace norma::properties
