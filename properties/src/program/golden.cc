#include "golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
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

Result<std::vector<properties::GoldenText>> made() {
  const std::vector<properties::Vector> all = properties::vectors();
  Progress progress("computing", static_cast<std::int64_t>(all.size()));
  return properties::golden_files(all, [&] { progress.advance(1); });
}

int write(const std::string& folder) {
  if (Status status = make_folder(folder); !status.ok()) return fail(status);
  if (Status status = may_write_file(fs::path(folder) / "x.json"); !status.ok()) return fail(status);
  const Result<std::vector<properties::GoldenText>> files = made();
  if (!files.ok()) return fail(files.status());
  std::size_t bytes = 0;
  Manifest manifest{"norma golden write", static_cast<std::int64_t>(files->size()), {}};
  for (const properties::GoldenText& file : *files) {
    const Result<std::string> sum = sha256(file.text);
    if (!sum.ok()) return fail(sum.status());
    manifest.sums[file.name + ".json"] = *sum;
    bytes += file.text.size();
  }
  // What is the same stays as it is.
  const auto put = [&](const std::string& name, const std::string& text) {
    const fs::path path = fs::path(folder) / name;
    std::error_code none;
    if (fs::exists(path, none)) {
      if (const Result<std::string> old = read_file(path); old.ok() && *old == text) return Status{};
    }
    return write_file(path, std::as_bytes(std::span(text)));
  };
  // The list first: what is not yet as it says is seen to be a part.
  if (Status status = put(std::string(manifest_name), to_text(manifest)); !status.ok()) return fail(status);
  for (const properties::GoldenText& file : *files) {
    if (Status status = put(file.name + ".json", file.text); !status.ok()) return fail(status);
  }
  fmt::print("{} files, {:.1f} MB in {}\n", files->size(), static_cast<double>(bytes) / 1e6, printable(folder));
  return holds;
}

// The first place where two cases differ, for a message; nothing where they do not.
std::string first_difference(const std::string& is, const std::string& should) {
  if (is == should) return "";
  const nlohmann::json difference = nlohmann::json::diff(nlohmann::json::parse(is), nlohmann::json::parse(should));
  if (difference.empty()) return "its keys are in another order";
  const std::string wanted = difference[0].contains("value") ? difference[0]["value"].dump() : "nothing there";
  return fmt::format("{}: expected {}", difference[0]["path"].get<std::string>(), wanted.size() > 80 ? wanted.substr(0, 80) + "…" : wanted);
}
std::string first_difference(const GoldenCase& is, const GoldenCase& should, const std::string& call) {
  TensorFile a, b;
  properties::add_to(a, is);
  properties::add_to(b, should);
  if (call != b.metadata.begin()->second) return first_difference(call, b.metadata.begin()->second);
  const auto [at, other] = std::mismatch(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end());
  if (at == a.tensors.end() && other == b.tensors.end()) return "";
  return at == a.tensors.end() ? other->name + " is missing" : at->name + " is not what the reference gives";
}

