#include "subjects.h"

#include <fmt/format.h>

#include "norma/mutants.h"
#include "norma/reference.h"
#include "production.h"
#include "settings.h"

namespace norma::program {
namespace {

using properties::BuiltIn;

// Running statistics come as outputs alone, which hold the old values.
ByRole<ConstView> with_running(const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  ByRole<ConstView> all = inputs;
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    if (outputs[role]) all[role] = ConstView{outputs[role]->format, outputs[role]->data, outputs[role]->shape, outputs[role]->strides};
  }
  return all;
}

Status by_reference(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return compute(spec, with_running(inputs, outputs), outputs);
}

template <simd::Accuracy accuracy>
Status by_simd(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return produce(spec, Mode::nearest_even, with_running(inputs, outputs), outputs, {accuracy, nullptr, nullptr});
}

constexpr std::string_view by_design = "bitwise=batch_independence,scale_invariance,alignment";

}  // namespace

const std::vector<BuiltIn>& built_in_subjects() {
  static const std::vector<BuiltIn> subjects = [] {
    std::vector<BuiltIn> all{
        {"reference", "norma::compute: integers", fmt::format("algorithm=correctly_rounded {}", by_design), by_reference},
        {"simd", "norma::simd, correctly rounded", fmt::format("algorithm=correctly_rounded {}", by_design),
         by_simd<simd::Accuracy::correctly_rounded>},
        {"simd_fast", "norma::simd, fast", "compute=f32 algorithm=two_pass depth=n-1 bitwise=batch_independence,alignment",
         by_simd<simd::Accuracy::fast>},
    };
    all.insert(all.end(), properties::honest_kernels().begin(), properties::honest_kernels().end());
    return all;
  }();
  return subjects;
}

Result<std::unique_ptr<properties::Subject>> start_subject(const std::string& name, const properties::Limits& limits) {
  if (name.starts_with("exec:")) return properties::start_program(name.substr(5), limits);
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return properties::start_library(name, limits);
  std::vector<std::string_view> names;
  if (name.starts_with("mutant:")) {
    for (const properties::Mutant& mutant : properties::mutants()) {
      if (name.substr(7) == mutant.name) return properties::start(properties::built_in(mutant), limits);
      names.push_back(mutant.name);
    }
    return Status{Code::bad_parameter, fmt::format("there is no mutant {}{} (see norma list mutants)", quote(name.substr(7)),
                                                   suggestion(name.substr(7), names))};
  }
  for (const BuiltIn& subject : built_in_subjects()) {
    if (subject.name == name) return properties::start(subject, limits);
    names.push_back(subject.name);
  }
  return Status{
      Code::bad_parameter,
      fmt::format("there is no subject {}{} (see norma list subjects; a shared library has a / in its path, a program is \"exec:COMMAND\")",
                  quote(name), suggestion(name, names))};
}

Status known(std::string_view flag, const std::string& word, const std::vector<std::string_view>& names, std::string_view list) {
  if (std::find(names.begin(), names.end(), word) != names.end()) return {};
  return {Code::bad_parameter, fmt::format("{}: there is no {}{} (see norma list {})", flag, quote(word), suggestion(word, names), list)};
}

Result<std::vector<Op>> ops_of(const std::vector<std::string>& words) {
  std::vector<std::string_view> names;
  for (const OpInfo& op : ops) {
    if (op.grouping != Grouping::leading_index) names.push_back(op.name);
  }
  std::vector<Op> chosen;
  for (const std::string& word : words) {
    if (word == "batch_norm") {
      chosen.insert(chosen.end(), {Op::batch_norm_training, Op::batch_norm_inference});
      continue;
    }
    if (Status status = known("--op", word, names, "ops"); !status.ok()) return status;
    chosen.push_back(*op_named(word));
  }
  return chosen;
}

Result<std::vector<Format>> formats_of(const std::vector<std::string>& words) {
  std::vector<Format> chosen;
  for (const std::string& word : words) {
    const std::optional<Format> format = format_named(word);
    if (!format || info(*format).width < 16) {
      return Status{Code::bad_parameter, fmt::format("--dtype: {} is none of f32, f16, bf16, f64", quote(word))};
    }
    chosen.push_back(*format);
  }
  return chosen;
}

}  // namespace norma::program
