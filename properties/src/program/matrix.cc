#include "matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "norma/fuzz.h"
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

// The law that needs fewer cases than any other, of those that find the mutant at every seed; of equals nobody is first.
std::optional<std::size_t> first(const Row& row) {
  std::optional<std::size_t> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < row.cells.size(); ++l) {
    if (!row.cells[l].always() || row.cells[l].cases() > least) continue;
    best = row.cells[l].cases() < least ? std::optional(l) : std::nullopt;
    least = row.cells[l].cases();
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
    const std::optional<std::size_t> best = first(row);
    for (std::size_t l = 0; l < m.laws.size(); ++l) {
      if (row.cells[l].found() == 0) continue;
      ++of[l].found;
      if (finders(row) == 1) {
        of[l].only.push_back(row.mutant->name);
      } else if (best == l) {
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
  const std::optional<std::size_t> best = first(row);
  std::string line;
  for (std::size_t l = 0; l < row.cells.size(); ++l) {
    if (l != 0 && l % 10 == 0) line += ' ';
    const bool found = row.cells[l].found() != 0;
    line += l == row.meant ? (found ? best == l ? 'M' : 'm' : '?') : !found ? '.' : best == l ? 'x' : '+';
  }
  return line;
}

std::string to_text(const Matrix& m, const Settings& settings, std::int64_t seeds) {
  std::string text = fmt::format(
      "{} mutants, {} laws, up to {} cases a law, seeds {} to {}\n\n"
      "One character a law, as numbered below: . found nothing  + found it  x found it with fewer cases than any other\n"
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
    if (!m.laws[l]->stays.empty()) {
      text += fmt::format("  stays: {}", m.laws[l]->stays);
    } else if (of[l].only.empty() && of[l].first.empty()) {
      text += "  NOTHING FIRST";
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
      found[std::string(m.laws[l]->slug)] = {{"seeds", c.found()}, {"cases", c.cases()}};
    }
    const std::vector<double> seconds = row.cells[row.meant].seconds();
    j["mutants"].push_back({{"mutant", row.mutant->name},
                            {"fault", row.mutant->fault},
                            {"class", row.mutant->kind},
                            {"report", row.mutant->report},
                            {"law", row.mutant->law},
                            {"median_seconds", seconds[seconds.size() / 2]},
                            {"worst_seconds", seconds.back()},
                            {"found_by", std::move(found)}});
  }
  return j;
}

// What the processes that hunt have in common: the hunts, each written by one of them, and how far they have come.
class Shared {
 public:
  Shared(const Matrix& m, std::size_t seeds)
      : laws_(m.laws.size()), seeds_(seeds), bytes_(sizeof(Head) + m.rows.size() * laws_ * seeds * sizeof(Hunt)) {
    static_assert(std::is_trivially_copyable_v<Hunt> && sizeof(Head) % alignof(Hunt) == 0 &&
                  std::atomic<std::int64_t>::is_always_lock_free);
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    head_ = new (at) Head();
    hunts_ = new (head_ + 1) Hunt[m.rows.size() * laws_ * seeds];
  }
  ~Shared() { munmap(head_, bytes_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  // In cases, each of a mutant, a law and a seed.
  [[nodiscard]] std::atomic<std::int64_t>& done() const { return head_->done; }
  // One a seed; a hunt that was not asked for has looked at no case.
  [[nodiscard]] std::span<Hunt> of(std::size_t row, std::size_t law) const { return {hunts_ + (row * laws_ + law) * seeds_, seeds_}; }
  // Says why a process gives up, unless another one has done so.
  void complain(const Status& status) const {
    if (!head_->complained.exchange(true)) (void)fail(status);
  }

 private:
  struct Head {
    std::atomic<std::int64_t> done{0};
    std::atomic<bool> complained{false};
  };

  std::size_t laws_, seeds_, bytes_;
  Head* head_;
  Hunt* hunts_;
};

// Hunts every n-th mutant, from `first` on: by each law all together, but alone by the law that means it, for the time that this takes.
Status hunt_share(const Matrix& m, std::size_t first, std::size_t n, Settings at, const properties::Limits& limits, const Shared& shared) {
  std::vector<std::size_t> rows;
  std::vector<std::unique_ptr<properties::Subject>> subjects;
  const auto start = [&](const properties::BuiltIn& subject) {
    Result<std::unique_ptr<properties::Subject>> started = properties::start(subject, limits);
    if (!started.ok()) return started.status();
    subjects.push_back(std::move(*started));
    return Status{};
  };
  for (std::size_t r = first; r < m.rows.size(); r += n) {
    if (Status status = start(properties::built_in(*m.rows[r].mutant)); !status.ok()) return status;
    rows.push_back(r);
  }
  if (Status status = start(properties::honest_kernels().front()); !status.ok()) return status;
  properties::Subject& honest = *subjects.back();

  std::int64_t told = 0, due = 0;
  const auto tell = [&](std::int64_t cases) {
    told += cases;
    shared.done() += cases;
  };
  at.progress = tell;
  for (std::size_t l = 0; l < m.laws.size(); ++l) {
    Settings of_seed = at;
    for (std::size_t s = 0; s < shared.of(first, l).size(); ++s, ++of_seed.seed) {
      std::vector<properties::Subject*> together;
      std::vector<Hunt*> results;
      for (std::size_t k = 0; k < rows.size(); ++k) {
        const std::span<Hunt> hunts = shared.of(rows[k], l);
        properties::Subject* const subject = subjects[k].get();
        if (l == m.rows[rows[k]].meant) {
          hunts[s] = properties::hunt({&subject, 1}, honest, *m.laws[l], of_seed).front();
        } else if (s == 0 || hunts[0].found) {
          together.push_back(subject);
          results.push_back(&hunts[s]);
        }
      }
      const std::vector<Hunt> found = properties::hunt(together, honest, *m.laws[l], of_seed);
      for (std::size_t k = 0; k < found.size(); ++k) *results[k] = found[k];
      // What was found early, or not asked for, is done too.
      due += static_cast<std::int64_t>(rows.size()) * at.cases;
      tell(due - told);
    }
  }
  return {};
}

// In a process of its own; what it is to end with.
int work(const Matrix& m, std::size_t first, std::size_t n, const Settings& settings, const properties::Limits& limits,
         const Shared& shared) {
  Status status;
  try {
    status = hunt_share(m, first, n, settings, limits, shared);
  } catch (const std::exception& error) {
    status = {Code::io_error, error.what()};
  }
  if (!status.ok()) shared.complain(status);
  return status.ok() ? holds : subject_error;
}

// Hunts in as many processes as there are processors, each with its share of the mutants, for each of these is a process again. False where
// one of them gave up; it has said why.
bool hunt_all(const Matrix& m, const Settings& settings, const properties::Limits& limits, const Shared& shared, Progress& progress) {
  const std::size_t n = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, m.rows.size());
  const pid_t parent = getpid();
  std::vector<pid_t> workers;
  Status status;
  while (workers.size() < n && status.ok()) {
    const pid_t worker = fork();
    if (worker == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::_Exit(getppid() == parent ? work(m, workers.size(), n, settings, limits, shared) : subject_error);
    }
    if (worker > 0) workers.push_back(worker);
    if (worker < 0) status = {Code::io_error, fmt::format("no process to hunt in: {}", std::strerror(errno))};
  }
  for (std::int64_t told = 0; !workers.empty() && status.ok();) {
    constexpr useconds_t moment = 20'000;
    usleep(moment);
    const std::int64_t done = shared.done();
    if (done != told) progress.advance(done - told);
    told = done;
    std::erase_if(workers, [&](pid_t worker) {
      int how = 0;
      if (waitpid(worker, &how, WNOHANG) != worker) return false;
      if (how != 0) status = {Code::io_error, "a process that hunted mutants ended before it was done"};
      return true;
    });
  }
  for (const pid_t worker : workers) {
    kill(worker, SIGKILL);
    waitpid(worker, nullptr, 0);
  }
  if (!status.ok()) shared.complain(status);
  return status.ok();
}

}  // namespace

int print_matrix(const Settings& settings, std::int64_t seeds, const properties::Limits& limits, bool json) {
  Matrix m;
  for (const properties::Question& question : properties::questions(settings)) m.laws.push_back(question.law);
  for (const Mutant& mutant : properties::mutants()) {
    const auto meant = std::find_if(m.laws.begin(), m.laws.end(), [&](const Law* law) { return law->slug == mutant.law; });
    if (meant == m.laws.end()) continue;
    m.rows.push_back({&mutant, std::vector<Cell>(m.laws.size()), static_cast<std::size_t>(meant - m.laws.begin())});
  }
  if (m.rows.empty()) return fail({Code::bad_parameter, "--law: no mutant is meant for it (see norma list mutants)"});
  {
    const Shared shared(m, static_cast<std::size_t>(seeds));
    Progress progress("hunting", seeds * static_cast<std::int64_t>(m.rows.size() * m.laws.size()) * settings.cases);
    if (!hunt_all(m, settings, limits, shared, progress)) return subject_error;
    for (std::size_t r = 0; r < m.rows.size(); ++r) {
      for (std::size_t l = 0; l < m.laws.size(); ++l) {
        const std::span<Hunt> hunts = shared.of(r, l);
        std::copy_if(hunts.begin(), hunts.end(), std::back_inserter(m.rows[r].cells[l].hunts), [](const Hunt& h) { return h.cases != 0; });
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
