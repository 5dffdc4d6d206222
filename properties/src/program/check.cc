#include "norma/check.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "matrix.h"
#include "norma/fuzz.h"
#include "norma/tensor_file.h"
#include "program.h"
#include "report.h"
#include "search.h"
#include "settings.h"
#include "subjects.h"

namespace norma::program {
namespace {

using properties::Law;

struct Options : Search {
  std::string subject = "simd";
  std::int64_t cases = 200;
  std::int64_t seeds = 1;
  std::string one_case;
  double seconds = default_seconds;
  bool strict = false;
  std::string waivers;
  Destinations to;
};

// What would not be looked at is refused. A replay prints one line a law; of all mutants there is one table.
Status check_together(const Options& options) {
  if (options.subject == "mutant:all") {
    return options.only("mutant:all", {"--law", "--op", "--dtype", "--cases", "--seed", "--seeds", "--time", "--json"});
  }
  if (options.given("--case")) {
    if (options.laws.empty()) return {Code::bad_parameter, "--case: expected one --law or more to hold it against"};
    return options.only("--case", {"--case", "--law", "--time"});
  }
  return options.given("--seeds") ? Status{Code::bad_parameter, "--seeds: expected of mutant:all only; --cases searches more"} : Status{};
}

int replay(const Options& options, const properties::Settings& settings) {
  std::string line = options.one_case;
  if (line.starts_with('@')) {
    const Result<std::string> text = read_file(line.substr(1));
    if (!text.ok()) return fail({text.status().code, "--case: " + text.status().message});
    line = text->substr(0, text->find_last_not_of(" \r\n") + 1);
  }
  const Result<properties::Case> c = properties::parse_case(line);
  if (!c.ok()) return fail({c.status().code, "--" + c.status().message});
  const std::vector<properties::Question> questions = properties::questions(settings);
  for (const auto& [law, wish] : questions) {
    if (properties::can_be_asked(*law, *c)) continue;
    return fail(
        {Code::bad_parameter, fmt::format("--case: {} cannot be asked of it: expected a case as norma check makes them", law->slug)});
  }
  const Started started = start_or_fail(options.subject, limits_of(options.seconds));
  if (!started.subject) return started.status;
  int status = holds;
  bool tested = false;
  for (const auto& [law, wish] : questions) {
    const properties::Finding f = properties::replay(*started.subject, *law, *c);
    const bool unsupported = f.reply == properties::Reply::Kind::unsupported;
    const std::string said = !unsupported ? f.what : f.what.empty() ? "unsupported" : "unsupported: " + f.what;
    fmt::print("{}: {}\n", law->slug, f.vacuous ? "says nothing of it" : said.empty() ? "holds" : said);
    tested = tested || !(f.vacuous || unsupported);
    if (f.reply == properties::Reply::Kind::lost) {
      (void)fail({Code::io_error, fmt::format("{}: {}", options.subject, f.what)});
      return subject_error;
    }
    if (!f.what.empty() && !unsupported) status = violated;
  }
  return tested ? status : violated;  // what was not tested is not right
}

int run(const Options& options) {
  Result<properties::Settings> settings = settings_of(options);
  if (!settings.ok()) return fail(settings.status());
  settings->cases = options.cases;
  if (Status status = check_together(options); !status.ok()) return fail(status);
  if (Status status = options.to.check(options.waivers.empty() ? std::vector<std::string>{} : std::vector{options.waivers}); !status.ok())
    return fail(status);
  Result<std::vector<Waiver>> waivers = options.waivers.empty() ? std::vector<Waiver>{} : read_waivers(options.waivers, options.subject);
  if (!waivers.ok()) return fail(waivers.status());
  const std::size_t laws = properties::questions(*settings).size();
  if (laws == 0) {
    return fail({Code::bad_parameter, "--law, --op, --dtype: together they leave no law to ask about"});
  }
  if (settings->shards > settings->cases) {
    return fail({Code::bad_parameter, fmt::format("--shard: expected no more shares than the {} cases of a law", settings->cases)});
  }
  const properties::Limits limits = limits_of(options.seconds);
  if (options.subject == "mutant:all") return print_matrix(*settings, options.seeds, limits, options.to.json);
  if (options.given("--case")) return replay(options, *settings);
  const Started started = start_or_fail(options.subject, limits);
  if (!started.subject) return started.status;

  Progress progress("checking", static_cast<std::int64_t>(laws) * (settings->cases / settings->shards));
  settings->progress = [&](std::int64_t steps) { progress.advance(steps); };
  return deliver({properties::check(*started.subject, *settings), options.subject, options.strict, std::move(*waivers), options.seconds},
                 options.to);
}

}  // namespace

void add_check(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("check", "Searches for inputs on which an implementation breaks a law or leaves its bound");
  command->footer(
      "  norma check simd --cases 1000\n"
      "  norma check onednn --op batch_norm                             (or pytorch, onnxruntime, numpy)\n"
      "  norma check ./libkernel.so --op layer_norm --dtype f32,bf16     (norma/subject.h, properties/examples/subject.c)\n"
      "  norma check 'exec:python3 kernel.py'                            (properties/examples/subject.py)");
  const auto options = std::make_shared<Options>();
  command->add_option("SUBJECT", options->subject,
                      "simd (the default), a name of norma list subjects, mutant:NAME, a shared library, or exec:COMMAND; mutant:all for "
                      "which law finds which mutant");
  add_search(*command, *options);
  add_whole(*command, "--cases", options->cases, "generated cases a law; 200", 1, 1'000'000'000);
  add_whole(*command, "--seeds", options->seeds, "of mutant:all: so many seeds, from --seed on; 1", 1, 1000);
  command
      ->add_option("--case", options->one_case,
                   "one case, as reports print them, against the laws of --law; @FILE for one that is too long for a shell")
      ->type_name("LINE");
  add_time(*command, options->seconds);
  command->add_flag("--strict", options->strict, "a broken `should` fails too")->disable_flag_override();
  command->add_option("--waivers", options->waivers, "laws to live with: [{\"subject\": …, \"law\": …, \"reason\": …}, …]")
      ->type_name("FILE")
      ->check(not_empty());
  add_flags(*command, options->to);
  command->callback([command, options, &chosen] {
    note_given(*command, *options);
    chosen = [options] { return run(*options); };
  });
}

}  // namespace norma::program
