// An implementation, or what somebody's program wrote, against the golden files.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "golden.h"
#include "norma/check.h"
#include "norma/reference.h"
#include "norma/tensor_file.h"
#include "norma/text.h"
#include "program.h"
#include "report.h"
#include "subjects.h"

namespace norma::program {
namespace {

namespace fs = std::filesystem;
using properties::Case;
using properties::GoldenCase;
using properties::Reply;

std::string describe(std::string_view role, std::int64_t i, const Tensor& got, const Tensor& low, const Tensor& high) {
  const auto shortest = [&](const Tensor& t) { return to_shortest(t.format, properties::bits_at(t, i)); };
  return fmt::format("{}[{}] is {} ({}), expected {} to {}", role, i, shortest(got), to_hex(got.format, properties::bits_at(got, i)),
                     shortest(low), shortest(high));
}

// Of the cases of an op and format.
struct Score {
  std::int64_t cases = 0, absent = 0, outside = 0, excused = 0, elements = 0, right = 0;
  std::string first;

  // A case has an output outside of its interval; not its first one, perhaps.
  void leave(const GoldenCase& g, const std::string& what) {
    ++(g.must ? outside : excused);
    if (g.must && first.empty()) first = fmt::format("{}: {}", g.id, what);
  }
};
using Scores = std::map<std::string, Score>;

std::vector<std::string> names_of(const Scores& scores) {
  std::vector<std::string> names;
  for (const auto& [name, score] : scores) names.push_back(name);
  return names;
}

// The table, what was first outside in each row, and all together. `absent` is what the cases that were not compared are called.
Score tell(const Scores& scores, const char* absent) {
  std::vector<std::vector<std::string>> rows{{"file", "cases", absent, "correctly rounded", "outside", "out of range"}};
  Score all;
  for (const auto& [name, s] : scores) {
    const double part = 100.0 * static_cast<double>(s.right) / static_cast<double>(std::max<std::int64_t>(1, s.elements));
    rows.push_back({name, std::to_string(s.cases), std::to_string(s.absent), s.elements == 0 ? "" : fmt::format("{:.4g} %", part),
                    std::to_string(s.outside), std::to_string(s.excused)});
    all.cases += s.cases, all.absent += s.absent, all.outside += s.outside, all.excused += s.excused;
  }
  print_table(rows);
  fmt::print("\n");
  for (const auto& [name, s] : scores) {
    if (!s.first.empty()) fmt::print("{}\n", printable(s.first));
  }
  return all;
}

// False where the subject is gone and nothing can be said.
bool put(const GoldenCase& g, properties::Watched& subject, Score& score) {
  Case c = g.c;
  Reply reply = subject.run(c);
  if (reply.kind == Reply::Kind::unsupported) {
    // Many show no statistics of their own.
    c.outputs = {};
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (g.c.outputs.contain(role) && !Roles{Role::mean, Role::rstd}.contain(role)) c.outputs = c.outputs | Roles{role};
    }
    reply = subject.run(c);
  }
  if (reply.kind == Reply::Kind::lost) return false;
  if (reply.kind == Reply::Kind::unsupported) {
    ++score.absent;
    return true;
  }
  ++score.cases;
  if (reply.kind != Reply::Kind::ok) {
    ++score.outside;
    if (score.first.empty()) score.first = fmt::format("{}: {}", g.id, reply.what);
    return true;
  }
  std::string what;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!reply.outputs[role] || !g.right[role]) continue;
    const properties::Comparison compared = properties::compare(*reply.outputs[role], *g.right[role], *g.low[role], *g.high[role]);
    score.elements += properties::size_of(*g.right[role]);
    score.right += compared.right;
    if (compared.outside && what.empty()) what = describe(name(role), *compared.outside, *reply.outputs[role], *g.low[role], *g.high[role]);
  }
  if (!what.empty()) score.leave(g, what);
  return true;
}

