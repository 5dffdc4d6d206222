#include "norma/fuzz.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "norma/tensor_file.h"
#include "program.h"
#include "report.h"
#include "search.h"
#include "subjects.h"

namespace norma::program {
namespace {

namespace fs = std::filesystem;
using properties::Case;
using properties::Question;

struct Options : Search {
  std::string subject = "simd";
  double minutes = 1;
  std::int64_t cases = 0;
  std::string corpus;
  double seconds = default_seconds;
  bool strict = false;
};

// A file of its own with the line of the case: `name`, or one that follows from the line.
Status keep(const fs::path& folder, const Case& c, std::string name = "") {
  const std::string line = to_line(c);
  if (name.empty()) name = fmt::format("{:016x}", properties::fingerprint(line));
  return write_file(folder / name, std::as_bytes(std::span(line)));
}

// Sees to a folder that cases can be kept in; a new or an empty one gets the seeds.
Status prepare(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error)) {
    return {Code::io_error, fmt::format("--corpus: {} is no folder, and cannot be made one", printable(path))};
  }
  if (Status status = may_write_file(fs::path(path) / "case"); !status.ok()) return {status.code, "--corpus: " + status.message};
  if (!fs::is_empty(path, error)) return {};
  for (const auto& [name, c] : properties::seeds()) {
    if (Status status = keep(path, c, name); !status.ok()) return status;
  }
  return {};
}

struct Corpus {
  std::vector<Case> cases;  // that some question fits, in the order of their files' names
  std::size_t files = 0;
  std::vector<std::string> others;  // files without a case, and why
};
Result<Corpus> read_corpus(const std::string& path, const std::vector<Question>& questions) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (auto it = fs::directory_iterator(path, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) paths.push_back(it->path());
  }
  if (error) return Status{Code::io_error, fmt::format("--corpus: {}: cannot be read", printable(path))};
  std::sort(paths.begin(), paths.end());
  Corpus corpus;
  corpus.files = paths.size();
  for (const fs::path& file : paths) {
    Result<std::string> line = read_file(file);
    if (!line.ok()) {
      corpus.others.push_back(line.status().message);
      continue;
    }
    line->erase(line->find_last_not_of(" \r\n") + 1);  // as editors end it
    Result<Case> c = properties::case_of(*line);
    if (!c.ok()) {
      corpus.others.push_back(fmt::format("{}: {}", printable(file.filename().string()), c.status().message));
      continue;
    }
    const auto fits = [&](const Question& q) { return properties::fits(*c, q.wish); };
    if (std::any_of(questions.begin(), questions.end(), fits)) corpus.cases.push_back(std::move(*c));
  }
  return corpus;
}

// Whether it is a program that has libFuzzer in it.
bool instrumented(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || path.ends_with(".so")) return false;
  const Result<std::string> program = read_file(path);
  return program.ok() && program->find("LLVMFuzzerTestOneInput") != std::string::npos;
}

int run_libfuzzer(const Options& options) {
  std::vector<std::string> words{options.subject,
                                 options.cases != 0 ? fmt::format("-runs={}", options.cases)
                                                    : fmt::format("-max_total_time={:.0f}", std::max(1.0, options.minutes * 60)),
                                 fmt::format("-seed={}", options.seed % 0xfffffffe + 1),  // 0 would be any
                                 "-max_len=262144",                                       // lines are text
                                 "-len_control=0",
                                 "-timeout=60",
                                 "-print_final_stats=1"};
  if (!options.corpus.empty()) words.insert(words.end(), {fmt::format("-artifact_prefix={}/", options.corpus), options.corpus});
  fmt::print("{} is instrumented: libFuzzer\n", options.subject);
  std::fflush(stdout);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(options.subject.c_str(), argv.data());
  (void)fail({Code::io_error, fmt::format("{}: {}", printable(options.subject), std::strerror(errno))});
  return subject_error;
}

