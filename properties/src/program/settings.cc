#include "settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
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
  if (const std::optional<Op> op = op_named(value)) {
    call.spec.op = *op;
    return {};
  }
  std::vector<std::string_view> names{"batch_norm"};
  for (const OpInfo& op : ops) names.push_back(op.name);
  return {Code::bad_parameter, fmt::format("{} is no op{} (see norma list ops)", quote(value), suggestion(value, names))};
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
       c.layout_given = s.ok();
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

// Keys that are settings by another name, or misspelt: one that is silently ignored makes a wrong verdict.
std::string near_setting(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> foreign{{{"eps", "epsilon"},
                                                                                  {"variance_epsilon", "epsilon"},
                                                                                  {"num_groups", "groups"},
                                                                                  {"n_groups", "groups"},
                                                                                  {"operator", "op"},
                                                                                  {"dim", "axis"}}};
  for (const auto& [theirs, ours] : foreign) {
    if (key == theirs) return fmt::format(", did you mean {}?", ours);
  }
  for (const Setting& setting : table) {
    if (key != setting.name && edit_distance(key, setting.name) == 1) return fmt::format(", did you mean {}?", setting.name);
  }
  return "";
}

std::string tensor_suggestion(std::string_view name, const OpInfo& op) {
  for (const auto& [foreign, ours] : foreign_names) {
    if (name == foreign) return fmt::format(", did you mean {}?", ours);
  }
  return suggestion(name, role_list(op.inputs, op.outputs));
}

}  // namespace

std::span<const Setting> settings() { return table; }

