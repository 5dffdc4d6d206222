#include "subjects.h"

#include <fmt/format.h>

#include <algorithm>

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

Status known_subject(const std::string& name) {
  if (name.starts_with("exec:") || name.find('/') != std::string::npos || name.ends_with(".so")) return {};
  std::vector<std::string_view> names;
  if (name.starts_with("mutant:")) {
    for (const properties::Mutant& mutant : properties::mutants()) {
      if (name.substr(7) == mutant.name) return {};
      names.push_back(mutant.name);
    }
    return {Code::bad_parameter,
            fmt::format("there is no mutant {}{} (see norma list mutants)", quote(name.substr(7)), suggestion(name.substr(7), names))};
  }
  for (const BuiltIn& subject : built_in_subjects()) {
    if (subject.name == name) return {};
    names.push_back(subject.name);
  }
  return {
      Code::bad_parameter,
      fmt::format("there is no subject {}{} (see norma list subjects; a shared library has a / in its path, a program is \"exec:COMMAND\")",
                  quote(name), suggestion(name, names))};
}

Result<std::unique_ptr<properties::Subject>> start_subject(const std::string& name, const properties::Limits& limits) {
  if (Status status = known_subject(name); !status.ok()) return status;
  if (name.starts_with("exec:")) return properties::start_program(name.substr(5), limits);
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return properties::start_library(name, limits);
  for (const properties::Mutant& mutant : properties::mutants()) {
    if (name == fmt::format("mutant:{}", mutant.name)) return properties::start(properties::built_in(mutant), limits);
  }
  const auto named = [&](const BuiltIn& subject) { return subject.name == name; };
  return properties::start(*std::find_if(built_in_subjects().begin(), built_in_subjects().end(), named), limits);
}

}  // namespace norma::program
