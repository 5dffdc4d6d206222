// Laws: what every correct normalization satisfies, each as a statement, the cases it can be asked of, and a check.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "norma/generate.h"
#include "norma/harness.h"
#include "norma/truth.h"

namespace norma::properties {

struct Accuracy;  // accuracy.h
struct Law;

// Where a case comes from: the law that it was made for, and its number.
struct Source {
  const Law* law = nullptr;
  std::int64_t number = 0;
};

enum class Severity : std::uint8_t { must, should };

struct Outcome {
  enum class Kind : std::uint8_t {
    holds,
    vacuous,  // the case says nothing about the law
    broken,
  };
  Kind kind = Kind::holds;
  std::string what;    // where broken: which element, what it is, what was expected
  bool range = false;  // where broken: the standard model does not apply, so that it is not a `must`
};

// One case on its way through a law. What a subject does not answer ends the check, by an exception that the search knows.
class Trial {
 public:
  // `accuracy`: of every y that has to do with the case, where wanted.
  Trial(Subject& subject, Case c, Accuracy* accuracy, const Source& source = {});

  const Case base;
  rc::Random random;  // from the salt: the law's own choices

  [[nodiscard]] const Arithmetic& arithmetic() const { return subject_.arithmetic(); }
  // The outputs of a case, complete.
  ByRole<Tensor> run(const Case& c);
  // The exact outputs, and the errors of `got`.
  Truth truth(const Case& c, const ByRole<Tensor>& got);

  struct Unanswered {
    Case c;
    Reply reply;
  };

 private:
  Subject& subject_;
  Accuracy* accuracy_;
  Source source_;
};

struct Law {
  std::string_view slug;
  std::string_view claim;  // what it is a test of: a theorem, a bound, or a contract. Claims are permanent, as slugs are
  std::string_view statement;
  Severity severity;
  bool by_design;  // holds to the bit by the grace of an algorithm: `must` only for those who declare it, else `should`
  Wish (*wish)();
  Outcome (*check)(Trial& trial);
  std::string_view stays = {};  // why, where no mutant is found by it alone or clearly first

  [[nodiscard]] Severity severity_for(const Arithmetic& arithmetic) const {
    return by_design && arithmetic.to_the_bit(slug) ? Severity::must : severity;
  }
};
[[nodiscard]] std::span<const Law> laws();
[[nodiscard]] const Law* law_named(std::string_view slug);  // null where there is none

}  // namespace norma::properties