// An output of a case and what was made of it.
struct Expected {
  const GoldenCase* of;  // without tensors, where they are still in the file
  fs::path file;
  Role role;
  Format format;
  Shape shape;
  enum class State : std::uint8_t { missing, refused, compared } state = State::missing;
};

// What a folder expects of a program: outputs by name, and the cases that they are of. Tensors of .safetensors stay in their files, but for
// the first few.
struct Expectations {
  std::uintmax_t room = std::uintmax_t{16} << 20;  // bytes of files
  std::vector<std::unique_ptr<GoldenCase>> cases;
  std::map<std::string, Expected> outputs;
  std::set<std::string> others;  // of cases that are not chosen
};

Status expect_of(const fs::path& path, const GoldenChoice& choice, Expectations& to) {
  const auto expect = [&](std::unique_ptr<GoldenCase> g, const fs::path& file) {
    const bool taken = choice.takes(*g);
    constexpr std::int64_t most_bytes = std::int64_t{32} << 20;  // of a tensor: four of them are in memory at once
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!g->right[role]) continue;
      const std::string name = properties::tensor_name(g->id, "out", role);
      const Tensor& right = *g->right[role];
      if (properties::product(right.shape.begin(), right.shape.end()) > most_bytes / info(right.format).bytes()) {
        return Status{Code::bad_file, fmt::format("{}: {} has more than 32 MiB", printable(path.string()), quote(name))};
      }
      if (!taken) {
        to.others.insert(name);
      } else if (!to.outputs.emplace(name, Expected{g.get(), file, role, right.format, right.shape}).second) {
        return Status{Code::bad_file, fmt::format("{}: case {} is in another file already", printable(path.string()), quote(g->id))};
      }
    }
    if (taken) to.cases.push_back(std::move(g));
    return Status{};
  };
  std::error_code none;
  const std::uintmax_t bytes = fs::file_size(path, none);
  if (path.extension() == ".json" || bytes <= to.room) {
    to.room -= std::min(bytes, to.room);
    Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) return read.status();
    for (GoldenCase& g : read->cases) {
      if (Status s = expect(std::make_unique<GoldenCase>(std::move(g)), {}); !s.ok()) return s;
    }
    return {};
  }
  TensorFile headers;
  const TensorVisitor visitor{
      .wanted = [&](const TensorHeader& header) -> Result<std::optional<Format>> {
        if (!header.format) return Status{Code::bad_file, fmt::format("tensor {} has dtype {}", quote(header.name), header.dtype)};
        headers.tensors.push_back({header.name, *header.format, header.shape, {}});
        return std::optional<Format>();
      },
      .see = [](Tensor&&) { return Status{}; },
      .metadata =
          [&](const std::string& key, const std::string& value) {
            headers.metadata.emplace(key, value);
            return Status{};
          },
  };
  if (Status s = visit_tensor_file(path, visitor); !s.ok()) return s;
  Result<std::vector<GoldenCase>> cases = properties::golden_cases(std::move(headers));
  if (!cases.ok()) return {cases.status().code, fmt::format("{}: {}", printable(path.string()), cases.status().message)};
  for (GoldenCase& g : *cases) {
    if (Status s = expect(std::make_unique<GoldenCase>(std::move(g)), path); !s.ok()) return s;
  }
  return {};
}

// What is right for an output ("out"), or an end of its interval ("lo", "hi").
Result<Tensor> expected_tensor(const Expected& e, std::string_view kind) {
  if (e.file.empty()) return *(kind == "out" ? e.of->right : kind == "lo" ? e.of->low : e.of->high)[e.role];
  const std::string name = properties::tensor_name(e.of->id, kind, e.role);
  Tensor found;
  const TensorVisitor visitor{
      .wanted = [&](const TensorHeader& header) -> Result<std::optional<Format>> {
        return header.name == name && header.shape == e.shape ? header.format : std::nullopt;
      },
      .see =
          [&](Tensor&& t) {
            found = std::move(t);
            return Status{};
          },
  };
  if (Status s = visit_tensor_file(e.file, visitor); !s.ok()) return s;
  if (found.name != name || found.format != e.format) {
    return Status{Code::bad_file, fmt::format("{}: tensor {} is gone", printable(e.file.string()), quote(name))};
  }
  return found;
}

