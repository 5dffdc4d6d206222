#include "matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "norma/mutants.h"
#include "program.h"

namespace norma::program {
namespace {

using properties::Hunt;
using properties::Law;
using properties::Mutant;
using properties::Settings;

// Of a law and a mutant. A law that found nothing at the first seed is asked again only where the mutant is its own.
struct Cell {
  std::vector<Hunt> hunts;

  [[nodiscard]] std::int64_t found() const {
    return std::count_if(hunts.begin(), hunts.end(), [](const Hunt& h) { return h.found; });
  }
  [[nodiscard]] bool always() const { return found() == static_cast<std::int64_t>(hunts.size()); }
  [[nodiscard]] double cases() const {  // in the mean
    double sum = 0;
    for (const Hunt& h : hunts) sum += static_cast<double>(h.cases);
    return sum / static_cast<double>(hunts.size());
  }
  [[nodiscard]] std::vector<double> seconds() const {
    std::vector<double> all;
    for (const Hunt& h : hunts) all.push_back(h.seconds);
    std::sort(all.begin(), all.end());
    return all;
  }
};

struct Row {
  const Mutant* mutant = nullptr;
  std::vector<Cell> cells;  // by law
  std::size_t meant = 0;    // the law that means it, as an index
};

struct Matrix {
  std::vector<const Law*> laws;
  std::vector<Row> rows;
};

// Indices of the laws that need the fewest cases, of those that find the mutant at every seed; ties are everybody's.
std::vector<std::size_t> firsts(const Row& row) {
  std::vector<std::size_t> best;
  for (std::size_t l = 0; l < row.cells.size(); ++l) {
    if (!row.cells[l].always()) continue;
    if (!best.empty() && row.cells[l].cases() > row.cells[best.front()].cases()) continue;
    if (!best.empty() && row.cells[l].cases() < row.cells[best.front()].cases()) best.clear();
    best.push_back(l);
  }
  return best;
}

std::int64_t finders(const Row& row) {
  return std::count_if(row.cells.begin(), row.cells.end(), [](const Cell& c) { return c.found() != 0; });
}

// What a law is the first to find, or the only one: the reason why it is there.
struct Catch {
  std::vector<std::string_view> only, first;
  std::int64_t found = 0;
};
std::vector<Catch> catches(const Matrix& m) {
  std::vector<Catch> of(m.laws.size());
  for (const Row& row : m.rows) {
    const std::vector<std::size_t> best = firsts(row);
    for (std::size_t l = 0; l < m.laws.size(); ++l) {
      if (row.cells[l].found() == 0) continue;
      ++of[l].found;
      if (finders(row) == 1) {
        of[l].only.push_back(row.mutant->name);
      } else if (std::find(best.begin(), best.end(), l) != best.end()) {
        of[l].first.push_back(row.mutant->name);
      }
    }
  }
  return of;
}

std::vector<double> sorted_times(const Matrix& m) {
  std::vector<double> all;
  for (const Row& row : m.rows) {
    const std::vector<double> times = row.cells[row.meant].seconds();
    all.insert(all.end(), times.begin(), times.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::string_view> survivors(const Matrix& m) {
  std::vector<std::string_view> names;
  for (const Row& row : m.rows) {
    if (!row.cells[row.meant].always()) names.push_back(row.mutant->name);
  }
  return names;
}

// One character a law, in tens: not found, found, found first, and the law that means the mutant.
std::string line_of(const Row& row) {
  const std::vector<std::size_t> best = firsts(row);
  std::string line;
  for (std::size_t l = 0; l < row.cells.size(); ++l) {
    if (l != 0 && l % 10 == 0) line += ' ';
    const bool found = row.cells[l].found() != 0, first = std::find(best.begin(), best.end(), l) != best.end();
    line += l == row.meant ? (found ? first ? 'M' : 'm' : '?') : !found ? '.' : first ? 'x' : '+';
  }
  return line;
}

std::string to_text(const Matrix& m, const Settings& settings, std::int64_t seeds) {
  std::string text = fmt::format(
      "{} mutants, {} laws, up to {} cases a law, seeds {} to {}\n\n"
      "One character a law, as numbered below: . found nothing  + found it  x found it with the fewest cases\n"
      "m, M the same of the law that means it  ? which found nothing. Then the median and the worst time that law took, in seconds.\n\n",
      m.rows.size(), m.laws.size(), settings.cases, settings.seed, settings.seed + static_cast<std::uint64_t>(seeds) - 1);
  std::size_t width = 0;
  for (const Row& row : m.rows) width = std::max(width, row.mutant->name.size());
  for (const Row& row : m.rows) {
    const Cell& meant = row.cells[row.meant];
    const std::vector<double> times = meant.seconds();
    text += fmt::format("{:<{}}  {}  {:7.3f} {:7.3f}  {}", row.mutant->name, width, line_of(row), times[times.size() / 2], times.back(),
                        m.laws[row.meant]->slug);
    text += meant.always() ? "\n" : fmt::format("  SURVIVES at {} of {} seeds\n", seeds - meant.found(), seeds);
  }
  text += '\n';
  const std::vector<Catch> of = catches(m);
  for (std::size_t l = 0; l < m.laws.size(); ++l) {
    text += fmt::format("{:>2} {:<35}  finds {:>3}", l + 1, m.laws[l]->slug, of[l].found);
    if (!of[l].only.empty()) text += fmt::format("  alone: {}", fmt::join(of[l].only, " "));
    if (!of[l].first.empty()) text += fmt::format("  first: {}", fmt::join(of[l].first, " "));
    if (of[l].only.empty() && of[l].first.empty()) {
      text += m.laws[l]->stays.empty() ? std::string("  NOTHING FIRST") : fmt::format("  stays: {}", m.laws[l]->stays);
    }
    text += '\n';
  }
  const std::vector<double> times = sorted_times(m);
  const std::vector<std::string_view> alive = survivors(m);
  text += fmt::format(
      "\nthe law that means a mutant finds it in {:.3f} s (median; the worst of {} hunts took {:.3f} s)\n{}\n", times[times.size() / 2],
      times.size(), times.back(),
      alive.empty() ? "holds: no mutant survives" : fmt::format("VIOLATED: {} mutants survive: {}", alive.size(), fmt::join(alive, " ")));
  return text;
}

nlohmann::ordered_json to_json(const Matrix& m, const Settings& settings, std::int64_t seeds) {
  const std::vector<double> times = sorted_times(m);
  nlohmann::ordered_json j{{"cases", settings.cases},
                           {"seed", settings.seed},
                           {"seeds", seeds},
                           {"verdict", survivors(m).empty() ? "holds" : "violated"},
                           {"survivors", survivors(m)},
                           {"median_seconds", times[times.size() / 2]},
                           {"worst_seconds", times.back()}};
  const std::vector<Catch> of = catches(m);
  for (std::size_t l = 0; l < m.laws.size(); ++l) {
    j["laws"].push_back(
        {{"law", m.laws[l]->slug}, {"found", of[l].found}, {"alone", of[l].only}, {"first", of[l].first}, {"stays", m.laws[l]->stays}});
  }
  for (const Row& row : m.rows) {
    nlohmann::ordered_json found = nlohmann::ordered_json::object();
    for (std::size_t l = 0; l < m.laws.size(); ++l) {
      const Cell& c = row.cells[l];
      if (c.found() == 0) continue;
      const std::vector<double> seconds = c.seconds();
      found[std::string(m.laws[l]->slug)] = {
          {"seeds", c.found()}, {"cases", c.cases()}, {"median_seconds", seconds[seconds.size() / 2]}, {"worst_seconds", seconds.back()}};
    }
    j["mutants"].push_back({{"mutant", row.mutant->name},
                            {"fault", row.mutant->fault},
                            {"class", row.mutant->kind},
                            {"report", row.mutant->report},
                            {"law", row.mutant->law},
                            {"found_by", std::move(found)}});
  }
  return j;
}

}  // namespace

int print_matrix(const Settings& settings, std::int64_t seeds, const properties::Limits& limits, bool json) {
  Matrix m;
  for (const Law& law : properties::laws()) {
    if (settings.laws.empty() || std::find(settings.laws.begin(), settings.laws.end(), law.slug) != settings.laws.end())
      m.laws.push_back(&law);
  }
  for (const Mutant& mutant : properties::mutants()) {
    const auto meant = std::find_if(m.laws.begin(), m.laws.end(), [&](const Law* law) { return law->slug == mutant.law; });
    if (meant == m.laws.end()) continue;
    m.rows.push_back({&mutant, std::vector<Cell>(m.laws.size()), static_cast<std::size_t>(meant - m.laws.begin())});
  }
  if (m.rows.empty()) return fail({Code::bad_parameter, "--law: no mutant is meant for it (see norma list mutants)"});
  Result<std::unique_ptr<properties::Subject>> honest = properties::start(properties::honest_kernels().front(), limits);
  if (!honest.ok()) {
    (void)fail(honest.status());
    return subject_error;
  }
  Progress progress("hunting", seeds * static_cast<std::int64_t>(m.rows.size() * m.laws.size()));
  for (Row& row : m.rows) {
    Result<std::unique_ptr<properties::Subject>> subject = properties::start(properties::built_in(*row.mutant), limits);
    if (!subject.ok()) {
      (void)fail(subject.status());
      return subject_error;
    }
    for (std::int64_t s = 0; s < seeds; ++s) {
      Settings at = settings;
      at.seed += static_cast<std::uint64_t>(s);
      for (std::size_t l = 0; l < m.laws.size(); ++l) {
        Cell& cell = row.cells[l];
        if (s == 0 || cell.found() != 0 || l == row.meant) cell.hunts.push_back(properties::hunt(**subject, **honest, *m.laws[l], at));
        progress.advance(1);
      }
    }
  }
  if (json) {
    fmt::print("{}\n", to_json(m, settings, seeds).dump(2));
  } else {
    fmt::print("{}", to_text(m, settings, seeds));
  }
  return survivors(m).empty() ? holds : violated;
}

}  // namespace norma::program