// Every case is what the reference makes of its call; every file is what its cases make of it, and as it is listed.
int lint(const std::string& folder) {
  const Result<std::vector<fs::path>> paths = files_of(folder);
  if (!paths.ok()) return fail(paths.status());
  const Result<std::vector<std::string>> listed = manifest_faults(folder, *paths);
  if (!listed.ok()) return fail(listed.status());
  std::map<std::string, std::string> ids;
  std::size_t cases = 0, faults = 0;
  constexpr std::size_t most_told = 20;
  Progress progress("files", static_cast<std::int64_t>(paths->size()));
  const auto tell = [&](const std::string& what) {
    progress.hide();
    if (++faults <= most_told) fmt::print("{}\n", printable(what));
  };
  for (const std::string& what : *listed) tell(what);
  for (const fs::path& path : *paths) {
    const auto fault = [&](const std::string& what) { tell(fmt::format("{}: {}", path.string(), what)); };
    progress.advance(1);
    const Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) {
      tell(read.status().message);
      continue;
    }
    const bool json = path.extension() == ".json";
    for (std::size_t i = 0; i < read->cases.size(); ++i) {
      const GoldenCase& c = read->cases[i];
      const Result<GoldenCase> right = properties::golden_case(c.c, c.comment);
      const std::string difference = !right.ok() ? right.status().message
                                     : json      ? first_difference(read->texts[i], properties::to_json(*right))
                                                 : first_difference(c, *right, read->texts[i]);
      if (!difference.empty()) fault(fmt::format("{}: {}", quote(c.id), difference));
      if (json && properties::file_of(c.c) != path.stem())
        fault(fmt::format("{} belongs into {}.json", quote(c.id), properties::file_of(c.c)));
      if (const auto [other, is_new] = ids.emplace(c.id, path.filename().string()); !is_new) {
        fault(fmt::format("{} is in {} already", quote(c.id), other->second));
      }
    }
    cases += read->cases.size();
    const Result<std::string> text = read_file(path);
    if (json && text.ok() && *text != properties::golden_file(path.stem().string(), read->texts)) {
      fault("its header, its notes or its lines are not what its cases make of them");
    }
  }
  progress.hide();
  if (faults > most_told) fmt::print("and {} more\n", faults - most_told);
  fmt::print("{}: {} cases in {} files, {} {}\n", faults == 0 ? "holds" : "VIOLATED", cases, paths->size(), faults,
             faults == 1 ? "fault" : "faults");
  return faults == 0 ? holds : violated;
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
    fmt::print("{}: {}\n\n", g.id, g.comment);
    for (const properties::Flag& flag : properties::flags()) {
      if (std::find(g.flags.begin(), g.flags.end(), flag.name) != g.flags.end()) fmt::print("{}: {}\n", flag.name, flag.notes);
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
  struct Options {
    GoldenChoice choice{.folder = default_folder, .ops = {}, .dtypes = {}, .without = {}};
    std::string word, outputs, tier = "committed", out, shard = "1/1";
    std::uint64_t seed = 1;
    std::int64_t cases = properties::large_cases;
    double seconds = default_seconds;
  };
  const auto o = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* what, Command run) {
    CLI::App* command = golden->add_subcommand(name, what);
    command->callback([run = std::move(run), &chosen] { chosen = run; });
    return command;
  };
  const auto add_dir = [&](CLI::App* command) {
    command->add_option("--dir", o->choice.folder, fmt::format("where the files are; {}", default_folder))->type_name("DIR");
  };

  CLI::App* command = golden->add_subcommand("write", "Computes all of them anew, or a large tier");
  command->add_option("--out,--dir", o->choice.folder, fmt::format("where to; {}", default_folder))->type_name("DIR");
  command->add_option("--tier", o->tier, "committed (the default), or large: 3 GB of cases of up to 2^20 elements, as .safetensors")
      ->check(CLI::IsMember({"committed", "large"}));
  std::vector<CLI::Option*> of_large;
  of_large.push_back(command->add_option("--shard", o->shard, "of the large tier: only the I-th of N shares")->type_name("I/N"));
  add_seed(*command, o->seed);
  of_large.push_back(command->get_option("--seed"));
  constexpr std::uint64_t most_cases = 99'999;
  add_whole(*command, "--cases", o->cases, fmt::format("of the large tier: so many, in all shares together; {}", properties::large_cases),
            1, most_cases);
  of_large.push_back(command->get_option("--cases"));
  command->footer(
      "What of a large tier is there already, by its checksum, is not made again.\n"
      "Example: norma golden write --tier large --seed 7 --shard 2/8 --out /data/golden");
  command->callback([o, of_large, &chosen] {
    const bool large = o->tier == "large";
    for (const CLI::Option* option : of_large) {
      if (!large && !option->empty()) throw CLI::ValidationError(option->get_name(), "expected with --tier large only");
    }
    if (large && o->choice.folder == default_folder) throw CLI::ValidationError("--out", "expected a folder for the large tier");
    chosen = [o, large] { return large ? write_large(o->choice.folder, o->seed, o->shard, o->cases) : write(o->choice.folder); };
  });

  add_dir(add("lint", "Tells whether every file is what the reference makes of its calls", [o] { return lint(o->choice.folder); }));

  command = golden->add_subcommand("verify", "Puts every case to an implementation, or compares what a program wrote");
  add_dir(command);
  CLI::Option* subject = command->add_option("SUBJECT", o->word, "as in norma check");
  CLI::Option* outputs =
      command->add_option("--outputs", o->outputs, "instead of a subject: .safetensors, .npz or .json files with outputs")
          ->type_name("DIR")
          ->check(not_empty());
  command->add_option("--op", o->choice.ops, "only these ops")->delimiter(',')->type_name("OP,...");
  command->add_option("--dtype", o->choice.dtypes, "only these formats of x")->delimiter(',')->type_name("NAME,...");
  command->add_option("--without", o->choice.without, "only cases without these flags (norma list flags), for example Profile,Residual")
      ->delimiter(',')
      ->type_name("FLAG,...");
  add_time(*command, o->seconds);
  CLI::Option* time = command->get_option("--time");
  command->footer(
      "Outputs are tensors called ID.out.y, ID.out.mean and so on, in any of the files, whatever these are called; in .json they lie as in "
      "the\n"
      "golden files. All outputs of all cases have to be there, but for mean and rstd.");
  command->callback([o, subject, outputs, time, &chosen] {
    if (subject->empty() == outputs->empty()) throw CLI::RequiredError("SUBJECT or --outputs DIR");
    if (!outputs->empty() && !time->empty()) throw CLI::ValidationError("--time", "expected with a subject only");
    chosen = [o] { return o->outputs.empty() ? verify_subject(o->word, o->choice, o->seconds) : verify_outputs(o->outputs, o->choice); };
  });

  command = add("show", "Explains a case", [o] { return show(o->word, o->choice.folder); });
  add_dir(command);
  command->add_option("ID", o->word, "as in the files")->required();

  command = add("export", "Writes them in a form that others read", [o] { return export_golden(o->choice.folder, o->word, o->out); });
  add_dir(command);
  command->add_option("--format", o->word, "safetensors, npz, or onnx: folders as ONNX's backend tests")->required()->type_name("FORMAT");
  command->add_option("--out", o->out, "a folder, made if it is not there")->required()->type_name("DIR");
}

}  // namespace norma::program
