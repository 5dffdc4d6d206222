#include "settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <vector>

#include "norma/reference.h"
#include "norma/text.h"

namespace norma::program {
namespace {

Status bad_value(std::string_view value, std::string_view expected) {
  return {Code::bad_parameter, fmt::format("{}: expected {}", quote(value), expected)};
}

template <class T, std::size_t n>
Status choose(std::string_view value, const std::array<std::pair<std::string_view, T>, n>& words, T& field) {
  for (const auto& [word, meaning] : words) {
    if (value == word) {
      field = meaning;
      return {};
    }
  }
  std::array<std::string_view, n> names;
  std::transform(words.begin(), words.end(), names.begin(), [](const auto& w) { return w.first; });
  return bad_value(value, fmt::format("{}", fmt::join(names, " or ")));
}

template <class T>
Status integer(std::string_view value, T& field) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size() || !std::in_range<typename T::value_type>(n)) {
    return bad_value(value, "a whole number");
  }
  field = static_cast<typename T::value_type>(n);
  return {};
}

Result<double> number(std::string_view value) {
  Result<Bits> bits = parse_number(value, Format::f64);
  if (!bits.ok()) return bits.status();
  return std::bit_cast<double>(*bits);
}

Status apply_op(std::string_view value, Call& call) {
  call.op_given = true;
  call.batch_norm = value == "batch_norm";
  if (call.batch_norm) {
    call.spec.op = Op::batch_norm_training;
    return {};
  }
  std::vector<std::string_view> names{"batch_norm"};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (value == ops[i].name) {
      call.spec.op = static_cast<Op>(i);
      return {};
    }
    names.push_back(ops[i].name);
  }
  return {Code::bad_parameter, fmt::format("{} is no op{}; norma list ops names them", quote(value), suggestion(value, names))};
}

Status apply_epsilon(std::string_view value, Call& call) {
  Result<double> epsilon = number(value);
  if (!epsilon.ok()) return epsilon.status();
  if (!std::isfinite(*epsilon) || *epsilon < 0) return bad_value(value, "a finite number, zero or more");
  call.spec.epsilon = *epsilon;
  return {};
}

Status apply_momentum(std::string_view value, Call& call) {
  Result<double> momentum = number(value);
  if (!momentum.ok()) return momentum.status();
  if (!(*momentum >= 0 && *momentum <= 1)) return bad_value(value, "a number from 0 to 1");
  call.spec.momentum = *momentum;
  return {};
}

Status apply_dtype(std::string_view value, Call& call) {
  call.dtype = format_named(value);
  if (call.dtype) return {};
  std::array<std::string_view, formats.size()> names;
  std::transform(formats.begin(), formats.end(), names.begin(), [](const FormatInfo& f) { return f.name; });
  return bad_value(value, fmt::format("{}", fmt::join(names, ", ")));
}

using Estimators = std::array<std::pair<std::string_view, Estimator>, 2>;
constexpr Estimators estimators{{{"biased", Estimator::biased}, {"unbiased", Estimator::unbiased}}};

constexpr std::array<Setting, 15> table{{
    {"op", "NAME", "the op: norma list ops names them; batch_norm is inference where mean and variance are given, else training", apply_op},
    {"epsilon", "NUMBER", "added to the variance, exactly this number: 1e-5 is the nearest double, 0x1.4f8b58p-17 its nearest float",
     apply_epsilon},
    {"axis", "N", "first normalized axis (layer_norm, rms_norm), channel axis (batch, group, instance norm), kept axis (weight_norm)",
     [](std::string_view v, Call& c) { return integer(v, c.spec.axis); }},
    {"groups", "N", "channel groups of group_norm", [](std::string_view v, Call& c) { return integer(v, c.spec.groups); }},
    {"layout", "NCHW|NHWC", "channel axis 1, or the last one",
     [](std::string_view v, Call& c) {
       int axis = 0;
       Status s = choose<int, 2>(v, {{{"NCHW", 1}, {"NHWC", -1}}}, axis);
       if (s.ok()) c.spec.axis = axis;
       return s;
     }},
    {"dtype", "FORMAT", "format of y: f16, bf16, f32, f64, f8_e4m3, f8_e5m2 (default: that of x)", apply_dtype},
    {"rounding", "nearest_even|toward_zero|up|down", "rounding mode of the results",
     [](std::string_view v, Call& c) {
       return choose<Mode, 4>(
           v, {{{"nearest_even", Mode::nearest_even}, {"toward_zero", Mode::toward_zero}, {"up", Mode::up}, {"down", Mode::down}}}, c.mode);
     }},
    {"momentum", "NUMBER", "of the running statistics, from 0 to 1 (default 0.1)", apply_momentum},
    {"momentum_convention", "weight_of_new|weight_of_old", "what the momentum multiplies: the batch (PyTorch), or the past (ONNX, Keras)",
     [](std::string_view v, Call& c) {
       return choose<Momentum, 2>(v, {{{"weight_of_new", Momentum::weight_of_new}, {"weight_of_old", Momentum::weight_of_old}}},
                                  c.spec.profile.momentum);
     }},
    {"epsilon_placement", "inside|outside", "sqrt(variance + epsilon), or sqrt(variance) + epsilon",
     [](std::string_view v, Call& c) {
       return choose<EpsilonPlacement, 2>(v, {{{"inside", EpsilonPlacement::inside}, {"outside", EpsilonPlacement::outside}}},
                                          c.spec.profile.epsilon_placement);
     }},
    {"variance_estimator", "biased|unbiased", "divide by n, or by n - 1",
     [](std::string_view v, Call& c) { return choose(v, estimators, c.spec.profile.variance); }},
    {"running_variance_estimator", "unbiased|biased", "the same for the running variance (unbiased: PyTorch; biased: ONNX)",
     [](std::string_view v, Call& c) { return choose(v, estimators, c.spec.profile.running_variance); }},
    {"gain_offset", "0|1", "the gain is gamma, or 1 + gamma (Gemma)",
     [](std::string_view v, Call& c) {
       return choose<bool, 2>(v, {{{"0", false}, {"1", true}}}, c.spec.profile.gain_offset);
     }},
    {"cast_before_gain", "false|true", "round the standardized value to the format of y, then apply the gain (LLaMA)",
     [](std::string_view v, Call& c) {
       return choose<bool, 2>(v, {{{"false", false}, {"true", true}}}, c.spec.profile.cast_before_gain);
     }},
    {"residual_sum", "rounded|exact", "x + residual is rounded to the format of x, or not",
     [](std::string_view v, Call& c) {
       return choose<ResidualSum, 2>(v, {{{"rounded", ResidualSum::rounded}, {"exact", ResidualSum::exact}}}, c.spec.profile.residual_sum);
     }},
}};

