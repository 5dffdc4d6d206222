// Fuzzing: lines as cases, cases near others, and every law that a case can be asked about. What makes a fuzz target of it: fuzz_target.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/check.h"

namespace norma::properties {

// The case of a line (case.h), if it is one that a law might be asked of and no tensor of it has more than 8192 elements; whatever the
// bytes, the answer is quick. So a corpus can be read, and each of its files is what `norma check --case` takes.
Result<Case> case_of(std::string_view line);

// A case near this one, of which there is a line too: other numbers in a tensor, made by `rewrite`; its numbers in another call of the same
// op and format; one of those that it shrinks to; or another epsilon, profile or placement.
using Rewrite = std::function<void(std::span<std::byte>)>;
[[nodiscard]] Case neighbour(const Case& c, rc::Random& random, const Rewrite& rewrite);

// A small case of every family, op and format, by name: what to start from.
[[nodiscard]] std::vector<std::pair<std::string, Case>> seeds();

// A law, and the cases that it may be asked about here.
struct Question {
  const Law* law = nullptr;
  Wish wish;
};
[[nodiscard]] std::vector<Question> questions(const Settings& settings);

// The case of that number in a random search, which depends on nothing but what is given here, so that shares of the numbers add up: first
// the corpus, then cases made for one law or another, and neighbours of both.
[[nodiscard]] Case searched(std::uint64_t number, std::uint64_t seed, std::span<const Case> corpus, std::span<const Question> questions);

// Asks all questions that the case fits, one of those that check the same, until a law is broken. A broken `should`, or a `must` where the
// standard model does not apply, counts only if `strict`. What the subject does not do is no answer.
struct Broken {
  const Law* law = nullptr;
  Finding finding;
};
struct Answers {
  std::int64_t held = 0, unsupported = 0;
  std::int64_t excused = 0;  // broken, but does not count
  std::optional<Broken> broken;
};
struct Asking {
  bool strict = false;
  bool shrink = true;
};
[[nodiscard]] Answers ask(Watched& subject, std::span<const Question> questions, const Case& c, const Asking& how);

// The law, what is wrong, the command that replays it on a subject of that name, with these options after it, and the call in C++.
[[nodiscard]] std::string counterexample(const Broken& broken, std::string_view subject, std::string_view options = "");

}  // namespace norma::properties
