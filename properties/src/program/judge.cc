#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "norma/reference.h"
#include "norma/text.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

// Upper ends of the histogram's bins, in ulp; the first bin is "correctly rounded", and what exceeds the last is in one more.
constexpr std::array<double, 10> bin_ends{1, 2, 4, 16, 64, 256, 1024, 16384, 1048576, std::numeric_limits<double>::infinity()};

// How one output compares with the truth.
struct Tally {
  const Tensor* tensor = nullptr;
  std::int64_t elements = 0;
  std::int64_t correctly_rounded = 0;
  std::int64_t faithful = 0;        // less than one ulp away, the correctly rounded ones included
  std::int64_t not_comparable = 0;  // NaN or infinite where the truth is not, or the other way around
  std::array<std::int64_t, bin_ends.size()> bins{};
  double max_ulp_error = -1;  // of the comparable ones
  std::int64_t worst = -1;    // index of the first element that is not comparable, or else of the first with the largest error
  std::string exact;          // of the worst
  Bits correct = 0;
  Neighbours around{};

  void count(std::int64_t index, const Real& value, Mode mode) {
    const Format format = tensor->format;
    const Bits got = load(format, tensor->data.data() + index * info(format).bytes());
    const Bits expected = round(value, format, mode).bits;
    const bool nan = decode(format, expected).kind == Kind::nan && decode(format, got).kind == Kind::nan;
    const bool correct_bits = nan || got == expected;
    ++elements;
    correctly_rounded += correct_bits ? 1 : 0;
    // Where the correctly rounded value is itself infinite, by overflow, that is no error.
    const double error = correct_bits && decode(format, got).kind != Kind::finite ? 0 : ulp_error(value, format, got);
    const bool comparable = std::isfinite(error);
    if (correct_bits || error < 1) ++faithful;
    if (!comparable) ++not_comparable;
    if (comparable && !correct_bits)
      ++bins[static_cast<std::size_t>(std::upper_bound(bin_ends.begin(), bin_ends.end() - 1, error) - bin_ends.begin())];
    const bool worse = comparable ? not_comparable == 0 && error > max_ulp_error : not_comparable == 1;
    if (comparable) max_ulp_error = std::max(max_ulp_error, error);
    if (!worse) return;
    worst = index;
    exact = to_decimal(value);
    correct = expected;
    around = value.finite() ? neighbours(value, format) : Neighbours{expected, expected};
  }

  // within_bound and its bound need the arithmetic of a subject; a file says nothing about that.
  [[nodiscard]] std::string_view verdict() const {
    return not_comparable > 0              ? "violates"
           : correctly_rounded == elements ? "correctly_rounded"
           : faithful == elements          ? "faithful"
                                           : "not_faithful";
  }
};

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:5.1f} %", whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// 40 columns are the whole; whatever is there at all shows.
std::string bar(std::int64_t part, std::int64_t whole) {
  constexpr std::array<std::string_view, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::int64_t length = whole == 0 ? 0 : std::max<std::int64_t>(part > 0 ? 1 : 0, part * 320 / whole);
  std::string s;
  for (std::int64_t i = 0; i < length / 8; ++i) s += "█";
  return s += eighths[static_cast<std::size_t>(length % 8)];
}

