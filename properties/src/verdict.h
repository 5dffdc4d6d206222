// What check, hunt and ask have in common: the cases of a law, and its verdict on one.
#pragma once

#include <cstdint>
#include <optional>

#include "laws/common.h"

namespace norma::properties {

struct Verdict {
  Outcome outcome;
  Reply::Kind reply = Reply::Kind::ok;
};

// `number` is the case's, for the accuracy, which may be null.
Verdict verdict_of(Subject& subject, const Law& law, const Case& c, Accuracy* accuracy, std::int64_t number = 0);

// Whatever the law, no subject may do this.
[[nodiscard]] bool is_a_crime(Reply::Kind reply);
// Whether it is a violation.
[[nodiscard]] bool counts(const Verdict& v);

// A law's wish, cut down to what the user asked for; nothing where no op or format is left.
std::optional<Wish> granted(const Law& law, const Settings& settings);

// The case of a number, drawn for the so manieth time: what says nothing about the law is drawn again, a few times.
inline constexpr int draws = 8;
rc::Shrinkable<Case> drawn(const Wish& wish, const Law& law, const Settings& settings, std::int64_t number, int draw);

}  // namespace norma::properties
