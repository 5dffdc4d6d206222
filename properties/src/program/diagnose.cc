#include "norma/diagnose.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "program.h"
#include "report.h"
#include "search.h"
#include "settings.h"
#include "subjects.h"

namespace norma::program {
namespace {

using properties::Agreement;
using properties::Diagnosis;
using properties::Explanation;

struct Options {
  std::string subject;
  std::vector<std::string> ops, dtypes;
  std::int64_t cases = 400;
  std::uint64_t seed = 1;
  double seconds = default_seconds;
  bool json = false;
};

std::string_view verdict(const Diagnosis& d) {
  if (d.cases == 0) return d.unanswered != 0 ? "unanswered" : "unsupported";
  if (d.wrong == 0) return d.unanswered != 0 ? "unanswered" : "agrees";
  if (d.range_only) return d.unanswered != 0 ? "unanswered" : "out_of_range";
  return !d.explanations.empty() && d.explanations.front().explains(d.exact) ? "explained" : "unexplained";
}

// Those that explain as much as the first: not more, and not much less.
std::vector<const Explanation*> found(const Diagnosis& d) {
  std::vector<const Explanation*> all;
  for (const Explanation& x : d.explanations) {
    if (x.explains(d.exact) && (all.empty() || x.score() > all.front()->score() - 0.02)) all.push_back(&x);
  }
  return all;
}

std::string evidence(const Explanation& x, const Agreement& exact) {
  return fmt::format("of {} elements {:.2f} to the bit (the definition: {:.2f}), {:.2f} within the bound ({:.2f})", x.wrong.elements,
                     x.wrong.part_to_the_bit(), exact.part_to_the_bit(), x.wrong.part_within(), exact.part_within());
}

void print(const Diagnosis& d) {
  const std::string_view op = info(d.op).name;
  if (d.unanswered != 0) fmt::print("{}: {} calls unanswered: {}\n", op, d.unanswered, d.unanswered_because);
  if (d.cases == 0) {
    if (d.unanswered == 0) fmt::print("{}: not supported by the subject\n", op);
    return;
  }
  if (d.wrong == 0) {
    fmt::print("{}: agrees with the definition, within its bound, in {} cases\n", op, d.cases);
    return;
  }
  fmt::print("{}: {} leaves the bound in {} of {} cases{}\n", op, fmt::join(role_list(d.outputs), ", "), d.wrong, d.cases,
             d.range_only ? ", all of them with squares or sums beyond the range of its arithmetic, of which nothing is promised" : "");
  // Nothing is promised there, so that nothing has to be explained.
  const std::vector<const Explanation*> all = d.range_only ? std::vector<const Explanation*>{} : found(d);
  for (const Explanation* x : all)
    fmt::print("  {} {}: {}\n    {}\n", x == all.front() ? "it computes" : "or, alike,", x->name, x->says, evidence(*x, d.exact));
  if (all.empty() && !d.range_only) {
    fmt::print("  nothing known explains it; the nearest is {}: {}\n    {}\n", d.explanations.front().name, d.explanations.front().says,
               evidence(d.explanations.front(), d.exact));
  }
  if (d.arithmetic && !d.range_only) fmt::print("  it would be within the bound of \"{}\"\n", *d.arithmetic);
  const std::string line = properties::to_line(*d.simplest);
  fmt::print("  for instance {}\n", for_people(line, d.simplest->elements()));
}

nlohmann::ordered_json to_json(const Agreement& a) {
  return {{"elements", a.elements}, {"to_the_bit", a.to_the_bit}, {"within_bound", a.within}};
}

nlohmann::ordered_json to_json(const Diagnosis& d) {
  nlohmann::ordered_json j{
      {"op", info(d.op).name}, {"verdict", verdict(d)}, {"cases", d.cases}, {"unsupported", d.unsupported}, {"unanswered", d.unanswered}};
  if (d.unanswered != 0) j["unanswered_because"] = d.unanswered_because;
  j["wrong"] = d.wrong;
  if (d.wrong == 0) return j;
  j["range_only"] = d.range_only;
  j["outputs"] = role_list(d.outputs);
  j["definition"] = to_json(d.exact);
  for (const Explanation& x : d.explanations) {
    j["explanations"].push_back({{"name", x.name},
                                 {"says", x.says},
                                 {"explains", x.explains(d.exact)},
                                 {"wrong_outputs", to_json(x.wrong)},
                                 {"right_outputs", to_json(x.right)}});
  }
  j["arithmetic"] = d.arithmetic ? nlohmann::ordered_json(*d.arithmetic) : nlohmann::ordered_json();
  j["case"] = properties::to_line(*d.simplest);
  return j;
}

int run(const Options& options) {
  properties::DiagnosisSettings settings;
  settings.cases = options.cases;
  settings.seed = options.seed;
  Result<std::vector<Op>> ops = ops_of(options.ops);
  if (!ops.ok()) return fail(ops.status());
  settings.ops = std::move(*ops);
  Result<std::vector<Format>> formats = formats_of(options.dtypes);
  if (!formats.ok()) return fail(formats.status());
  settings.formats = std::move(*formats);
  const auto [subject, status] = start_or_fail(options.subject, limits_of(options.seconds));
  if (!subject) return status;
  Progress progress("diagnosing", settings.steps());
  settings.progress = [&](std::int64_t steps) { progress.advance(steps); };
  const Result<std::vector<Diagnosis>> diagnoses = properties::diagnose(*subject, settings);
  if (!diagnoses.ok()) {
    (void)fail(diagnoses.status());
    return subject_error;
  }
  bool wrong = false;
  auto all = nlohmann::ordered_json::array();
  for (const Diagnosis& d : *diagnoses) {
    wrong = wrong || (d.wrong != 0 && !d.range_only) || d.unanswered != 0;
    if (options.json) {
      all.push_back(to_json(d));
    } else {
      print(d);
    }
  }
  if (options.json) {
    const nlohmann::ordered_json j{
        {"subject", subject->name()}, {"arithmetic", to_words(subject->arithmetic())}, {"seed", options.seed}, {"ops", all}};
    fmt::print("{}\n", dump(j));
  }
  return wrong ? violated : holds;
}

}  // namespace

void add_diagnose(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("diagnose", "Says what an implementation computes instead, where it is wrong");
  command->footer(
      "Its wrong outputs are held against every other reading of the definition (epsilon outside the root, n - 1 for n, ...),\n"
      "computed exactly, and against the faults of the mutants (norma list mutants). Verdicts of an op (--json): agrees, unsupported,\n"
      "out_of_range (wrong only where nothing is promised); and explained, unexplained, unanswered, of which the exit status is 1.\n"
      "  norma diagnose ./libkernel.so --op layer_norm\n"
      "  norma diagnose mutant:epsilon-outside-root");
  const auto options = std::make_shared<Options>();
  command->add_option("SUBJECT", options->subject, "as for norma check")->required();
  command->add_option("--op", options->ops, "only these ops")->delimiter(',')->allow_extra_args(false)->type_name("OP,...");
  command->add_option("--dtype", options->dtypes, "only these formats of x")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  add_whole(*command, "--cases", options->cases, "generated cases an op; 400", 1, 1'000'000);
  add_seed(*command, options->seed);
  add_time(*command, options->seconds);
  command->add_flag("--json", options->json, "print one JSON object")->disable_flag_override();
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace norma::program
