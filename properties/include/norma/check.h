// The search: laws, each on as many generated cases as asked, against a subject; and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
};

struct LawReport {
  const Law* law = nullptr;
  Severity severity = Severity::must;
  std::int64_t held = 0, vacuous = 0, unsupported = 0;
  std::int64_t broken = 0;  // in the law's severity
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

  [[nodiscard]] std::int64_t must_violations() const;
  [[nodiscard]] std::int64_t should_violations() const;
};

Report check(Subject& subject, const Settings& settings);

// How many cases of the search it takes to find out that a subject breaks a law, in whatever severity, where an honest one does not.
struct Hunt {
  bool found = false;
  std::int64_t cases = 0;  // the one that broke it included; all of them where none did
  double seconds = 0;      // that they took
};
[[nodiscard]] Hunt hunt(Subject& subject, Subject& honest, const Law& law, const Settings& settings);

// One case through one law. `what` says what is wrong; empty where the law holds.
Finding replay(Subject& subject, const Law& law, const Case& c);
// The command that does it with the line of a case; `subject` as the user names it.
[[nodiscard]] std::string replay_command(std::string_view subject, const Law& law, std::string_view line);
// One word for a shell.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace norma::properties