// The files of a program, one tensor at a time.
class Outputs {
 public:
  Outputs(Expectations& expected, Scores& scores) : expected_(expected), scores_(scores) {}

  Status read(const fs::path& path) {
    return visit_tensor_file(path, {.wanted = [&](const TensorHeader& header) { return wanted(header, path); },
                                    .see = [&](Tensor&& t) { return compare(std::move(t)); }});
  }
  // What is wrong with them but for values.
  void fault(std::string what) {
    if (++count_ <= most_told) faults_.push_back(std::move(what));
  }
  [[nodiscard]] std::int64_t faults() const { return count_; }
  void tell_faults() const {
    for (const std::string& what : faults_) fmt::print("{}\n", printable(what));
    if (count_ > most_told) fmt::print("and {} more\n", count_ - most_told);
  }

 private:
  Result<std::optional<Format>> wanted(const TensorHeader& header, const fs::path& path) {
    constexpr std::optional<Format> none;
    const auto found = expected_.outputs.find(header.name);
    if (found == expected_.outputs.end()) {
      if (!expected_.others.contains(header.name)) fault(fmt::format("{}: no case has an output {}", path.string(), quote(header.name)));
      return none;
    }
    Expected& e = found->second;
    if (std::exchange(e.state, Expected::State::refused) != Expected::State::missing) {
      fault(fmt::format("{} is there twice, in {} for the second time", header.name, path.string()));
      return none;
    }
    // Numpy has no bf16: its bits come as uint16, or as two bytes of nothing in particular.
    if (header.format != e.format && !(header.bits && e.format == Format::bf16)) {
      fault(fmt::format("{} has dtype {}: expected {}", header.name, header.dtype, info(e.format).name));
      return none;
    }
    if (header.shape != e.shape) {
      fault(fmt::format("{} has shape {}: expected {}", header.name, norma::to_text(header.shape), norma::to_text(e.shape)));
      return none;
    }
    e.state = Expected::State::compared;
    return std::optional<Format>(e.format);
  }

  Status compare(Tensor&& got) {
    Expected& e = expected_.outputs.at(got.name);
    Score& score = scores_[properties::file_of(e.of->c)];
    const Result<Tensor> right = expected_tensor(e, "out");
    if (!right.ok()) return right.status();
    const std::int64_t n = properties::size_of(*right);
    score.elements += n;
    // What is correctly rounded throughout needs no interval.
    if (got.data == right->data) {
      score.right += n;
      return {};
    }
    const Result<Tensor> low = expected_tensor(e, "lo"), high = expected_tensor(e, "hi");
    if (!low.ok()) return low.status();
    if (!high.ok()) return high.status();
    const properties::Comparison c = properties::compare(got, *right, *low, *high);
    score.right += c.right;
    if (c.outside && outside_.insert(e.of).second) score.leave(*e.of, describe(name(e.role), *c.outside, got, *low, *high));
    return {};
  }

  Expectations& expected_;
  Scores& scores_;
  static constexpr std::int64_t most_told = 20;
  std::vector<std::string> faults_;
  std::int64_t count_ = 0;
  std::set<const GoldenCase*> outside_;
};

}  // namespace

