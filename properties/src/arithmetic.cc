#include <algorithm>
#include <charconv>

#include "norma/law.h"

namespace norma::properties {
namespace {

constexpr std::pair<std::string_view, Arithmetic::Algorithm> algorithms[] = {
    {"two_pass", Arithmetic::Algorithm::two_pass},
    {"single_pass", Arithmetic::Algorithm::single_pass},
    {"welford", Arithmetic::Algorithm::welford},
    {"correctly_rounded", Arithmetic::Algorithm::correctly_rounded},
};

Status bad(std::string_view word) { return {Code::bad_parameter, "profile: " + quote(word) + " is nothing that norma/subject.h knows"}; }

// Whether the word says something that is known.
bool apply(std::string_view word, Arithmetic& a) {
  const std::string_view key = word.substr(0, word.find('='));
  std::string_view value = word.substr(std::min(word.size(), key.size() + 1));
  if (word == "compute=x") {
    a.compute_x = true, a.compute.reset();
  } else if (key == "compute" || key == "accumulate") {
    const std::optional<Format> format = format_named(value);
    if (!format || info(*format).width < 16) return false;
    (key == "compute" ? a.compute : a.accumulate) = format;
    if (key == "compute") a.compute_x = false;
  } else if (key == "algorithm") {
    const auto* it = std::find_if(std::begin(algorithms), std::end(algorithms), [&](const auto& known) { return known.first == value; });
    if (it == std::end(algorithms)) return false;
    a.algorithm = it->second;
  } else if (key == "depth" && value == "n-1") {
    a.depth = Arithmetic::Depth::sequential;
  } else if (key == "depth" && value == "pairwise") {
    a.depth = Arithmetic::Depth::pairwise;
  } else if (key == "depth" && value.starts_with("n/")) {
    a.depth = Arithmetic::Depth::lanes;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data() + 2, end, a.lanes);
    if (error != std::errc() || stop != end || a.lanes < 1 || a.lanes > 1 << 20) return false;
  } else if (word == "threads") {
    a.threads = true;
  } else if (key == "bitwise") {
    for (bool more = true; more; value.remove_prefix(more ? value.find(',') + 1 : 0)) {
      const std::string_view law = value.substr(0, value.find(','));
      more = law.size() < value.size();
      const Law* known = law_named(law);
      if (known == nullptr || !known->by_design) return false;
      a.bitwise.emplace_back(law);
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool Arithmetic::to_the_bit(std::string_view law) const { return std::find(bitwise.begin(), bitwise.end(), law) != bitwise.end(); }

const Arithmetic& Arithmetic::of(Op op) const {
  const auto it = std::find_if(others.begin(), others.end(), [op](const Arithmetic& a) { return a.only == op; });
  return it == others.end() ? *this : *it;
}

Result<Arithmetic> parse_arithmetic(std::string_view words) {
  Arithmetic all;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    if (word.empty()) continue;
    const std::size_t colon = word.find(':');
    bool known = false;
    if (colon == std::string_view::npos) {
      known = apply(word, all);
    } else if (const std::optional<Op> op = op_named(word.substr(0, colon));
               op && !word.substr(colon).starts_with(":bitwise=") && word.substr(colon) != ":threads") {
      if (all.of(*op).only != op) {
        Arithmetic other = all;
        other.only = op, other.others.clear();
        all.others.push_back(std::move(other));
      }
      known = apply(word.substr(colon + 1), const_cast<Arithmetic&>(all.of(*op)));
    }
    if (!known) return bad(word);
  }
  return all;
}

std::string to_words(const Arithmetic& a) {
  const std::string of = a.only ? std::string(info(*a.only).name) + ":" : "";
  std::string words;
  const auto add = [&](std::string_view key, std::string_view value) {
    words += (words.empty() ? "" : " ") + of + std::string(key) + "=" + std::string(value);
  };
  if (a.compute_x) add("compute", "x");
  if (a.compute) add("compute", info(*a.compute).name);
  if (a.accumulate) add("accumulate", info(*a.accumulate).name);
  for (const auto& [name, algorithm] : algorithms) {
    if (a.algorithm == algorithm) add("algorithm", name);
  }
  if (a.algorithm != Arithmetic::Algorithm::correctly_rounded) {
    add("depth", a.depth == Arithmetic::Depth::pairwise ? "pairwise"
                 : a.depth == Arithmetic::Depth::lanes  ? "n/" + std::to_string(a.lanes)
                                                        : "n-1");
  }
  std::string laws;
  for (const std::string& law : a.bitwise) laws += (laws.empty() ? "" : ",") + law;
  if (!laws.empty() && !a.only) add("bitwise", laws);
  if (a.threads && !a.only) words += " threads";
  for (const Arithmetic& other : a.others) words += " " + to_words(other);
  return words;
}

}  // namespace norma::properties
