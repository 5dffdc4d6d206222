#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "norma/reference.h"
#include "norma/text.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

// The outputs a file gets: those that others can compare with their own. The rest (sum, deviation, xhat, variance) on request.
constexpr Roles usual{Role::y, Role::mean, Role::rstd, Role::running_mean, Role::running_variance};

int run(const std::string& path, const std::string& output, const Words& words, const std::vector<std::string>& extra) {
  if (std::error_code ignored; std::filesystem::equivalent(path, output, ignored)) {
    return fail({Code::bad_parameter, fmt::format("--output {}: is the file of the inputs, which would be lost", output)});
  }
  Result<TensorFile> file = read_tensor_file(path);
  if (!file.ok()) return fail(file.status());
  Result<BoundCall> bound = assign_roles(*file, path, words);
  if (!bound.ok()) return fail(bound.status());
  const Call& call = bound->call;
  const ByRole<ConstView>& inputs = bound->inputs;
  const OpInfo& op = info(call.spec.op);
  const ConstView& x = *inputs[Role::x];
  const Format statistics = x.format == Format::f64 ? Format::f64 : Format::f32;

  const auto asked = [&](Role role) { return std::find(extra.begin(), extra.end(), name(role)) != extra.end(); };
  for (const std::string& word : extra) {
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
  Status status;
  {
    Progress progress("computing", static_cast<std::int64_t>(file->find("x")->data.size()) / info(x.format).bytes());
    status = evaluate(call.spec, inputs, outputs, call.mode, [&](Role role, std::int64_t offset, const Real& value) {
      const View& view = *outputs[role];
      store(view.format, round(value, view.format, call.mode).bits, view.data + offset * info(view.format).bytes());
      if (role == Role::y) progress.step();
    });
  }
  if (!status.ok()) return fail({status.code, fmt::format("{}: {}", path, status.message)});

  results.metadata = {bound->words.begin(), bound->words.end()};  // what made these results
  results.metadata["epsilon"] = fmt::format("{:a}", call.spec.effective_epsilon());
  results.metadata["producer"] = "norma " NORMA_VERSION " reference";
  status = write_tensor_file(output, results);
  return status.ok() ? holds : fail(status);
}

}  // namespace

void add_run(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("run", "Computes an op on the tensors of a file and writes the correctly rounded results");
  command->footer(
      "The results file, .safetensors or .npz, gets y and, where the op has them, mean, rstd and the updated running statistics.");
  struct Options {
    std::string file;
    std::string output;
    std::string engine = "reference";
    std::vector<std::string> also;
    Words words;
  };
  const auto options = std::make_shared<Options>();
  command
      ->add_option("FILE", options->file, "x, and gamma, beta, residual, mean, variance, running_mean, running_variance as the op has them")
      ->required();
  command->add_option("--output", options->output, "the results, .safetensors or .npz")->required()->type_name("FILE");
  command->add_option("--engine", options->engine, "what computes: reference")->type_name("NAME")->check(CLI::IsMember({"reference"}));
  command->add_option("--also", options->also, "further outputs: sum, deviation, xhat, variance")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ROLE,...");
  add_flags(*command, options->words);
  command->callback(
      [options, &chosen] { chosen = [options] { return run(options->file, options->output, options->words, options->also); }; });
}

}  // namespace norma::program