int run(const Options& options) {
  if (options.given("--minutes") && options.given("--cases"))
    return fail({Code::bad_parameter, "--minutes, --cases: expected one of them"});
  const Result<properties::Settings> settings = settings_of(options);
  if (!settings.ok()) return fail(settings.status());
  const std::vector<Question> all = properties::questions(*settings);
  if (all.empty()) return fail({Code::bad_parameter, "--law, --op, --dtype: together they leave no law to ask about"});
  if (settings->shards > options.cases && options.cases != 0) {
    return fail({Code::bad_parameter, fmt::format("--shard: expected no more shares than the {} cases", options.cases)});
  }
  const bool target = instrumented(options.subject);
  // It asks what it was made to ask; seeds divide it.
  Status status =
      target ? options.only("a libFuzzer target", {"--minutes", "--cases", "--seed", "--corpus"}) : known_subject(options.subject);
  if (status.ok() && !options.corpus.empty()) status = prepare(options.corpus);
  if (!status.ok()) return fail(status);
  if (target) return run_libfuzzer(options);
  const Result<Corpus> corpus = options.corpus.empty() ? Corpus{} : read_corpus(options.corpus, all);
  if (!corpus.ok()) return fail(corpus.status());
  const Started started = start_or_fail(options.subject, limits_of(options.seconds));
  if (!started.subject) return started.status;
  fmt::print("{} is not instrumented: random search, seed {}", started.subject->name(), options.seed);
  if (!options.corpus.empty()) fmt::print(", from {} cases in {} files", corpus->cases.size(), corpus->files);
  fmt::print("\n");
  constexpr std::size_t most_named = 3;
  for (std::size_t i = 0; i < std::min(corpus->others.size(), most_named); ++i) fmt::print("  no case in {}\n", corpus->others[i]);
  if (corpus->others.size() > most_named) fmt::print("  nor in {} more\n", corpus->others.size() - most_named);
  std::fflush(stdout);

  const auto start = std::chrono::steady_clock::now();
  const auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>(options.minutes * 60'000));
  Progress progress("fuzzing", options.cases != 0 ? std::max<std::int64_t>(1, options.cases / settings->shards) : most);
  std::vector<Question> questions = all;
  properties::Answers sum;
  std::int64_t cases = 0, found = 0, told = 0;
  const auto elapsed = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  };
  properties::Watched watched(*started.subject);
  std::string ended;
  bool kept_all = true;
  for (std::int64_t i = settings->shard - 1; ended.empty() && !questions.empty() && (options.cases == 0 || i < options.cases);
       i += settings->shards) {
    const std::int64_t now = options.cases != 0 ? cases : elapsed();
    if (options.cases == 0 && now >= most) break;
    progress.advance(now - told);
    told = now;
    const Case c = properties::searched(static_cast<std::uint64_t>(i), options.seed, corpus->cases, all);
    ++cases;
    while ((ended = watched.hopeless()).empty()) {
      const properties::Answers answers = properties::ask(watched, questions, c, {options.strict, true});
      if (!answers.broken) {
        sum.held += answers.held;
        sum.unsupported += answers.unsupported;
        sum.excused += answers.excused;
        break;
      }
      // One counterexample of a law is enough, and of what checks the same.
      const auto check = answers.broken->law->check;
      std::erase_if(questions, [&](const Question& q) { return q.law->check == check; });
      ++found;
      progress.hide();
      fmt::print("{}", properties::counterexample(*answers.broken, options.subject, time_option(options.seconds)));
      std::fflush(stdout);
      if (options.corpus.empty()) continue;
      status = keep(options.corpus, answers.broken->finding.smallest);
      if (!status.ok() && std::exchange(kept_all, false)) (void)fail(status);
    }
  }
  const char* verdict = found != 0 ? "VIOLATED" : sum.held == 0 ? "UNTESTED" : "holds";
  fmt::print("{}: {} cases in {:.1f} s, {} answers hold, {} only `should` and do not, {} unsupported, {} laws broken\n", verdict, cases,
             static_cast<double>(elapsed()) / 1000, sum.held, sum.excused, sum.unsupported, found);
  if (!ended.empty()) (void)fail({Code::io_error, fmt::format("the search ended early: {}", ended)});
  if (!kept_all) return input_error;
  return found != 0 ? violated : !ended.empty() ? subject_error : sum.held != 0 ? holds : violated;
}

}  // namespace

void add_fuzz(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("fuzz", "Searches for as long as you like, from a corpus of cases and back into it");
  command->footer(
      "  norma fuzz ./libkernel.so --minutes 60 --corpus corpus   at random\n"
      "  norma fuzz ./kernel_fuzz --minutes 60 --corpus corpus    libFuzzer, which sees what the kernel does with a case: ten lines make\n"
      "                                                           such a program of it (properties/fuzz/template_fuzz.cc)");
  const auto options = std::make_shared<Options>();
  command->add_option("SUBJECT", options->subject, "as in norma check, or a libFuzzer target");
  command->add_option("--minutes", options->minutes, "how long; 1")->type_name("M")->check(number_in(0, 1e6));
  add_whole(*command, "--cases", options->cases, "instead: the first N cases", 1, 1'000'000'000);
  command
      ->add_option("--corpus", options->corpus,
                   "cases to start from, a line a file, and where what breaks a law is added; a new one begins with seeds")
      ->type_name("DIR")
      ->check(not_empty());
  add_search(*command, *options);
  add_time(*command, options->seconds);
  command->add_flag("--strict", options->strict, "a broken `should` counts too")->disable_flag_override();
  command->callback([command, options, &chosen] {
    note_given(*command, *options);
    chosen = [options] { return run(*options); };
  });
}

}  // namespace norma::program
