// The search: laws, each on as many generated cases as asked, against a subject; and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/accuracy.h"
#include "norma/law.h"

namespace norma::properties {

struct Settings {
  std::uint64_t seed = 1;
  std::int64_t cases = 200;       // a law
  std::vector<std::string> laws;  // by slug; none: all
  std::vector<Op> ops;            // none: all
  std::vector<Format> formats;    // of x; none: f32, f16, bf16, f64
  std::int64_t shard = 1, shards = 1;
  bool stop_at_first = false;  // a law ends with its first `must` violation
  bool shrink = true;          // findings are made small
  std::function<void(std::int64_t steps)> progress;
};

struct Finding {
  Case original, smallest;
  std::string what;                     // of the smallest
  Reply::Kind reply = Reply::Kind::ok;  // other than ok: the subject did not answer this call, which may not be the case's own
  std::int64_t number = 0;              // of the original among the cases of its law
  bool vacuous = false;                 // of a replay: the case says nothing of the law
};

struct LawReport {
  const Law* law = nullptr;
  Severity severity = Severity::must;
  std::int64_t held = 0, vacuous = 0, unsupported = 0;
  std::int64_t broken = 0;  // in the law's severity, or in that of one of them who crashed, hung or misbehaved, which is `must`
  std::int64_t ranged = 0;  // broken where the standard model does not apply: `should`
  std::optional<Finding> first, first_ranged;
  std::map<std::string, std::int64_t> families;
  std::map<std::string, std::int64_t> reasons;  // why cases were unsupported

  [[nodiscard]] std::int64_t tested() const { return held + broken + ranged; }
  // Most of what was generated said nothing.
  [[nodiscard]] bool starved() const { return tested() + unsupported < vacuous; }
};

struct Report {
  std::string subject;
  std::string arithmetic;
  Settings settings;
  std::vector<LawReport> laws;
  Accuracy accuracy;
  std::string ended;  // why before its end, of a subject that does not answer: the last law, and those after it, were not asked to the full

  [[nodiscard]] std::int64_t must_violations() const;
  [[nodiscard]] std::int64_t should_violations() const;
};

Report check(Subject& subject, const Settings& settings);

// A subject, and what hope there is of it.
class Watched final : public Subject {
 public:
  explicit Watched(Subject& subject) : subject_(subject) {}
  [[nodiscard]] const std::string& name() const override { return subject_.name(); }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return subject_.arithmetic(); }
  Reply run(const Case& c) override;
  void restart() override { subject_.restart(); }
  // Why it is not to be asked any more: it cannot be started again, or nearly all that it does is hang or crash. Empty where it may be.
  [[nodiscard]] std::string hopeless() const;

 private:
  Subject& subject_;
  std::string lost_;
  std::int64_t hung_ = 0, crashed_ = 0;
  bool computed_ = false;
};

// How many cases of the search it takes to find out that a subject breaks a law, in whatever severity, where an honest one does not.
struct Hunt {
  bool found = false;
  std::int64_t cases = 0;  // the one that broke it included; all of them where none did
  double seconds = 0;      // from the beginning until then, of all that were hunted together
};
// Of many subjects at once, all of the arithmetic of the honest one: what takes the time, a case and its exact values, is common to those
// who give the same answers. Each is asked what it would be asked alone, and so found by the same case. Progress is by subjects and cases.
[[nodiscard]] std::vector<Hunt> hunt(std::span<Subject* const> subjects, Subject& honest, const Law& law, const Settings& settings);

// Whether a law can be asked of a case: one of its own, or any where all that it looks at are the bounds.
[[nodiscard]] bool can_be_asked(const Law& law, const Case& c);
// One such case through one law. `what` says what is wrong; empty where the law holds, or the case is vacuous.
Finding replay(Subject& subject, const Law& law, const Case& c);
// The command that does it with the line of a case; `subject` as the user names it.
[[nodiscard]] std::string replay_command(std::string_view subject, const Law& law, std::string_view line);
// One word for a shell.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace norma::properties
