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

std::string_view word(Reply::Kind kind) {
  static constexpr std::string_view words[] = {"ok", "unsupported", "refused", "crashed", "hung", "misbehaved"};
  return words[static_cast<std::size_t>(kind)];
}

// A law's own stream of cases: the same alone, among all, and beside laws to come. FNV-1a.
std::uint64_t stream_of(const Law& law) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : law.slug) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

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
    return {broken(own ? u.reply.what : std::string(word(u.reply.kind)) + ": " + u.reply.what), u.reply.kind};
  }
}

bool counts(const Verdict& v) { return v.outcome.kind == Outcome::Kind::broken && v.reply != Reply::Kind::unsupported; }

// The smallest case of the same fault: greedily, the first that fails as well.
Finding shrunk(Subject& subject, const Law& law, rc::Shrinkable<Case> from, Verdict verdict, std::int64_t number) {
  Finding finding{from.value(), from.value(), verdict.outcome.what, verdict.reply, number};
  const bool range = verdict.outcome.range;
  // What hangs costs its time limit each time.
  int budget = verdict.reply == Reply::Kind::hung ? 8 : 1500;
  for (bool found = true; found && budget > 0;) {
    found = false;
    rc::Seq<rc::Shrinkable<Case>> candidates = from.shrinks();
    while (budget-- > 0) {
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

}  // namespace

std::span<const Law> laws() {
  static const std::vector<Law> all = all_laws();
  return all;
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

Report check(Subject& subject, const Settings& settings) {
  Report report{subject.name(), to_words(subject.arithmetic()), settings, {}, {}};
  report.settings.progress = nullptr;
  for (const Law& law : laws()) {
    if (!settings.laws.empty() && std::find(settings.laws.begin(), settings.laws.end(), law.slug) == settings.laws.end()) continue;
    const std::optional<Wish> wish = granted(law, settings);
    if (!wish) continue;
    LawReport& r = report.laws.emplace_back();
    r.law = &law;
    r.severity = law.severity_for(subject.arithmetic());
    for (std::int64_t i = settings.shard - 1; i < settings.cases; i += settings.shards) {
      if (settings.progress) settings.progress(1);
      // What says nothing about the law is drawn again, a few times.
      for (int attempt = 0; attempt < 8; ++attempt) {
        const rc::Shrinkable<Case> generated = generate(*wish, stream_of(law) + settings.seed, static_cast<std::uint64_t>(i * 8 + attempt));
        const Case c = generated.value();
        const Verdict v = verdict_of(subject, law, c, &report.accuracy, i);
        if (v.outcome.kind == Outcome::Kind::vacuous) {
          if (attempt == 7) ++r.vacuous;
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
          std::optional<Finding>& first = v.outcome.range ? r.first_ranged : r.first;
          if (!first) first = settings.shrink ? shrunk(subject, law, generated, v, i) : Finding{c, c, v.outcome.what, v.reply, i};
        }
        break;
      }
      if (settings.stop_at_first && r.broken != 0 && r.severity == Severity::must) break;
    }
  }
  return report;
}

Hunt hunt(Subject& subject, Subject& honest, const Law& law, const Settings& settings) {
  const auto start = std::chrono::steady_clock::now();
  Settings one = settings;
  one.laws = {std::string(law.slug)};
  one.shrink = false;
  one.shards = settings.cases;  // case by case
  Hunt h;
  const auto breaks = [&](Subject& s) {
    const Report report = check(s, one);
    return report.must_violations() + report.should_violations() != 0;
  };
  for (one.shard = 1; one.shard <= one.shards && !h.found; ++one.shard, ++h.cases) h.found = breaks(subject) && !breaks(honest);
  h.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return h;
}

Finding replay(Subject& subject, const Law& law, const Case& c) {
  const Verdict v = verdict_of(subject, law, c, nullptr);
  return {c, c, v.outcome.kind == Outcome::Kind::broken ? v.outcome.what : "", v.reply, 0};
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

Answers ask(Subject& subject, std::span<const Question> questions, const Case& c, const Asking& how) {
  Answers answers;
  std::vector<Outcome (*)(Trial&)> asked;
  for (const auto& [law, wish] : questions) {
    if (std::find(asked.begin(), asked.end(), law->check) != asked.end() || !fits(c, wish)) continue;
    asked.push_back(law->check);
    const Verdict v = verdict_of(subject, *law, c, nullptr);
    if (v.outcome.kind == Outcome::Kind::vacuous) continue;
    if (counts(v) && (how.strict || (law->severity_for(subject.arithmetic()) == Severity::must && !v.outcome.range))) {
      const auto from =
          rc::shrinkable::shrinkRecur(Case(c), [w = wish](const Case& larger) { return rc::seq::fromContainer(smaller(larger, w)); });
      answers.broken = Broken{law, how.shrink ? shrunk(subject, *law, from, v, 0) : Finding{c, c, v.outcome.what, v.reply, 0}};
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