std::string place(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    at[i] = index % shape[i];
    index /= shape[i];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

std::string value_and_bits(Format format, Bits bits) { return fmt::format("{:<26} {}", to_shortest(format, bits), to_hex(format, bits)); }

void print_tally(const Tally& t) {
  const Format format = t.tensor->format;
  fmt::print("\n{}  {} {}, {} elements\n", t.tensor->name, info(format).name, describe_shape(t.tensor->shape), t.elements);
  fmt::print("  error in ulp           elements\n");
  const auto row = [&](std::string_view label, std::int64_t n) {
    fmt::print("  {:<20} {:>10}  {}  {}\n", label, n, percent(n, t.elements), bar(n, t.elements));
  };
  row("correctly rounded", t.correctly_rounded);
  std::size_t last = bin_ends.size();
  while (last > 0 && t.bins[last - 1] == 0) --last;
  for (std::size_t i = 0; i < last; ++i) {
    row(i == 0                    ? "below 1"
        : std::isinf(bin_ends[i]) ? fmt::format("from {:.0f}", bin_ends[i - 1])
                                  : fmt::format("{:.0f} to {:.0f}", bin_ends[i - 1], bin_ends[i]),
        t.bins[i]);
  }
  if (t.not_comparable > 0) row("NaN or infinite", t.not_comparable);
  if (t.worst < 0 || t.correctly_rounded == t.elements) return;
  const Bits got = load(format, t.tensor->data.data() + t.worst * info(format).bytes());
  fmt::print("\n  {} element {} at {}{}\n", t.not_comparable > 0 ? "first wrong" : "worst", t.worst, place(t.tensor->shape, t.worst),
             t.not_comparable > 0 ? "" : fmt::format(", {} ulp off", t.max_ulp_error));
  fmt::print("    got    {}\n", value_and_bits(format, got));
  fmt::print("    exact  {}\n", t.exact);
  if (t.around.below == t.around.above) return;
  fmt::print("    below  {}{}\n", value_and_bits(format, t.around.below), t.around.below == t.correct ? "  correctly rounded" : "");
  fmt::print("    above  {}{}\n", value_and_bits(format, t.around.above), t.around.above == t.correct ? "  correctly rounded" : "");
}

nlohmann::ordered_json to_json(const Tally& t) {
  nlohmann::ordered_json j;
  j["dtype"] = info(t.tensor->format).name;
  j["shape"] = t.tensor->shape;
  j["elements"] = t.elements;
  j["correctly_rounded"] = t.correctly_rounded;
  j["faithful"] = t.faithful;
  j["not_comparable"] = t.not_comparable;
  j["max_ulp_error"] = t.max_ulp_error < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(t.max_ulp_error);
  j["worst_index"] = t.worst < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(t.worst);
  if (t.worst >= 0) {
    const Format format = t.tensor->format;
    const Bits got = load(format, t.tensor->data.data() + t.worst * info(format).bytes());
    j["worst"] = {{"got", to_shortest(format, got)},
                  {"got_bits", to_hex(format, got)},
                  {"exact", t.exact},
                  {"correct", to_shortest(format, t.correct)},
                  {"correct_bits", to_hex(format, t.correct)}};
  }
  j["max_margin"] = nullptr;
  j["verdict"] = t.verdict();
  return j;
}

int judge(const std::string& path, const std::string& outputs_path, const Words& words, bool json) {
  Result<TensorFile> file = read_tensor_file(path);
  if (!file.ok()) return fail(file.status());
  Result<BoundCall> bound = assign_roles(*file, path, words);
  if (!bound.ok()) return fail(bound.status());
  const auto& [call, inputs] = *bound;
  const OpInfo& op = info(call.spec.op);

  // Results come from their own file, where each of the op's outputs may be, or from the same one, where a name that is an input's is that.
  std::optional<TensorFile> apart;
  if (!outputs_path.empty()) {
    Result<TensorFile> results = read_tensor_file(outputs_path);
    if (!results.ok()) return fail(results.status());
    if (Result<BoundCall> names = assign_roles(*results, outputs_path, {{"op", std::string(op.name)}}); !names.ok())
      return fail(names.status());
    apart = std::move(*results);
  }
  std::map<Role, Tally> tallies;
  ByRole<View> wanted;
  for (const Tensor& tensor : apart ? apart->tensors : file->tensors) {
    const std::optional<Role> role = role_named(tensor.name);
    if (!role || !op.outputs.contain(*role) || (!apart && op.inputs.contain(*role))) continue;
    tallies[*role].tensor = &tensor;
    wanted[*role] = View{tensor.format, nullptr, tensor.shape, {}};
  }
  if (!wanted[Role::y]) return fail({Code::bad_tensor, fmt::format("{}: there is no tensor y to judge", apart ? outputs_path : path)});
  if (call.dtype && *call.dtype != wanted[Role::y]->format) {
    return fail({Code::bad_parameter,
                 fmt::format("{}: y is {}, not the dtype asked for", apart ? outputs_path : path, info(wanted[Role::y]->format).name)});
  }

  Status status;
  {
    const Shape& shape = wanted[Role::y]->shape;
    Progress progress("judging", std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    status = evaluate(call.spec, inputs, wanted, call.mode, [&, mode = call.mode](Role role, std::int64_t offset, const Real& value) {
      tallies.at(role).count(offset, value, mode);
      if (role == Role::y) progress.step();
    });
  }
  if (!status.ok()) return fail({status.code, fmt::format("{}: {}", path, status.message)});

  const Tally& y = tallies.at(Role::y);
  const bool violates = std::any_of(tallies.begin(), tallies.end(), [](const auto& t) { return t.second.not_comparable > 0; });
  if (json) {
    nlohmann::ordered_json j{{"file", printable(path)}, {"op", op.name}, {"epsilon", fmt::format("{:a}", call.spec.effective_epsilon())}};
    j.update(to_json(y));
    for (const auto& [role, tally] : tallies) {
      if (role != Role::y) j["auxiliary"][std::string(name(role))] = to_json(tally);
    }
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}: {}, epsilon {}\n", printable(path), op.name, describe_epsilon(call.spec.effective_epsilon()));
    for (const std::string_view key : {"producer", "model"}) {
      if (const auto it = file->metadata.find(std::string(key)); it != file->metadata.end())
        fmt::print("  {}: {}\n", key, printable(it->second));
    }
    for (const auto& [role, tally] : tallies) print_tally(tally);
    fmt::print("\nverdict: {}{}\n", y.verdict(), y.max_ulp_error >= 0 ? fmt::format(", at most {} ulp off", y.max_ulp_error) : "");
  }
  return violates ? violated : holds;
}

}  // namespace

void add_judge(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("judge", "How right is this tensor? Compares the y in a file with the exact value of every element");
  command->footer(
      "FILE is a .safetensors or .npz file with x and y, and gamma, beta, residual, mean, variance where the op has them. Metadata named "
      "like\n"
      "the options below (op, epsilon, axis, groups ...) is honoured; options override it. Auxiliary outputs in the file (mean, rstd ...) "
      "are\n"
      "judged too. Verdicts: correctly_rounded (every bit is right), faithful (every error under one ulp), not_faithful, violates (NaN or\n"
      "infinite where the truth is finite, or finite where it is not; exit status 1).");
  struct Options {
    std::string file;
    std::string outputs;
    Words words;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "inputs and results")->required();
  command->add_option("--outputs", options->outputs, "take y and the other results from this file instead")->type_name("FILE");
  command->add_flag("--json", options->json, "print one JSON object");
  add_flags(*command, options->words);
  command->callback(
      [options, &chosen] { chosen = [options] { return judge(options->file, options->outputs, options->words, options->json); }; });
}

}  // namespace norma::program
