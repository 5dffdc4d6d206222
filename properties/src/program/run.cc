#include <fmt/format.h>

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
  Result<TensorFile> file = read_tensor_file(path);
  if (!file.ok()) return fail(file.status());
  Result<BoundCall> bound = assign_roles(*file, path, words);
  if (!bound.ok()) return fail(bound.status());
  const auto& [call, inputs] = *bound;
  const OpInfo& op = info(call.spec.op);
  const ConstView& x = *inputs[Role::x];
  const Format statistics = x.format == Format::f64 ? Format::f64 : Format::f32;

  const auto asked = [&](Role role) { return std::find(extra.begin(), extra.end(), name(role)) != extra.end(); };
  for (const std::string& word : extra) {
    const std::optional<Role> role = role_named(word);
    if (!role || !op.outputs.contain(*role)) {
      return fail({Code::bad_parameter, fmt::format("--also: {} has no output \"{}\"{}", op.name, word, suggestion(word, role_names))});
    }
  }
  TensorFile results;
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    const bool updates = role == Role::running_mean || role == Role::running_variance;
    if (!op.outputs.contain(role) || !(asked(role) || (usual.contain(role) && (!updates || inputs[role])))) continue;
    Result<Shape> shape = output_shape(call.spec, x.shape, role);
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
  Status status = compute(call.spec, inputs, outputs, call.mode);
  if (!status.ok()) return fail({status.code, fmt::format("{}: {}", path, status.message)});

  for (const Setting& setting : settings()) {  // what made these results
    const std::string key(setting.name);
    if (const auto it = words.find(key); it != words.end()) {
      results.metadata[key] = it->second;
    } else if (const auto meta = file->metadata.find(key); meta != file->metadata.end()) {
      results.metadata[key] = meta->second;
    }
  }
  results.metadata["op"] = op.name;
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
  command->add_option("--also", options->also, "further outputs: sum, deviation, xhat, variance")->delimiter(',')->type_name("ROLE,...");
  add_flags(*command, options->words);
  command->callback(
      [options, &chosen] { chosen = [options] { return run(options->file, options->output, options->words, options->also); }; });
}

}  // namespace norma::program
