#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "norma/reference.h"
#include "norma/text.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

// Upper ends of the histogram's bins, in ulp; the first bin is "correctly rounded", and what exceeds the last is in one more.
constexpr std::array<double, 10> bin_ends{1, 2, 4, 16, 64, 256, 1024, 16384, 1048576, std::numeric_limits<double>::infinity()};

// From best to worst. within_bound needs a bound, and that the arithmetic of a subject; a file says nothing about it.
enum class Verdict : std::uint8_t { correctly_rounded, faithful, not_faithful, violates };
constexpr std::array<std::string_view, 4> verdict_names{"correctly_rounded", "faithful", "not_faithful", "violates"};
std::string_view name(Verdict verdict) { return verdict_names[static_cast<std::size_t>(verdict)]; }

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
    const bool comparable = correct_bits || (value.finite() && decode(format, got).kind == Kind::finite);
    const double error = correct_bits && decode(format, got).kind != Kind::finite ? 0 : ulp_error(value, format, got);
    if (correct_bits || error < 1) ++faithful;
    if (!comparable) ++not_comparable;
    if (comparable && !correct_bits)
      ++bins[static_cast<std::size_t>(std::upper_bound(bin_ends.begin(), bin_ends.end() - 1, error) - bin_ends.begin())];
    // Groups are not visited in the order of the elements.
    const bool earlier = worst < 0 || index < worst;
    const bool worse =
        comparable ? not_comparable == 0 && (error > max_ulp_error || (error == max_ulp_error && earlier)) : not_comparable == 1 || earlier;
    if (comparable) max_ulp_error = std::max(max_ulp_error, error);
    if (!worse) return;
    worst = index;
    exact = to_decimal(value);
    correct = expected;
    around = value.finite() ? neighbours(value, format) : Neighbours{expected, expected};
  }

  [[nodiscard]] Verdict verdict() const {
    return not_comparable > 0              ? Verdict::violates
           : correctly_rounded == elements ? Verdict::correctly_rounded
           : faithful == elements          ? Verdict::faithful
                                           : Verdict::not_faithful;
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

// The element's index along each axis.
std::vector<std::int64_t> position(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    at[i] = index % shape[i];
    index /= shape[i];
  }
  return at;
}

std::string value_and_bits(Format format, Bits bits) { return fmt::format("{:<26} {}", to_shortest(format, bits), to_hex(format, bits)); }

void print_tally(const Tally& t) {
  const Format format = t.tensor->format;
  fmt::print("\n{}  {} {}, {} element{}\n", t.tensor->name, info(format).name, to_text(t.tensor->shape), t.elements,
             t.elements == 1 ? "" : "s");
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
  fmt::print("\n  {} element {} at {}{}\n", t.not_comparable > 0 ? "first wrong" : "worst", t.worst,
             to_text(position(t.tensor->shape, t.worst)), t.not_comparable > 0 ? "" : fmt::format(", {} ulp off", t.max_ulp_error));
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
  j["worst_position"] = t.worst < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(position(t.tensor->shape, t.worst));
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
  j["verdict"] = name(t.verdict());
  return j;
}

struct Options {
  std::string file;
  std::optional<std::string> outputs;
  std::string require;
  Words words;
  bool json = false;
};

// Everything a reader needs to judge the same again: what was said about the call, in the order of the table.
std::vector<std::pair<std::string_view, std::string>> used_settings(const Words& words) {
  std::vector<std::pair<std::string_view, std::string>> used;
  for (const Setting& setting : settings()) {
    if (setting.name == "op" || setting.name == "epsilon") continue;  // said apart
    if (const auto it = words.find(setting.name); it != words.end()) used.emplace_back(setting.name, printable(it->second));
  }
  return used;
}

void print_text(const Options& options, const BoundCall& bound, const Metadata& metadata, const std::map<Role, Tally>& tallies,
                Verdict verdict) {
  const Spec& spec = bound.call.spec;
  fmt::print("{}: {}, epsilon {}", printable(options.file), info(spec.op).name, describe_epsilon(spec.effective_epsilon()));
  for (const auto& [setting, value] : used_settings(bound.words)) fmt::print(", {} {}", setting, value);
  fmt::print("\n");
  for (const std::string_view key : {"producer", "model"}) {
    if (const auto it = metadata.find(std::string(key)); it != metadata.end()) fmt::print("  {}: {}\n", key, printable(it->second));
  }
  for (const auto& [role, tally] : tallies) print_tally(tally);
  double worst = -1;
  for (const auto& [role, tally] : tallies) worst = std::max(worst, tally.max_ulp_error);
  fmt::print("\nverdict: {}{}\n", name(verdict),
             verdict != Verdict::violates && worst >= 0 ? fmt::format(", at most {} ulp off", worst) : "");
}

