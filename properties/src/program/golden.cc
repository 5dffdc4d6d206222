#include "golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "norma/check.h"
#include "norma/reference.h"
#include "norma/tensor_file.h"
#include "norma/text.h"
#include "norma/vectors.h"
#include "program.h"
#include "report.h"
#include "search.h"
#include "subjects.h"

namespace norma::program {
namespace {

namespace fs = std::filesystem;
using properties::Case;
using properties::GoldenCase;
using properties::Reply;

constexpr const char* default_folder = "golden/vectors_v1";

// What was written, or is to be.
struct File {
  std::string name, text;
};

Result<std::vector<File>> made() {
  std::vector<properties::Vector> all = properties::vectors();
  Progress progress("computing", static_cast<std::int64_t>(all.size()));
  std::vector<File> files;
  std::vector<std::string> cases;
  for (std::size_t i = 0; i < all.size(); ++i) {
    progress.advance(1);
    Result<std::string> text = properties::to_golden(all[i].c, all[i].comment);
    if (!text.ok()) return Status{text.status().code, fmt::format("{}: {}", properties::to_line(all[i].c), text.status().message)};
    cases.push_back(std::move(*text));
    const std::string name = properties::file_of(all[i].c);
    if (i + 1 < all.size() && properties::file_of(all[i + 1].c) == name) continue;
    files.push_back({name, properties::golden_file(name, cases)});
    cases.clear();
  }
  return files;
}

}  // namespace

Result<std::vector<fs::path>> files_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ".json") paths.push_back(it->path());
  }
  if (error) return Status{Code::io_error, fmt::format("{}: {}", printable(folder), error.message())};
  if (paths.empty()) return Status{Code::io_error, fmt::format("{}: there are no golden files (*.json)", printable(folder))};
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<GoldenFile> read_golden(const std::string& path) {
  const Result<nlohmann::ordered_json> json = read_json(path);
  if (!json.ok()) return json.status();
  const auto bad = [&](std::string what) { return Status{Code::bad_file, fmt::format("{}: {}", printable(path), what)}; };
  if (!json->is_object() || json->value("format", nlohmann::ordered_json()) != "norma golden vectors 1") {
    return bad("expected an object with the format \"norma golden vectors 1\"");
  }
  if (!json->contains("cases") || !(*json)["cases"].is_array()) return bad("expected an array of cases");
  GoldenFile read;
  for (const nlohmann::ordered_json& j : (*json)["cases"]) {
    read.texts.push_back(j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    Result<GoldenCase> c = properties::parse_golden(read.texts.back());
    const std::string name = j.is_object() && j.contains("id") && j["id"].is_string() ? quote(j["id"].get<std::string>())
                                                                                      : fmt::format("number {}", read.cases.size() + 1);
    if (!c.ok()) return bad(fmt::format("case {}: {}", name, c.status().message));
    read.cases.push_back(std::move(*c));
  }
  if (read.cases.empty()) return bad("there are no cases");
  return read;
}

Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (fs::is_directory(path, error)) return {};
  return {Code::io_error, printable(path.string()) + " is no folder, and cannot be made one"};
}

namespace {

int write(const std::string& folder) {
  if (Status status = make_folder(folder); !status.ok()) return fail({status.code, "--dir: " + status.message});
  if (Status status = may_write_file(fs::path(folder) / "x.json"); !status.ok()) return fail(status);
  const Result<std::vector<File>> files = made();
  if (!files.ok()) return fail(files.status());
  std::size_t bytes = 0;
  for (const File& file : *files) {
    const fs::path path = fs::path(folder) / (file.name + ".json");
    bytes += file.text.size();
    // What is the same stays as it is.
    std::error_code none;
    if (fs::exists(path, none)) {
      if (const Result<std::string> old = read_file(path); old.ok() && *old == file.text) continue;
    }
    if (Status status = write_file(path, std::as_bytes(std::span(file.text))); !status.ok()) return fail(status);
  }
  fmt::print("{} files, {:.1f} MB in {}\n", files->size(), static_cast<double>(bytes) / 1e6, printable(folder));
  return holds;
}

// The first place where two cases differ, for a message.
std::string first_difference(const std::string& is, const std::string& should) {
  const nlohmann::json difference = nlohmann::json::diff(nlohmann::json::parse(is), nlohmann::json::parse(should));
  if (difference.empty()) return "its keys are in another order";
  const std::string wanted = difference[0].contains("value") ? difference[0]["value"].dump() : "nothing there";
  return fmt::format("{}: expected {}", difference[0]["path"].get<std::string>(), wanted.size() > 80 ? wanted.substr(0, 80) + "…" : wanted);
}

// Every case is what the reference makes of its call; every file is what its cases make of it.
int lint(const std::string& folder) {
  const Result<std::vector<fs::path>> paths = files_of(folder);
  if (!paths.ok()) return fail(paths.status());
  std::map<std::string, std::string> ids;
  std::size_t cases = 0, faults = 0;
  constexpr std::size_t most_told = 20;
  const auto tell = [&](const std::string& what) {
    if (++faults <= most_told) fmt::print("{}\n", printable(what));
  };
  const auto fault = [&](const fs::path& path, const std::string& what) { tell(fmt::format("{}: {}", path.string(), what)); };
  for (const fs::path& path : *paths) {
    const Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) {
      tell(read.status().message);
      continue;
    }
    for (std::size_t i = 0; i < read->cases.size(); ++i) {
      const GoldenCase& c = read->cases[i];
      const Result<std::string> right = properties::to_golden(c.c, c.comment);
      if (!right.ok()) {
        fault(path, fmt::format("{}: {}", quote(c.id), right.status().message));
      } else if (*right != read->texts[i]) {
        fault(path, fmt::format("{}: {}", quote(c.id), first_difference(read->texts[i], *right)));
      }
      if (properties::file_of(c.c) != path.stem())
        fault(path, fmt::format("{} belongs into {}.json", quote(c.id), properties::file_of(c.c)));
      if (const auto [other, is_new] = ids.emplace(c.id, path.filename().string()); !is_new) {
        fault(path, fmt::format("{} is in {} already", quote(c.id), other->second));
      }
    }
    cases += read->cases.size();
    const Result<std::string> text = read_file(path);
    if (text.ok() && *text != properties::golden_file(path.stem().string(), read->texts)) {
      fault(path, "its header, its notes or its lines are not what its cases make of them");
    }
  }
  if (faults > most_told) fmt::print("and {} more\n", faults - most_told);
  fmt::print("{}: {} cases in {} files, {} {}\n", faults == 0 ? "holds" : "VIOLATED", cases, paths->size(), faults,
             faults == 1 ? "fault" : "faults");
  return faults == 0 ? holds : violated;
}

