#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "norma/reference.h"
#include "norma/text.h"
#include "production.h"
#include "program.h"
#include "search.h"
#include "settings.h"

namespace norma::program {
namespace {

// The outputs a file gets: those that others can compare with their own. The rest (sum, deviation, xhat, variance) on request.
constexpr Roles usual{Role::y, Role::mean, Role::rstd, Role::running_mean, Role::running_variance};

struct Options {
  std::string file;
  std::string output;
  std::string engine = "reference";
  std::string accuracy;
  std::size_t threads = 0;  // 0: all
  std::vector<std::string> also;
  Words words;
  bool json = false;
};

// Every output, element by element, from the exact values.
Status by_reference(const Call& call, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, std::int64_t elements) {
  Progress progress("computing", elements);
  return evaluate(call.spec, inputs, outputs, call.mode, [&](Role role, std::int64_t offset, const Real& value) {
    const View& view = *outputs[role];
    store(view.format, round(value, view.format, call.mode).bits, view.data + offset * info(view.format).bytes());
    if (role == Role::y) progress.step();
  });
}

int run(const Options& options) {
  const std::string& path = options.file;
  const std::string& output = options.output;
  const bool production = options.engine == "simd";
  if (!production && (options.threads != 0 || !options.accuracy.empty())) {
    return fail({Code::bad_parameter, fmt::format("--{}: says nothing about --engine {}: expected --engine simd",
                                                  options.threads != 0 ? "threads" : "accuracy", options.engine)});
  }
  if (std::error_code ignored; std::filesystem::equivalent(path, output, ignored)) {
    return fail({Code::bad_parameter, fmt::format("--output {}: is the file of the inputs, which would be lost", output)});
  }
  Result<TensorFile> file = read_tensor_file(path);
  if (!file.ok()) return fail(file.status());
  Result<BoundCall> bound = assign_roles(*file, path, options.words);
  if (!bound.ok()) return fail(bound.status());
  const Call& call = bound->call;
  const ByRole<ConstView>& inputs = bound->inputs;
  const OpInfo& op = info(call.spec.op);
  const ConstView& x = *inputs[Role::x];
  const Format statistics = x.format == Format::f64 ? Format::f64 : Format::f32;

  const auto asked = [&](Role role) { return std::find(options.also.begin(), options.also.end(), name(role)) != options.also.end(); };
  for (const std::string& word : options.also) {
    const std::optional<Role> role = role_named(word);
    if (!role || !op.outputs.contain(*role)) {
      return fail(
          {Code::bad_parameter, fmt::format("--also: {} has no output \"{}\"{}", op.name, word, suggestion(word, role_list(op.outputs)))});
    }
  }
  const bool empty = std::find(x.shape.begin(), x.shape.end(), 0) != x.shape.end();
  TensorFile results;
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    const bool updates = role == Role::running_mean || role == Role::running_variance;
    // Of an x without elements there may be any number of groups; their statistics are nothing anybody wants.
    const bool given = usual.contain(role) && (updates ? inputs[role].has_value() : role == Role::y || !empty);
    if (!op.outputs.contain(role) || !(asked(role) || given)) continue;
    Result<Shape> shape = tensor_shape(call.spec, x.shape, role);
    if (!shape.ok()) return fail({shape.status().code, fmt::format("{}: {}", path, shape.status().message)});
    Tensor tensor{std::string(name(role)), x.format, *shape, {}};
    if (role == Role::y || role == Role::xhat) tensor.format = call.dtype.value_or(x.format);
    if (role == Role::mean || role == Role::variance || role == Role::rstd) tensor.format = statistics;
    if (updates) tensor.format = inputs[role]->format;
    const std::int64_t count = std::accumulate(shape->begin(), shape->end(), std::int64_t{1}, std::multiplies<>());
    tensor.data.resize(static_cast<std::size_t>(count * info(tensor.format).bytes()));
    results.tensors.push_back(std::move(tensor));
  }
  ByRole<View> outputs;
  for (Tensor& tensor : results.tensors) {
    outputs[*role_named(tensor.name)] = View{tensor.format, tensor.data.data(), tensor.shape, {}};
  }
  const std::int64_t elements = static_cast<std::int64_t>(file->find("x")->data.size()) / info(x.format).bytes();
  simd::Counters counters;
  Status status;
  if (production) {
    Threads threads(options.threads == 0 ? all_threads() : options.threads);
    const auto accuracy = options.accuracy == "fast" ? simd::Accuracy::fast : simd::Accuracy::correctly_rounded;
    status = produce(call.spec, call.mode, inputs, outputs, {accuracy, &threads, &counters});
  } else {
    status = by_reference(call, inputs, outputs, elements);
  }
  if (!status.ok()) {
    (void)fail({status.code, fmt::format("{}: {}", path, status.message)});
    return status.code == Code::no_memory ? subject_error : input_error;
  }

  results.metadata = {bound->words.begin(), bound->words.end()};  // what made these results
  results.metadata["epsilon"] = fmt::format("{:a}", call.spec.effective_epsilon());
  results.metadata["producer"] = fmt::format("norma " NORMA_VERSION " {}", options.engine);
  status = write_tensor_file(output, results);
  if (!status.ok()) return fail(status);
  if (!options.json) return holds;
  auto names = nlohmann::ordered_json::array();
  for (const Tensor& tensor : results.tensors) names.push_back(tensor.name);
  nlohmann::ordered_json j{
      {"op", op.name},   {"dtype", info(x.format).name}, {"elements", elements}, {"engine", options.engine}, {"output", printable(output)},
      {"outputs", names}};
  if (production) {
    j["counters"] = {{"vector", counters.vector}, {"double_double", counters.double_double}, {"exact", counters.exact}};
  }
  fmt::print("{}\n", j.dump(2));
  return holds;
}

}  // namespace

void add_run(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("run", "Computes an op on the tensors of a file and writes the correctly rounded results");
  command->footer(
      "The results file, .safetensors or .npz, gets y and, where the op has them, mean, rstd and the updated running statistics.\n"
      "Both engines write the same bits: norma run in.npz --output out.npz --engine simd --json");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("FILE", options->file, "x, and gamma, beta, residual, mean, variance, running_mean, running_variance as the op has them")
      ->required();
  command->add_option("--output", options->output, "the results, .safetensors or .npz")->required()->type_name("FILE");
  command->add_option("--engine", options->engine, "what computes: reference, or simd, the production path")
      ->type_name("NAME")
      ->check(CLI::IsMember({"reference", "simd"}));
  command->add_option("--accuracy", options->accuracy, "of --engine simd: correctly_rounded (the default) or fast")
      ->type_name("WORD")
      ->check(CLI::IsMember({"correctly_rounded", "fast"}));
  add_whole(*command, "--threads", options->threads, "of --engine simd; all by default", 1, most_threads);
  command->add_option("--also", options->also, "further outputs: sum, deviation, xhat, variance")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ROLE,...");
  add_flags(*command, options->words);
  command->add_flag("--json", options->json, "print one JSON object: what was computed, and how often each rung of the ladder was taken")
      ->disable_flag_override();
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace norma::program