void print_json(const Options& options, const BoundCall& bound, const std::map<Role, Tally>& tallies, Verdict verdict) {
  const Spec& spec = bound.call.spec;
  nlohmann::ordered_json j{
      {"file", printable(options.file)}, {"op", info(spec.op).name}, {"epsilon", fmt::format("{:a}", spec.effective_epsilon())}};
  for (const auto& [setting, value] : used_settings(bound.words)) j["settings"][std::string(setting)] = value;
  j.update(to_json(tallies.at(Role::y)));
  for (const auto& [role, tally] : tallies) {
    if (role != Role::y) j["auxiliary"][std::string(norma::name(role))] = to_json(tally);
  }
  j["y_verdict"] = j["verdict"];
  j["verdict"] = name(verdict);
  fmt::print("{}\n", j.dump(2));
}

int judge(const Options& options) {
  Result<TensorFile> file = read_tensor_file(options.file);
  if (!file.ok()) return fail(file.status());
  // Results come from their own file, where each of the op's outputs may be, or from the same one, where a name that is an input's is that.
  std::optional<TensorFile> apart;
  const std::string source = options.outputs.value_or(options.file);
  if (options.outputs) {
    Result<TensorFile> results = read_tensor_file(source);
    if (!results.ok()) return fail(results.status());
    apart = std::move(*results);
    if (Status s = merge(file->metadata, apart->metadata, options.words); !s.ok())
      return fail({s.code, fmt::format("{}: {}", source, s.message)});
  }
  Result<BoundCall> bound = assign_roles(*file, options.file, options.words);
  if (!bound.ok()) return fail(bound.status());
  const Call& call = bound->call;
  const OpInfo& op = info(call.spec.op);
  for (const Tensor& tensor : apart ? apart->tensors : std::vector<Tensor>{}) {
    const std::optional<Role> role = role_named(tensor.name);
    if (role && op.outputs.contain(*role)) continue;
    return fail({Code::bad_tensor, fmt::format("{}: {} has no output {}{}", source, op.name, quote(tensor.name),
                                               suggestion(tensor.name, role_list(op.outputs)))});
  }

  std::map<Role, Tally> tallies;
  ByRole<View> wanted;
  for (const Tensor& tensor : apart ? apart->tensors : file->tensors) {
    const std::optional<Role> role = role_named(tensor.name);
    if (!role || !op.outputs.contain(*role) || (!apart && op.inputs.contain(*role))) continue;
    tallies[*role].tensor = &tensor;
    wanted[*role] = View{tensor.format, nullptr, tensor.shape, {}};
  }
  if (!wanted[Role::y]) return fail({Code::bad_tensor, fmt::format("{}: there is no tensor y to judge", source)});
  if (call.dtype && *call.dtype != wanted[Role::y]->format) {
    return fail({Code::bad_parameter, fmt::format("{}: y is {}, not the dtype asked for", source, info(wanted[Role::y]->format).name)});
  }

  Status status;
  {
    const Tensor& y = *tallies.at(Role::y).tensor;
    Progress progress("judging", static_cast<std::int64_t>(y.data.size()) / info(y.format).bytes());
    status = evaluate(call.spec, bound->inputs, wanted, call.mode, [&](Role role, std::int64_t offset, const Real& value) {
      tallies.at(role).count(offset, value, call.mode);
      if (role == Role::y) progress.step();
    });
  }
  if (!status.ok()) return fail({status.code, fmt::format("{}: {}", options.file, status.message)});

  Verdict verdict = Verdict::correctly_rounded;
  for (const auto& [role, tally] : tallies) verdict = std::max(verdict, tally.verdict());
  if (options.json) {
    print_json(options, *bound, tallies, verdict);
  } else {
    print_text(options, *bound, file->metadata, tallies, verdict);
  }
  const auto required = std::find(verdict_names.begin(), verdict_names.end(), options.require);
  const auto worst_allowed =
      required == verdict_names.end() ? Verdict::not_faithful : static_cast<Verdict>(required - verdict_names.begin());
  return verdict > worst_allowed ? violated : holds;
}

}  // namespace

void add_judge(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("judge", "How right is this tensor? Compares the y in a file with the exact value of every element");
  command->footer(
      "FILE is a .safetensors or .npz file with x and y, and gamma, beta, residual, mean, variance where the op has them. Metadata named\n"
      "like the options below (op, epsilon, axis, groups ...) is honoured; options override it. Auxiliary outputs in the file (mean, rstd\n"
      "...) are judged too, and the worst verdict is that of the file: correctly_rounded (every bit is right), faithful (every error "
      "under\n"
      "one ulp), not_faithful, violates (NaN or infinite where the truth is finite, or finite where it is not). Exit status 1 if it\n"
      "violates, or is worse than --require.");
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "inputs and results")->required();
  command->add_option("--outputs", options->outputs, "take y and the other results from this file instead")->type_name("FILE");
  command->add_option("--require", options->require, "the worst verdict that exits with 0")
      ->type_name("correctly_rounded|faithful")
      ->check(CLI::IsMember({"correctly_rounded", "faithful"}));
  command->add_flag("--json", options->json, "print one JSON object")->disable_flag_override();
  add_flags(*command, options->words);
  command->callback([options, &chosen] { chosen = [options] { return judge(*options); }; });
}

}  // namespace norma::program