// Whether a value is in its interval: a NaN where there is none but NaN, and a zero of either sign is one number.
bool inside(Format format, Bits got, Bits low, Bits high) {
  const double v = properties::value_of(format, got), least = properties::value_of(format, low), most = properties::value_of(format, high);
  return std::isnan(v) ? std::isnan(least) : least <= v && v <= most;
}

struct Score {
  std::int64_t cases = 0, unsupported = 0, outside = 0, excused = 0, elements = 0, right = 0;
  std::string first;
};

void compare(const GoldenCase& g, const ByRole<Tensor>& got, Score& score) {
  bool out = false;
  ++score.cases;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!got[role] || !g.right[role]) continue;
    for (std::int64_t i = 0; i < properties::size_of(*got[role]); ++i) {
      const Format format = got[role]->format;
      const Bits bits = properties::bits_at(*got[role], i), low = properties::bits_at(*g.low[role], i),
                 high = properties::bits_at(*g.high[role], i);
      ++score.elements;
      score.right += inside(format, bits, properties::bits_at(*g.right[role], i), properties::bits_at(*g.right[role], i));
      if (out || inside(format, bits, low, high)) continue;
      out = true;
      ++(g.must ? score.outside : score.excused);
      if (!g.must || !score.first.empty()) continue;
      score.first = fmt::format("{}: {}[{}] is {} ({}), expected {} to {}", g.id, name(role), i, to_shortest(format, bits),
                                to_hex(format, bits), to_shortest(format, low), to_shortest(format, high));
    }
  }
}

int verify(const std::string& name, const std::string& folder, double seconds) {
  const Result<std::vector<fs::path>> paths = files_of(folder);
  if (!paths.ok()) return fail(paths.status());
  const Started started = start_or_fail(name, limits_of(seconds));
  if (!started.subject) return started.status;
  properties::Watched subject(*started.subject);
  std::vector<std::vector<std::string>> rows{{"file", "cases", "unsupported", "correctly rounded", "outside", "out of range"}};
  std::vector<std::string> firsts;
  Score all;
  for (const fs::path& path : *paths) {
    const Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) return fail(read.status());
    Score score;
    for (const GoldenCase& g : read->cases) {
      if (!subject.hopeless().empty()) break;
      Case c = g.c;
      Reply reply = subject.run(c);
      if (reply.kind == Reply::Kind::unsupported) {
        // Many show no statistics of their own.
        const Roles optional{Role::mean, Role::rstd};
        c.outputs = {};
        for (std::size_t r = 0; r < role_count; ++r) {
          if (g.c.outputs.contain(static_cast<Role>(r)) && !optional.contain(static_cast<Role>(r)))
            c.outputs = c.outputs | Roles{static_cast<Role>(r)};
        }
        reply = subject.run(c);
      }
      if (reply.kind == Reply::Kind::ok) {
        compare(g, reply.outputs, score);
      } else if (reply.kind == Reply::Kind::unsupported) {
        ++score.unsupported;
      } else {
        ++score.cases;
        ++score.outside;
        if (score.first.empty()) score.first = fmt::format("{}: {}", g.id, reply.what);
      }
    }
    rows.push_back(
        {path.stem().string(), std::to_string(score.cases), std::to_string(score.unsupported),
         score.elements == 0 ? "" : fmt::format("{:.4g} %", 100.0 * static_cast<double>(score.right) / static_cast<double>(score.elements)),
         std::to_string(score.outside), std::to_string(score.excused)});
    if (!score.first.empty()) firsts.push_back(score.first);
    all.cases += score.cases, all.unsupported += score.unsupported, all.outside += score.outside, all.excused += score.excused;
  }
  print_table(rows);
  fmt::print("\n");
  for (const std::string& first : firsts) fmt::print("{}\n", first);
  const std::string ended = subject.hopeless();
  const bool held = all.outside == 0 && all.cases != 0;
  fmt::print("{}: {} cases compared, {} outside of their interval, {} unsupported\n",
             all.cases == 0 ? "UNTESTED"
             : held         ? "holds"
                            : "VIOLATED",
             all.cases, all.outside, all.unsupported);
  if (!ended.empty()) {
    (void)fail({Code::io_error, fmt::format("{} ended early: {}", name, ended)});
    return all.outside != 0 ? violated : subject_error;
  }
  return held ? holds : violated;
}

