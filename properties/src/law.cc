#include <algorithm>

#include "norma/check.h"
#include "norma/fuzz.h"
#include "verdict.h"

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

}  // namespace

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
  if (!promises(arithmetic(), c)) throw Unanswered{c, {Reply::Kind::unsupported, "it computes in less than the format of x", {}}};
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

Verdict verdict_of(Subject& subject, const Law& law, const Case& c, Accuracy* accuracy, std::int64_t number) {
  try {
    Trial trial(subject, c, accuracy, {&law, number});
    return {law.check(trial)};
  } catch (const Trial::Unanswered& u) {
    const bool own = u.reply.kind == Reply::Kind::unsupported;
    return {broken(own ? u.reply.what : std::string(reply_words[static_cast<std::size_t>(u.reply.kind)]) + ": " + u.reply.what),
            u.reply.kind};
  }
}

bool is_a_crime(Reply::Kind reply) {
  return reply == Reply::Kind::crashed || reply == Reply::Kind::hung || reply == Reply::Kind::misbehaved;
}

bool counts(const Verdict& v) {
  return v.outcome.kind == Outcome::Kind::broken && v.reply != Reply::Kind::unsupported && v.reply != Reply::Kind::lost;
}

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

rc::Shrinkable<Case> drawn(const Wish& wish, const Law& law, const Settings& settings, std::int64_t number, int draw) {
  return generate(wish, stream_of(law) + settings.seed, static_cast<std::uint64_t>(number * draws + draw));
}

bool can_be_asked(const Law& law, const Case& c) {
  const bool any_call = law.check == law_named("agrees_with_reference")->check;  // and of what else looks at bounds alone
  return any_call ? truth_of(c, {}).ok() : fits(c, law.wish());
}

std::string replay_command(std::string_view subject, const Law& law, std::string_view line) {
  const std::string plain = subject.starts_with('-') ? "./" + std::string(subject) : std::string(subject);  // no option
  return "norma check " + shell_word(plain) + " --law " + std::string(law.slug) + " --case " + shell_word(line);
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

}  // namespace norma::properties
