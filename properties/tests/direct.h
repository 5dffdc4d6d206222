// A function as a subject without a wall around it: for tests of what is on this side of it.
#pragma once

#include <memory>
#include <utility>

#include "norma/check.h"
#include "norma/harness.h"
#include "norma/reference.h"

namespace norma::properties {

class Direct final : public Subject {
 public:
  explicit Direct(const BuiltIn& subject) : subject_(std::move(*start_here(subject))) {}
  [[nodiscard]] const std::string& name() const override { return subject_->name(); }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return subject_->arithmetic(); }
  Reply run(const Case& c) override { return subject_->run(c); }

 private:
  std::unique_ptr<Subject> subject_;
};

// The reference with its spec changed first: what most mistakes are.
inline BuiltIn reference_with(std::string name, void (*change)(Spec&)) {
  return {std::move(name), "", "algorithm=correctly_rounded bitwise=batch_independence,scale_invariance,alignment,threads threads",
          [change](const Spec& asked, const ByRole<ConstView>& given, const ByRole<View>& outputs) {
            Spec spec = asked;
            change(spec);
            return compute(spec, with_running(given, outputs), outputs);
          }};
}

}  // namespace norma::properties
