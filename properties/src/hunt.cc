#include <algorithm>
#include <chrono>

#include "norma/check.h"
#include "verdict.h"

namespace norma::properties {
namespace {

bool same(const Reply& a, const Reply& b) {
  if (a.kind != b.kind || a.what != b.what) return false;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const auto &s = a.outputs[role], &t = b.outputs[role];
    if (s.has_value() != t.has_value() || (s && (s->format != t->format || s->shape != t->shape || s->data != t->data))) return false;
  }
  return true;
}

// What a subject was asked in a check, and what it said. The next check of the same law and case asks the same again, as long as it has
// said the same: so it may begin with the calls that were made already.
class Witness final : public Subject {
 public:
  struct Call {
    Case c;
    Reply reply;
  };

  explicit Witness(Subject& subject) : subject_(subject) {}
  [[nodiscard]] const std::string& name() const override { return subject_.name(); }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return subject_.arithmetic(); }
  Reply run(const Case& c) override {
    if (heard_ == calls.size()) calls.push_back({c, subject_.run(c)});
    return calls[heard_++].reply;
  }
  // Whether it says what somebody else said, call by call.
  bool repeats(const std::vector<Call>& others) {
    heard_ = 0;
    const bool all = std::all_of(others.begin(), others.end(), [&](const Call& other) { return same(run(other.c), other.reply); });
    heard_ = 0;
    return all;
  }

  std::vector<Call> calls;

 private:
  Subject& subject_;
  std::size_t heard_ = 0;
};

// A case of a law, put to one subject after another of the same arithmetic. A law looks at nothing but answers: who gives those that
// somebody gave before, to the bit, has that one's verdict, and nobody asks the reference again.
class Probe {
 public:
  Probe(const Wish& wish, const Law& law, const Settings& settings, std::int64_t number)
      : wish_(wish), law_(law), settings_(settings), number_(number) {}

  Verdict put(Subject& subject) {
    Verdict verdict;
    for (int draw = 0; draw < draws; ++draw) {
      if (draw == static_cast<int>(drawn_.size())) drawn_.push_back({drawn(wish_, law_, settings_, number_, draw).value(), {}});
      verdict = put(subject, drawn_[static_cast<std::size_t>(draw)]);
      if (verdict.outcome.kind != Outcome::Kind::vacuous) break;
    }
    return verdict;
  }

 private:
  struct Answered {
    std::vector<Witness::Call> calls;
    Verdict verdict;
  };
  struct Drawn {
    Case c;
    std::vector<Answered> answered;
  };

  Verdict put(Subject& subject, Drawn& drawn) {
    Witness witness(subject);
    for (const Answered& other : drawn.answered) {
      if (witness.repeats(other.calls)) return other.verdict;
    }
    Verdict verdict = verdict_of(witness, law_, drawn.c, nullptr);
    drawn.answered.push_back({std::move(witness.calls), verdict});
    return verdict;
  }

  const Wish& wish_;
  const Law& law_;
  const Settings& settings_;
  std::int64_t number_;
  std::vector<Drawn> drawn_;
};

}  // namespace

std::vector<Hunt> hunt(std::span<Subject* const> subjects, Subject& honest, const Law& law, const Settings& settings) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Hunt> hunts(subjects.size());
  const std::optional<Wish> wish = granted(law, settings);
  for (std::int64_t i = 0; i < settings.cases; ++i) {
    const auto left = std::count_if(hunts.begin(), hunts.end(), [](const Hunt& h) { return !h.found; });
    if (left == 0) break;
    if (settings.progress) settings.progress(left);
    std::optional<Probe> probe;
    if (wish) probe.emplace(*wish, law, settings, i);
    const auto breaks = [&](Subject& subject) { return probe && counts(probe->put(subject)); };
    const bool fair = !breaks(honest);
    for (std::size_t s = 0; s < subjects.size(); ++s) {
      Hunt& h = hunts[s];
      if (h.found) continue;
      ++h.cases;
      h.found = breaks(*subjects[s]) && fair;
      h.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  }
  return hunts;
}

}  // namespace norma::properties