// Insertions, deletions, substitutions and swaps of neighbours that lead from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// Names that other projects give to these tensors.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> foreign_names{{
    {"weight", "gamma"},
    {"scale", "gamma"},
    {"gain", "gamma"},
    {"g", "gamma"},
    {"w", "gamma"},
    {"bias", "beta"},
    {"b", "beta"},
    {"var", "variance"},
    {"running_var", "running_variance"},
    {"input", "x"},
    {"X", "x"},
    {"output", "y"},
    {"Y", "y"},
    {"inv_std", "rstd"},
}};

std::string tensor_suggestion(std::string_view name) {
  for (const auto& [foreign, ours] : foreign_names) {
    if (name == foreign) return fmt::format(", did you mean {}?", ours);
  }
  return suggestion(name, role_names);
}

}  // namespace

std::span<const Setting> settings() { return table; }

void add_flags(CLI::App& command, Words& words) {
  for (const Setting& setting : table) {
    std::string flag = "--" + std::string(setting.name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    command
        .add_option_function<std::string>(
            flag, [&words, &setting](const std::string& word) { words[std::string(setting.name)] = word; }, std::string(setting.help))
        ->type_name(std::string(setting.values));
  }
}

Result<Call> apply(const std::map<std::string, std::string>& metadata, const Words& words) {
  Call call;
  for (const Setting& setting : table) {
    const std::string name(setting.name);
    const auto word = words.find(name);
    const auto meta = metadata.find(name);
    if (word == words.end() && meta == metadata.end()) continue;
    const bool flag = word != words.end();
    if (Status s = setting.apply(flag ? word->second : meta->second, call); !s.ok()) {
      return Status{s.code, fmt::format("{} {}: {}", flag ? "option" : "metadata", setting.name, s.message)};
    }
  }
  return call;
}

Result<BoundCall> assign_roles(const TensorFile& file, const std::string& path, const Words& words) {
  Result<Call> applied = apply(file.metadata, words);
  if (!applied.ok()) return Status{applied.status().code, fmt::format("{}: {}", path, applied.status().message)};
  Call call = *applied;
  if (!call.op_given) return Status{Code::bad_parameter, fmt::format("{}: neither the metadata nor --op says what the op is", path)};
  if (call.batch_norm && file.find("mean") != nullptr && file.find("variance") != nullptr) call.spec.op = Op::batch_norm_inference;
  const OpInfo& op = info(call.spec.op);

  BoundCall bound{call, {}};
  for (const auto& [name, dtype] : file.unreadable) {
    return Status{Code::bad_file,
                  fmt::format("{}: tensor {} has dtype {}: expected F16, BF16, F32, F64, F8_E4M3 or F8_E5M2", path, quote(name), dtype)};
  }
  for (const Tensor& tensor : file.tensors) {
    const std::optional<Role> role = role_named(tensor.name);
    if (!role || (!op.inputs.contain(*role) && !op.outputs.contain(*role))) {
      return Status{Code::bad_tensor,
                    fmt::format("{}: tensor {} has no part in {}{}", path, quote(tensor.name), op.name, tensor_suggestion(tensor.name))};
    }
    if (op.inputs.contain(*role)) bound.inputs[*role] = tensor.view();
  }
  return bound;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> names) {
  const auto nearest = std::min_element(
      names.begin(), names.end(), [&](std::string_view a, std::string_view b) { return edit_distance(word, a) < edit_distance(word, b); });
  if (nearest == names.end() || edit_distance(word, *nearest) > std::max<std::size_t>(2, word.size() / 2)) return "";
  return fmt::format(", did you mean {}?", *nearest);
}

std::string describe_epsilon(double epsilon) {
  const Bits bits = std::bit_cast<Bits>(epsilon);
  const std::string shortest = to_shortest(Format::f64, bits);
  bool exact = false;
  (void)parse_number(shortest, Format::f64, &exact);
  return exact ? shortest : fmt::format("{} ({:a})", shortest, epsilon);
}

std::string describe_shape(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace norma::program