void add_flags(CLI::App& command, Words& words) {
  for (const Setting& setting : table) {
    std::string flag = "--" + std::string(setting.name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    command
        .add_option_function<std::string>(
            flag, [&words, &setting](const std::string& word) { words[std::string(setting.name)] = trimmed(word); },
            std::string(setting.help))
        ->type_name(std::string(setting.values));
  }
}

Result<Call> apply(const Metadata& metadata, const Words& words) {
  for (const auto& [key, value] : metadata) {
    if (std::string s = near_setting(key); !s.empty())
      return Status{Code::bad_parameter, fmt::format("metadata {} is no setting{}", quote(key), s)};
  }
  Call call;
  for (const bool flags : {false, true}) {
    const auto find = [&](std::string_view name) -> const std::string* {
      if (flags) {
        const auto it = words.find(name);
        return it == words.end() ? nullptr : &it->second;
      }
      const auto it = metadata.find(std::string(name));
      return it == metadata.end() ? nullptr : &it->second;
    };
    const char* const source = flags ? "option" : "metadata";
    if (find("axis") != nullptr && find("layout") != nullptr) {
      return Status{Code::bad_parameter, fmt::format("{}: axis and layout both say where the channels are: expected one of them", source)};
    }
    for (const Setting& setting : table) {
      const std::string* const value = find(setting.name);
      if (value == nullptr) continue;
      if (Status s = setting.apply(*value, call); !s.ok()) return Status{s.code, fmt::format("{} {}: {}", source, setting.name, s.message)};
    }
    if (find("axis") != nullptr) call.layout_given = false;
  }
  const Grouping grouping = info(call.spec.op).grouping;
  if (call.layout_given && grouping != Grouping::channel && grouping != Grouping::channel_groups) {
    return Status{Code::bad_parameter, fmt::format("layout: {} has no channel axis", info(call.spec.op).name)};
  }
  return call;
}

Words effective(const Metadata& metadata, const Words& words) {
  Words all = words;
  for (const Setting& setting : table) {
    const auto it = metadata.find(std::string(setting.name));
    if (it == metadata.end()) continue;
    // Axis and layout are two ways to say one thing.
    const bool place = setting.name == "axis" || setting.name == "layout";
    if (!place || (!words.contains("axis") && !words.contains("layout"))) all.try_emplace(it->first, it->second);
  }
  return all;
}

Status merge(Metadata& inputs, const Metadata& results, const Words& words) {
  for (const Setting& setting : table) {
    const std::string key(setting.name);
    const auto said = results.find(key);
    if (said == results.end() || words.contains(key)) continue;
    const bool by_layout = key == "axis" && !inputs.contains(key) && inputs.contains("layout");
    const auto old = inputs.find(by_layout ? "layout" : key);
    if (old == inputs.end()) {
      inputs.emplace(key, said->second);
      continue;
    }
    Call before;
    Call after;
    const auto before_setting = std::find_if(table.begin(), table.end(), [&](const Setting& s) { return s.name == old->first; });
    if (!before_setting->apply(old->second, before).ok() || !setting.apply(said->second, after).ok()) continue;  // refused by `apply`
    before.layout_given = after.layout_given;
    const bool narrower = before.batch_norm && said->second.starts_with("batch_norm_");
    if (before != after && !narrower) {
      return {Code::bad_parameter,
              fmt::format("its metadata says {} {}, that of the inputs {} {}", key, quote(said->second), old->first, quote(old->second))};
    }
    if (narrower) old->second = said->second;
  }
  return {};
}

Result<BoundCall> assign_roles(const TensorFile& file, const std::string& path, const Words& words) {
  Result<Call> applied = apply(file.metadata, words);
  if (!applied.ok()) return Status{applied.status().code, fmt::format("{}: {}", path, applied.status().message)};
  Call call = *applied;
  if (!call.op_given) return Status{Code::bad_parameter, fmt::format("{}: neither the metadata nor --op says what the op is", path)};
  if (call.batch_norm) {
    const bool mean = file.find("mean") != nullptr;
    const bool variance = file.find("variance") != nullptr;
    if (mean != variance) {
      return Status{Code::bad_tensor, fmt::format("{}: batch_norm with {} alone: say batch_norm_training or batch_norm_inference", path,
                                                  mean ? "a mean" : "a variance")};
    }
    if (mean) call.spec.op = Op::batch_norm_inference;
  }
  const OpInfo& op = info(call.spec.op);

  BoundCall bound{call, effective(file.metadata, words), {}};
  bound.words["op"] = op.name;
  bound.words["axis"] = std::to_string(call.spec.effective_axis());
  bound.words.erase("layout");
  const auto no_part = [&](const std::string& name) {
    const bool setting = std::any_of(table.begin(), table.end(), [&](const Setting& s) { return s.name == name; });
    return Status{Code::bad_tensor,
                  setting ? fmt::format("{}: {} is an array: expected a single value", path, quote(name))
                          : fmt::format("{}: tensor {} has no part in {}{}", path, quote(name), op.name, tensor_suggestion(name, op))};
  };
  const auto part = [&](const std::string& name) -> std::optional<Role> {
    const std::optional<Role> role = role_named(name);
    return role && (op.inputs.contain(*role) || op.outputs.contain(*role)) ? role : std::nullopt;
  };
  for (const auto& [name, dtype] : file.unreadable) {
    if (!part(name)) return no_part(name);
    return Status{Code::bad_file,
                  fmt::format("{}: tensor {} has dtype {}: expected F16, BF16, F32, F64, F8_E4M3 or F8_E5M2", path, quote(name), dtype)};
  }
  for (const Tensor& tensor : file.tensors) {
    const std::optional<Role> role = part(tensor.name);
    if (!role) return no_part(tensor.name);
    if (op.inputs.contain(*role)) bound.inputs[*role] = tensor.view();
  }
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    if (op.required.contain(role) && !bound.inputs[role]) {
      return Status{Code::bad_tensor, fmt::format("{}: {} needs the tensor {}", path, op.name, name(role))};
    }
  }
  return bound;
}

std::vector<std::string_view> role_list(const Roles& roles, const Roles& more) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < role_count; ++i) {
    const auto role = static_cast<Role>(i);
    if (roles.contain(role) || more.contain(role)) names.push_back(name(role));
  }
  return names;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> names) {
  const auto nearest = std::min_element(
      names.begin(), names.end(), [&](std::string_view a, std::string_view b) { return edit_distance(word, a) < edit_distance(word, b); });
  if (nearest == names.end() || edit_distance(word, *nearest) > std::max<std::size_t>(2, word.size() / 2)) return "";
  return fmt::format(", did you mean {}?", *nearest);
}

std::string trimmed(const std::string& word) {
  const std::size_t first = word.find_first_not_of(' ');
  return first == std::string::npos ? "" : word.substr(first, word.find_last_not_of(' ') + 1 - first);
}

std::string describe_epsilon(double epsilon) {
  const Bits bits = std::bit_cast<Bits>(epsilon);
  const std::string shortest = to_shortest(Format::f64, bits);
  bool exact = false;
  (void)parse_number(shortest, Format::f64, &exact);
  return exact ? shortest : fmt::format("{} ({:a})", shortest, epsilon);
}

}  // namespace norma::program