int show(const std::string& id, const std::string& folder) {
  const Result<std::vector<fs::path>> paths = files_of(folder);
  if (!paths.ok()) return fail(paths.status());
  for (const fs::path& path : *paths) {
    const Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) return fail(read.status());
    const auto found = std::find_if(read->cases.begin(), read->cases.end(), [&](const GoldenCase& g) { return g.id == id; });
    if (found == read->cases.end()) continue;
    const GoldenCase& g = *found;
    const nlohmann::ordered_json j = nlohmann::ordered_json::parse(read->texts[static_cast<std::size_t>(found - read->cases.begin())]);
    fmt::print("{}: {}\n\n", g.id, g.comment);
    for (const properties::Flag& flag : properties::flags()) {
      if (std::find(j["flags"].begin(), j["flags"].end(), flag.name) != j["flags"].end()) fmt::print("{}: {}\n", flag.name, flag.notes);
    }
    fmt::print("\nepsilon {}, {}\n\n", to_shortest(Format::f64, std::bit_cast<Bits>(g.c.spec.effective_epsilon())),
               g.must ? "must" : "should: its squares or sums may leave the range of an arithmetic");
    std::vector<std::vector<std::string>> rows{{"tensor", "element", "value", "bits", "lowest", "highest"}};
    constexpr std::int64_t most = 16;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      for (const auto* tensors : {&g.c.inputs, &g.right}) {
        const std::optional<Tensor>& t = (*tensors)[role];
        if (!t) continue;
        const std::int64_t n = properties::size_of(*t);
        for (std::int64_t i = 0; i < std::min(n, most); ++i) {
          const Bits bits = properties::bits_at(*t, i);
          std::vector<std::string> row{std::string(name(role)), std::to_string(i), to_shortest(t->format, bits), to_hex(t->format, bits)};
          if (tensors == &g.right) {
            row.push_back(to_shortest(t->format, properties::bits_at(*g.low[role], i)));
            row.push_back(to_shortest(t->format, properties::bits_at(*g.high[role], i)));
          }
          rows.push_back(std::move(row));
        }
        if (n > most) rows.push_back({std::string(name(role)), fmt::format("and {} more", n - most)});
      }
    }
    print_table(rows);
    fmt::print("\nnorma check SUBJECT --law agrees_with_reference --case {}\n",
               for_people(properties::shell_word(properties::to_line(g.c)), g.c.elements()));
    return holds;
  }
  return fail({Code::bad_parameter, fmt::format("{}: there is no case {}", printable(folder), quote(id))});
}

}  // namespace

void add_golden(CLI::App& app, Command& chosen) {
  CLI::App* golden = app.add_subcommand("golden", "Golden files: calls with their correctly rounded outputs, for tests in any language");
  golden->require_subcommand(1);
  const auto folder = std::make_shared<std::string>(default_folder);
  const auto subject = std::make_shared<std::string>();
  const auto seconds = std::make_shared<double>(2);
  const auto add = [&](const char* name, const char* what, Command run) {
    CLI::App* command = golden->add_subcommand(name, what);
    command->add_option("--dir", *folder, fmt::format("where the files are; {}", default_folder))->type_name("DIR");
    command->callback([run = std::move(run), &chosen] { chosen = run; });
    return command;
  };
  add("write", "Computes all of them anew", [folder] { return write(*folder); });
  add("lint", "Tells whether every file is what the reference makes of its calls", [folder] { return lint(*folder); });
  CLI::App* command = add("verify", "Puts every case to an implementation", [=] { return verify(*subject, *folder, *seconds); });
  command->add_option("SUBJECT", *subject, "as in norma check")->required();
  add_time(*command, *seconds);
  command = add("show", "Explains a case", [=] { return show(*subject, *folder); });
  command->add_option("ID", *subject, "as in the files")->required();
  const auto format = std::make_shared<std::string>(), out = std::make_shared<std::string>();
  command = add("export", "Writes them in a form that others read", [=] { return export_golden(*folder, *format, *out); });
  command->add_option("--format", *format, "safetensors, npz, or onnx: folders as ONNX's backend tests")->required()->type_name("FORMAT");
  command->add_option("--out", *out, "a folder, made if it is not there")->required()->type_name("DIR");
}

}  // namespace norma::program
