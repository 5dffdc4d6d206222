#include "norma/check.h"

#include <algorithm>
#include <chrono>

#include "laws/common.h"
#include "norma/fuzz.h"

namespace norma::properties {
namespace {

std::vector<Law> all_laws() {
  std::vector<Law> all;
  for (const std::span<const Law> some : {laws_of_values, laws_of_symmetry, laws_of_affine, laws_of_structure, laws_of_memory}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// A law's own stream of cases: the same alone, among all, and beside laws to come.
std::uint64_t stream_of(const Law& law) { return fingerprint(law.slug); }

// A law's wish, cut down to what the user asked for; nothing where no op or format is left.
std::optional<Wish> granted(const Law& law, const Settings& settings) {
  Wish wish = law.wish();
  const auto keep = [](auto& wanted, const auto& allowed) {
    if (allowed.empty()) return true;
    if (wanted.empty()) {
      wanted = allowed;
      return true;
    }
    std::erase_if(wanted, [&](const auto& w) { return std::find(allowed.begin(), allowed.end(), w) == allowed.end(); });
    return !wanted.empty();
  };
  if (!keep(wish.ops, settings.ops) || !keep(wish.formats, settings.formats)) return std::nullopt;
  return wish;
}

struct Verdict {
  Outcome outcome;
  Reply::Kind reply = Reply::Kind::ok;
};

Verdict verdict_of(Subject& subject, const Law& law, const Case& c, Accuracy* accuracy, std::int64_t number = 0) {
  try {
    Trial trial(subject, c, accuracy, {&law, number});
    return {law.check(trial)};
  } catch (const Trial::Unanswered& u) {
    const bool own = u.reply.kind == Reply::Kind::unsupported;
    return {broken(own ? u.reply.what : std::string(reply_words[static_cast<std::size_t>(u.reply.kind)]) + ": " + u.reply.what),
            u.reply.kind};
  }
}

// What hangs costs its time limit with every call, and what is dead is to be reported in 5 s: with 2 s a call, two of them.
constexpr std::int64_t hangs_of_a_law = 3;        // after which another one says nothing new
constexpr std::int64_t hangs_in_all = 30;         // a minute, as long as an honest subject takes
constexpr std::int64_t hangs_of_the_dead = 2;     // that has computed nothing yet
constexpr std::int64_t crashes_of_the_dead = 10;  // a crash costs a start, which is soon done for most

// Whatever the law, no subject may do this.
bool is_a_crime(Reply::Kind reply) {
  return reply == Reply::Kind::crashed || reply == Reply::Kind::hung || reply == Reply::Kind::misbehaved;
}

bool counts(const Verdict& v) {
  return v.outcome.kind == Outcome::Kind::broken && v.reply != Reply::Kind::unsupported && v.reply != Reply::Kind::lost;
}

// The case of a number, drawn for the so manieth time: what says nothing about the law is drawn again, a few times.
constexpr int draws = 8;
rc::Shrinkable<Case> drawn(const Wish& wish, const Law& law, const Settings& settings, std::int64_t number, int draw) {
  return generate(wish, stream_of(law) + settings.seed, static_cast<std::uint64_t>(number * draws + draw));
}

// The smallest case of the same fault: greedily, the first that fails as well.
Finding shrunk(Watched& subject, const Law& law, rc::Shrinkable<Case> from, const Verdict& verdict, std::int64_t number) {
  Finding finding{from.value(), from.value(), verdict.outcome.what, verdict.reply, number};
  const bool range = verdict.outcome.range;
  // What hangs costs its time limit each time.
  int budget = verdict.reply == Reply::Kind::hung ? 8 : 1500;
  for (bool found = true; found && budget > 0;) {
    found = false;
    rc::Seq<rc::Shrinkable<Case>> candidates = from.shrinks();
    while (budget-- > 0 && subject.hopeless().empty()) {
      rc::Maybe<rc::Shrinkable<Case>> next = candidates.next();
      if (!next) break;
      const Verdict v = verdict_of(subject, law, next->value(), nullptr);
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

std::span<const Law> laws() {
  static const std::vector<Law> all = all_laws();
  return all;
}

const Law* law_named(std::string_view slug) {
  const auto found = std::find_if(laws().begin(), laws().end(), [&](const Law& law) { return law.slug == slug; });
  return found == laws().end() ? nullptr : &*found;
}

Trial::Trial(Subject& subject, Case c, Accuracy* accuracy, const Source& source)
    : base(std::move(c)), random(rc::Random::Key{base.salt, 0x6c6177, 0, 0}), subject_(subject), accuracy_(accuracy), source_(source) {}

ByRole<Tensor> Trial::run(const Case& c) {
  Reply reply = subject_.run(c);
  if (reply.kind != Reply::Kind::ok) throw Unanswered{c, std::move(reply)};
  return std::move(reply.outputs);
}

Truth Trial::truth(const Case& c, const ByRole<Tensor>& got) {
  Depth depth{accuracy_ != nullptr ? accuracy_->depth.value : 0};
  Result<Truth> truth = truth_of(c, arithmetic(), &got, accuracy_ != nullptr ? &depth : nullptr);
  if (!truth.ok()) throw Unanswered{c, {Reply::Kind::unsupported, "the reference: " + truth.status().message, {}}};
  if (accuracy_ != nullptr && got[Role::y]) accuracy_->see(c, *truth, *got[Role::y], depth, source_);
  return std::move(*truth);
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
      if (settings.shrink && report.ended.empty()) return shrunk(subject, law, f.from, f.verdict, f.number);
      return Finding{f.from.value(), f.from.value(), f.verdict.outcome.what, f.verdict.reply, f.number};
    };
    if (first) r.first = finding(*first);
    if (first_ranged) r.first_ranged = finding(*first_ranged);
    if (hangs == hangs_of_a_law) r.first->what += "; gave up after " + std::to_string(hangs) + " hangs";
    report.ended = subject.hopeless();
  }
  return report;
}

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

Finding replay(Subject& subject, const Law& law, const Case& c) {
  const Verdict v = verdict_of(subject, law, c, nullptr);
  const Outcome::Kind kind = v.outcome.kind;
  return {c, c, kind == Outcome::Kind::broken ? v.outcome.what : "", v.reply, 0, kind == Outcome::Kind::vacuous};
}

bool can_be_asked(const Law& law, const Case& c) {
  const bool any_call = law.check == law_named("agrees_with_reference")->check;  // and of what else looks at bounds alone
  return any_call ? truth_of(c, {}).ok() : fits(c, law.wish());
}

std::string replay_command(std::string_view subject, const Law& law, std::string_view line) {
  return "norma check " + shell_word(subject) + " --law " + std::string(law.slug) + " --case " + shell_word(line);
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<Question> questions(const Settings& settings) {
  std::vector<Question> all;
  for (const Law& law : laws()) {
    if (!settings.laws.empty() && std::find(settings.laws.begin(), settings.laws.end(), law.slug) == settings.laws.end()) continue;
    if (std::optional<Wish> wish = granted(law, settings)) all.push_back({&law, std::move(*wish)});
  }
  return all;
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
      answers.broken =
          Broken{law, how.shrink ? shrunk(subject, *law, shrinkable(c, wish), v, 0) : Finding{c, c, v.outcome.what, v.reply, 0}};
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
