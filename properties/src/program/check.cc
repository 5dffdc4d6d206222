#include "norma/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "matrix.h"
#include "program.h"
#include "report.h"
#include "settings.h"
#include "subjects.h"

namespace norma::program {
namespace {

using properties::Law;

struct Options {
  std::string subject = "simd";
  std::vector<std::string> laws, ops, dtypes;
  std::int64_t cases = 200;
  std::uint64_t seed = 1;
  std::int64_t seeds = 1;
  std::string shard = "1/1";
  std::string one_case;
  double seconds = 2;
  bool strict = false, json = false, markdown = false;
  std::string junit;
};

Result<properties::Settings> settings_of(const Options& options) {
  properties::Settings s;
  s.cases = options.cases;
  s.seed = options.seed;
  std::vector<std::string_view> names;
  for (const Law& law : properties::laws()) names.push_back(law.slug);
  for (const std::string& word : options.laws) {
    if (Status status = known("--law", word, names, "laws"); !status.ok()) return status;
    s.laws.push_back(word);
  }
  Result<std::vector<Op>> ops = ops_of(options.ops);
  if (!ops.ok()) return ops.status();
  s.ops = std::move(*ops);
  Result<std::vector<Format>> formats = formats_of(options.dtypes);
  if (!formats.ok()) return formats.status();
  s.formats = std::move(*formats);
  const int parts = std::sscanf(options.shard.c_str(), "%ld/%ld", &s.shard, &s.shards);
  if (parts != 2 || s.shard < 1 || s.shards < s.shard || options.shard != fmt::format("{}/{}", s.shard, s.shards)) {
    return Status{Code::bad_parameter, fmt::format("--shard: expected I/N with 1 <= I <= N, not {}", quote(options.shard))};
  }
  return s;
}

int replay(properties::Subject& subject, const Options& options, const properties::Settings& settings) {
  const Result<properties::Case> c = properties::parse_case(options.one_case);
  if (!c.ok()) return fail({c.status().code, "--" + c.status().message});
  int status = holds;
  for (const Law& law : properties::laws()) {
    if (std::find(settings.laws.begin(), settings.laws.end(), law.slug) == settings.laws.end()) continue;
    const properties::Finding f = properties::replay(subject, law, *c);
    fmt::print("{}: {}\n", law.slug, f.what.empty() ? "holds" : f.what);
    if (f.reply == properties::Reply::Kind::lost) return subject_error;
    if (!f.what.empty() && f.reply != properties::Reply::Kind::unsupported) status = violated;
  }
  return status;
}

int run(const Options& options) {
  Result<properties::Settings> settings = settings_of(options);
  if (!settings.ok()) return fail(settings.status());
  if (!options.one_case.empty() && settings->laws.empty()) {
    return fail({Code::bad_parameter, "--case: expected one --law or more to hold it against"});
  }
  if (options.json && options.markdown) return fail({Code::bad_parameter, "--json and --markdown: expected one of them"});
  Status writable = options.junit.empty() ? Status{} : check_writable(options.junit);
  if (!writable.ok()) return fail(writable);
  const properties::Limits limits = limits_of(options.seconds);
  if (options.subject == "mutant:all") return print_matrix(*settings, options.seeds, limits, options.json);
  const Started started = start_or_fail(options.subject, limits);
  if (!started.subject) return started.status;
  if (!options.one_case.empty()) return replay(*started.subject, options, *settings);

  const auto laws = static_cast<std::int64_t>(settings->laws.empty() ? properties::laws().size() : settings->laws.size());
  Progress progress("checking", std::max<std::int64_t>(1, laws * (settings->cases / settings->shards)));
  settings->progress = [&](std::int64_t steps) { progress.advance(steps); };
  const properties::Report report = properties::check(*started.subject, *settings);
  const bool bad = fails(report, options.strict);
  if (options.json) {
    fmt::print("{}\n", to_json(report, options.subject, options.strict).dump(2));
  } else {
    fmt::print("{}",
               options.markdown ? to_markdown(report, options.subject, options.strict) : to_text(report, options.subject, options.strict));
  }
  if (!options.junit.empty()) {
    const std::string xml = to_junit(report, options.subject, options.strict);
    if (Status status = write_file(options.junit, std::as_bytes(std::span(xml))); !status.ok()) return fail(status);
  }
  if (report.ended.empty()) return bad ? violated : holds;
  (void)fail({Code::io_error, fmt::format("the search ended early: {}", report.ended)});
  return bad ? violated : subject_error;
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
  command->add_option("--law", options->laws, "only these laws")->delimiter(',')->allow_extra_args(false)->type_name("SLUG,...");
  command->add_option("--op", options->ops, "only these ops")->delimiter(',')->allow_extra_args(false)->type_name("OP,...");
  command->add_option("--dtype", options->dtypes, "only these formats of x")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  command->add_option("--cases", options->cases, "generated cases a law; 200")->type_name("N")->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--seed", options->seed, "another seed, other cases; 1")->type_name("N");
  command->add_option("--seeds", options->seeds, "of mutant:all: so many seeds, from --seed on; 1")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  command->add_option("--shard", options->shard, "only the I-th of N shares of the cases")->type_name("I/N");
  command->add_option("--case", options->one_case, "one case, as reports print them, against the laws of --law")->type_name("LINE");
  command
      ->add_option("--time", options->seconds,
                   "seconds that a call may take; 2 (beyond 4, a program may also sleep so long before it says hello)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 3600.0));
  command->add_flag("--strict", options->strict, "a broken `should` fails too")->disable_flag_override();
  command->add_option("--junit", options->junit, "write a JUnit XML file as well")->type_name("FILE");
  command->add_flag("--markdown", options->markdown, "print a table for the summary of a CI run")->disable_flag_override();
  command->add_flag("--json", options->json, "print one JSON object")->disable_flag_override();
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace norma::program
