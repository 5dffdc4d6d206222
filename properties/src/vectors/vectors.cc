#include "norma/vectors.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "sources.h"

namespace norma::properties {
namespace {

// How many elements of the inputs of two calls that are alike in all else differ; nothing where something else does.
std::optional<std::int64_t> difference(const Case& a, const Case& b) {
  if (a.spec.profile != b.spec.profile || a.spec.epsilon != b.spec.epsilon || a.spec.axis != b.spec.axis ||
      a.spec.groups != b.spec.groups || a.spec.momentum != b.spec.momentum) {
    return std::nullopt;
  }
  std::int64_t count = 0;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto &s = a.inputs[static_cast<Role>(r)], &t = b.inputs[static_cast<Role>(r)];
    if (s.has_value() != t.has_value() || (s && (s->format != t->format || s->shape != t->shape))) return std::nullopt;
    for (std::int64_t i = 0; s && i < size_of(*s); ++i) count += bits_at(*s, i) != bits_at(*t, i);
  }
  return count;
}

// A copy, or nearly: of a long row, the same but for one element in sixteen is a copy.
bool alike(const Case& a, const Case& b) {
  const std::optional<std::int64_t> d = difference(a, b);
  return d && *d <= a.elements() / 16;
}

}  // namespace

std::string file_of(const Case& c) { return std::string(info(c.spec.op).name) + "_" + std::string(info(c.x().format).name); }

std::string id_of(const Case& c) {
  Case plain = c;
  plain.placement = {};
  plain.salt = 0;
  plain.outputs = Roles{Role::y};
  // What is not said is what it stands for.
  plain.spec.axis = c.spec.effective_axis();
  plain.spec.epsilon = c.spec.effective_epsilon();
  char digits[17];
  std::snprintf(digits, sizeof digits, "%012llx", static_cast<unsigned long long>(fingerprint(to_line(plain)) >> 16));
  return file_of(c) + "_" + digits;
}

std::vector<Vector> vectors() {
  std::map<std::pair<Op, Format>, std::vector<Vector>> files;
  for (const auto source : {paper_vectors, reported_vectors, found_vectors, tie_vectors, generated_vectors, shape_vectors}) {
    for (Vector& v : source()) {
      // How tensors lie and what a law draws are no part of a golden case.
      v.c.placement = {};
      v.c.salt = 0;
      std::vector<Vector>& file = files[{v.c.spec.op, v.c.x().format}];
      if (std::none_of(file.begin(), file.end(), [&](const Vector& other) { return alike(v.c, other.c); })) file.push_back(std::move(v));
    }
  }
  std::vector<Vector> all;
  for (auto& [key, file] : files) std::move(file.begin(), file.end(), std::back_inserter(all));
  return all;
}

Result<std::vector<GoldenText>> golden_files(const std::vector<Vector>& all, const std::function<void()>& progress) {
  std::vector<GoldenText> files;
  std::vector<std::string> cases;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (progress) progress();
    Result<std::string> text = to_golden(all[i].c, all[i].comment);
    if (!text.ok()) return Status{text.status().code, to_line(all[i].c) + ": " + text.status().message};
    cases.push_back(std::move(*text));
    const std::string name = file_of(all[i].c);
    if (i + 1 < all.size() && file_of(all[i + 1].c) == name) continue;
    files.push_back({name, golden_file(name, cases)});
    cases.clear();
  }
  return files;
}

}  // namespace norma::properties
