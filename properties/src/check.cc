#include "norma/check.h"

#include <algorithm>

#include "norma/fuzz.h"
#include "verdict.h"

namespace norma::properties {
namespace {

// What hangs costs its time limit with every call, and what is dead is to be reported in 5 s: with 2 s a call, two of them.
constexpr std::int64_t hangs_of_a_law = 3;        // after which another one says nothing new
constexpr std::int64_t hangs_in_all = 30;         // a minute, as long as an honest subject takes
constexpr std::int64_t hangs_of_the_dead = 2;     // that has computed nothing yet
constexpr std::int64_t crashes_of_the_dead = 10;  // a crash costs a start, which is soon done for most

// The smallest case of the same fault: greedily, the first that fails as well.
Finding shrunk(Watched& subject, const Law& law, rc::Shrinkable<Case> from, const Verdict& verdict, std::int64_t number) {
  Finding finding{from.value(), from.value(), verdict.outcome.what, verdict.reply, number};
  const bool range = verdict.outcome.range;
  // What hangs costs its time limit each time, what crashes a start: seconds, where an interpreter loads a lot.
  int budget = verdict.reply == Reply::Kind::hung ? 8 : 1500, crashes = 100;
  for (bool found = true; found && budget > 0 && crashes > 0;) {
    found = false;
    rc::Seq<rc::Shrinkable<Case>> candidates = from.shrinks();
    while (budget-- > 0 && crashes > 0 && subject.hopeless().empty()) {
      rc::Maybe<rc::Shrinkable<Case>> next = candidates.next();
      if (!next) break;
      const Verdict v = verdict_of(subject, law, next->value(), nullptr);
      crashes -= v.reply == Reply::Kind::crashed;
      if (!counts(v) || v.outcome.range != range || v.reply != verdict.reply) continue;
      from = *next;
      finding.smallest = from.value();
      finding.what = v.outcome.what;
      found = true;
      break;
    }
  }
  return finding;
}

// A subject may have come to it by what it was asked before: what the command repeats has to be wrong alone, and by itself.
Finding reproducible(Watched& subject, const Law& law, Finding finding, const Verdict& verdict) {
  const auto broken_alone = [&](const Case& c) {
    subject.restart();
    return counts(verdict_of(subject, law, c, nullptr));
  };
  // A hang costs its time limit, and of what is dead nothing is learned.
  if (verdict.reply == Reply::Kind::hung || !subject.hopeless().empty() || broken_alone(finding.smallest)) return finding;
  finding.smallest = finding.original;
  finding.what = verdict.outcome.what;
  if (!broken_alone(finding.original)) finding.what += "; after other calls only: alone it is right";
  return finding;
}

}  // namespace

Reply Watched::run(const Case& c) {
  Reply reply = subject_.run(c);
  if (reply.kind == Reply::Kind::lost) lost_ = reply.what;
  hung_ += reply.kind == Reply::Kind::hung;
  crashed_ += reply.kind == Reply::Kind::crashed;
  computed_ |= reply.kind == Reply::Kind::ok || reply.kind == Reply::Kind::refused || reply.kind == Reply::Kind::misbehaved;
  return reply;
}

std::string Watched::hopeless() const {
  if (!lost_.empty()) return "the subject could not be started again: " + lost_;
  if (!computed_ && hung_ >= hangs_of_the_dead) return std::to_string(hung_) + " calls hung, and none was computed";
  if (!computed_ && crashed_ >= crashes_of_the_dead) return std::to_string(crashed_) + " calls crashed, and none was computed";
  if (hung_ >= hangs_in_all) return std::to_string(hung_) + " calls hung";
  return "";
}

Report check(Subject& given, const Settings& settings) {
  Watched subject(given);
  Report report{subject.name(), to_words(subject.arithmetic()), settings, {}, {}, {}};
  report.settings.progress = nullptr;
  for (const auto& [asked, wish] : questions(settings)) {
    const Law& law = *asked;
    LawReport& r = report.laws.emplace_back();
    r.law = asked;
    r.severity = law.severity_for(subject.arithmetic());
    if (!report.ended.empty()) continue;
    struct Failure {
      rc::Shrinkable<Case> from;
      Verdict verdict;
      std::int64_t number;
    };
    std::optional<Failure> first, first_ranged;
    std::int64_t hangs = 0;
    for (std::int64_t i = settings.shard - 1; i < settings.cases && report.ended.empty(); i += settings.shards) {
      if (settings.progress) settings.progress(1);
      for (int draw = 0; draw < draws; ++draw) {
        const rc::Shrinkable<Case> generated = drawn(wish, law, settings, i, draw);
        const Case c = generated.value();
        const Verdict v = verdict_of(subject, law, c, &report.accuracy, i);
        if (v.reply == Reply::Kind::lost) break;
        if (v.outcome.kind == Outcome::Kind::vacuous) {
          if (draw == draws - 1) ++r.vacuous;
          continue;
        }
        ++r.families[c.families.substr(0, c.families.find(','))];
        if (v.reply == Reply::Kind::unsupported) {
          ++r.unsupported;
          ++r.reasons[v.outcome.what];
        } else if (v.outcome.kind == Outcome::Kind::holds) {
          ++r.held;
        } else {
          ++(v.outcome.range ? r.ranged : r.broken);
          hangs += v.reply == Reply::Kind::hung;
          if (is_a_crime(v.reply)) r.severity = Severity::must;
          std::optional<Failure>& one = v.outcome.range ? first_ranged : first;
          if (!one) one = {generated, v, i};
        }
        break;
      }
      report.ended = subject.hopeless();
      if (hangs == hangs_of_a_law || (settings.stop_at_first && r.broken != 0 && r.severity == Severity::must)) break;
    }
    // When the law is done, for what is dead cannot be made small, and nobody knew.
    const auto finding = [&](const Failure& f) {
      if (settings.shrink && report.ended.empty()) {
        return reproducible(subject, law, shrunk(subject, law, f.from, f.verdict, f.number), f.verdict);
      }
      return Finding{f.from.value(), f.from.value(), f.verdict.outcome.what, f.verdict.reply, f.number};
    };
    if (first) r.first = finding(*first);
    if (first_ranged) r.first_ranged = finding(*first_ranged);
    if (hangs == hangs_of_a_law) r.first->what += "; gave up after " + std::to_string(hangs) + " hangs";
    report.ended = subject.hopeless();
  }
  return report;
}

Finding replay(Subject& subject, const Law& law, const Case& c) {
  const Verdict v = verdict_of(subject, law, c, nullptr);
  const Outcome::Kind kind = v.outcome.kind;
  return {c, c, kind == Outcome::Kind::broken ? v.outcome.what : "", v.reply, 0, kind == Outcome::Kind::vacuous};
}

Answers ask(Watched& subject, std::span<const Question> questions, const Case& c, const Asking& how) {
  Answers answers;
  std::vector<Outcome (*)(Trial&)> asked;
  for (const auto& [law, wish] : questions) {
    if (std::find(asked.begin(), asked.end(), law->check) != asked.end() || !fits(c, wish)) continue;
    asked.push_back(law->check);
    const Verdict v = verdict_of(subject, *law, c, nullptr);
    if (v.reply == Reply::Kind::lost) break;
    if (v.outcome.kind == Outcome::Kind::vacuous) continue;
    const bool must = is_a_crime(v.reply) || (law->severity_for(subject.arithmetic()) == Severity::must && !v.outcome.range);
    if (counts(v) && (how.strict || must)) {
      answers.broken = Broken{law, how.shrink ? reproducible(subject, *law, shrunk(subject, *law, shrinkable(c, wish), v, 0), v)
                                              : Finding{c, c, v.outcome.what, v.reply, 0}};
      break;
    }
    ++(v.reply == Reply::Kind::unsupported ? answers.unsupported : counts(v) ? answers.excused : answers.held);
  }
  return answers;
}

std::int64_t Report::must_violations() const {
  return std::count_if(laws.begin(), laws.end(), [](const LawReport& r) { return r.severity == Severity::must && r.broken != 0; });
}
std::int64_t Report::should_violations() const {
  return std::count_if(laws.begin(), laws.end(),
                       [](const LawReport& r) { return r.ranged != 0 || (r.severity == Severity::should && r.broken != 0); });
}

}  // namespace norma::properties