int verify_subject(const std::string& name, const GoldenChoice& choice, double seconds) {
  if (Status status = choice.check(); !status.ok()) return fail(status);
  const Result<std::vector<fs::path>> paths = files_of(choice.folder);
  if (!paths.ok()) return fail(paths.status());
  if (Status status = all_there(choice.folder); !status.ok()) return fail(status);
  const Started started = start_or_fail(name, limits_of(seconds));
  if (!started.subject) return started.status;
  properties::Watched subject(*started.subject);
  Scores scores;
  std::set<std::string> ids;
  Progress progress("files", static_cast<std::int64_t>(paths->size()));
  for (const fs::path& path : *paths) {
    if (!subject.hopeless().empty()) break;
    const Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) {
      progress.hide();
      return fail(read.status());
    }
    for (const GoldenCase& g : read->cases) {
      if (!ids.insert(g.id).second) {
        progress.hide();
        return fail({Code::bad_file, fmt::format("{}: case {} is in another file already", printable(path.string()), quote(g.id))});
      }
      if (choice.takes(g) && !put(g, subject, scores[properties::file_of(g.c)])) break;
      if (!subject.hopeless().empty()) break;
    }
    progress.advance(1);
  }
  progress.hide();
  if (Status status = subject.hopeless().empty() ? choice.all_chosen(names_of(scores)) : Status{}; !status.ok()) return fail(status);
  const Score all = tell(scores, "unsupported");
  const std::string ended = subject.hopeless();
  const bool held = all.outside == 0 && all.cases != 0;
  fmt::print("{}: {} cases compared, {} outside of their interval, {} unsupported\n",
             all.cases == 0 ? "UNTESTED"
             : held         ? "holds"
                            : "VIOLATED",
             all.cases, all.outside, all.absent);
  if (!ended.empty()) {
    (void)fail({Code::io_error, fmt::format("{} ended early: {}", name, ended)});
    return all.outside != 0 ? violated : subject_error;
  }
  return held ? holds : violated;
}

int verify_outputs(const std::string& outputs, const GoldenChoice& choice) {
  if (Status status = choice.check(); !status.ok()) return fail(status);
  const Result<std::vector<fs::path>> paths = files_of(choice.folder);
  if (!paths.ok()) return fail(paths.status());
  if (Status status = all_there(choice.folder); !status.ok()) return fail(status);
  if (std::error_code error; fs::equivalent(outputs, choice.folder, error)) {
    return fail({Code::bad_parameter,
                 fmt::format("--outputs {}: has the golden files themselves: expected what a program made of them", printable(outputs))});
  }
  const Result<std::vector<fs::path>> given = files_of(outputs, {".json", ".npz", ".safetensors"});
  if (!given.ok()) return fail(given.status());
  Expectations expected;
  for (const fs::path& path : *paths) {
    if (Status s = expect_of(path, choice, expected); !s.ok()) return fail(s);
  }
  Scores scores;
  for (const auto& g : expected.cases) (void)scores[properties::file_of(g->c)];
  if (Status status = choice.all_chosen(names_of(scores)); !status.ok()) return fail(status);
  Outputs read(expected, scores);
  Progress progress("files", static_cast<std::int64_t>(given->size()));
  for (const fs::path& path : *given) {
    if (Status s = read.read(path); !s.ok()) {
      progress.hide();
      return fail(s);
    }
    progress.advance(1);
  }
  progress.hide();
  // A case is compared where all of it is there but statistics, which many do not show.
  std::set<const GoldenCase*> absent;
  for (const auto& [name, e] : expected.outputs) {
    const bool optional = e.role == Role::mean || e.role == Role::rstd;
    if (e.state == Expected::State::missing && !optional) read.fault(fmt::format("{} is missing", name));
    if (e.state == Expected::State::refused || (e.state == Expected::State::missing && !optional)) absent.insert(e.of);
  }
  for (const auto& g : expected.cases) {
    Score& score = scores[properties::file_of(g->c)];
    ++(absent.contains(g.get()) ? score.absent : score.cases);
  }
  const Score all = tell(scores, "missing");
  read.tell_faults();
  const bool held = all.outside == 0 && all.cases != 0 && read.faults() == 0;
  fmt::print("{}: {} cases compared, {} outside of their interval, {} missing, {} {}\n",
             held               ? "holds"
             : all.outside != 0 ? "VIOLATED"
             : all.cases == 0   ? "UNTESTED"
                                : "INCOMPLETE",
             all.cases, all.outside, all.absent, read.faults(), read.faults() == 1 ? "fault" : "faults");
  return held ? holds : violated;
}

}  // namespace norma::program
