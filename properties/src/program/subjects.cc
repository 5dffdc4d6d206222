#include "subjects.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "norma/check.h"
#include "norma/mutants.h"
#include "norma/reference.h"
#include "production.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

using properties::BuiltIn;

Status by_reference(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return compute(spec, properties::with_running(inputs, outputs), outputs);
}

template <simd::Accuracy accuracy>
Status by_simd_threads(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, int threads) {
  return produce(spec, Mode::nearest_even, properties::with_running(inputs, outputs), outputs, {accuracy, &kept_threads(threads), nullptr});
}

template <simd::Accuracy accuracy>
Status by_simd(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return produce(spec, Mode::nearest_even, properties::with_running(inputs, outputs), outputs, {accuracy, nullptr, nullptr});
}

namespace fs = std::filesystem;

// The subjects that come with the program. A script is run by the first interpreter that finds what it imports.
struct Script {
  std::string_view name, summary;
  std::string_view file;                       // a plug-in, or a script
  std::vector<std::string_view> interpreters;  // of a script
  std::string_view probe;                      // arguments with which one of them, in the folder of the script, ends with 0
  std::string_view get;
};
const std::vector<Script>& scripts() {
  static const std::vector<Script> all{
      {"onednn", "oneDNN 2: layer and batch norm", "onednn.so", {}, "", "apt-get install libdnnl-dev, then build Norma again"},
      {"pytorch",
       "PyTorch on the CPU: layer, batch, group and instance norm",
       "pytorch.py",
       {"/usr/bin/python3 -B", "python3 -B"},
       "-c 'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, [\"torch\", \"numpy\"])))'",
       "apt-get install python3-torch"},
      {"onnxruntime",
       "ONNX Runtime on the CPU: layer, RMS, batch and instance norm",
       "onnxruntime.js",
       {"node"},
       "-e 'require.resolve(\"onnxruntime-node\", {paths: [\".\"]})'",
       "npm ci --ignore-scripts"},
      {"numpy",
       "the textbook's formula in numpy, in the format of x: all ops",
       "numpy_textbook.py",
       {"/usr/bin/python3 -B", "python3 -B"},
       "-c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec(\"numpy\"))'",
       "apt-get install python3-numpy"},
  };
  return all;
}

Shipped found(const Script& script) {
  Shipped shipped{std::string(script.name), std::string(script.summary), "", std::string(script.get)};
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  if (script.interpreters.empty()) {
    const fs::path plugin = (here / NORMA_PLUGINS / script.file).lexically_normal();
    if (fs::exists(plugin, ignored)) shipped.start = plugin;
    return shipped;
  }
  // Links resolved: what a script imports lies beside it.
  const fs::path file = fs::canonical(here / NORMA_SUBJECTS / script.file, ignored);
  if (file.empty()) {
    shipped.get = fmt::format("install Norma whole: there is no {}", (here / NORMA_SUBJECTS / script.file).lexically_normal().string());
    return shipped;
  }
  for (const std::string_view interpreter : script.interpreters) {
    const std::string probe = fmt::format("cd {} && {} {} </dev/null >/dev/null 2>&1", properties::shell_word(file.parent_path().string()),
                                          interpreter, script.probe);
    if (std::system(probe.c_str()) != 0) continue;
    shipped.start = fmt::format("exec:exec {} {}", interpreter, properties::shell_word(file.string()));
    return shipped;
  }
  if (script.get.starts_with("npm")) shipped.get += fmt::format(" in {}", file.parent_path().string());
  return shipped;
}

}  // namespace

const std::vector<BuiltIn>& built_in_subjects() {
  static const std::vector<BuiltIn> subjects = [] {
    std::vector<BuiltIn> all{
        {"reference", "norma::compute: integers", std::string(correctly_rounded_words), by_reference},
        {"simd", "norma::simd, correctly rounded", std::string(correctly_rounded_words), by_simd<simd::Accuracy::correctly_rounded>,
         by_simd_threads<simd::Accuracy::correctly_rounded>},
        {"simd_fast", "norma::simd, fast", "compute=f32 algorithm=two_pass depth=n-1 bitwise=batch_independence,alignment,threads threads",
         by_simd<simd::Accuracy::fast>, by_simd_threads<simd::Accuracy::fast>},
    };
    all.insert(all.end(), properties::honest_kernels().begin(), properties::honest_kernels().end());
    return all;
  }();
  return subjects;
}

std::vector<Shipped> shipped_subjects() {
  std::vector<Shipped> all;
  for (const Script& script : scripts()) all.push_back(found(script));
  return all;
}

Status known_subject(const std::string& name) {
  if (name.starts_with("exec:") && name.find_first_not_of(' ', 5) == std::string::npos) {
    return {Code::bad_parameter, "exec: expected a command after it"};
  }
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
  for (const Script& script : scripts()) {
    if (script.name == name) return {};
    names.push_back(script.name);
  }
  return {
      Code::bad_parameter,
      fmt::format("there is no subject {}{} (see norma list subjects; a shared library has a / in its path, a program is \"exec:COMMAND\")",
                  quote(name), suggestion(name, names))};
}

properties::Limits limits_of(double seconds) {
  properties::Limits limits;
  limits.time = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  limits.launch = std::max(limits.launch, limits.time);
  limits.idle = std::max(limits.idle, limits.time);
  return limits;
}

Started start_or_fail(const std::string& name, const properties::Limits& limits) {
  Result<std::unique_ptr<properties::Subject>> subject = start_subject(name, limits);
  if (subject.ok()) return {std::move(*subject), holds};
  (void)fail(subject.status());
  return {nullptr, subject.status().code == Code::bad_parameter ? input_error : subject_error};
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

Result<std::unique_ptr<properties::Subject>> start_subject(const std::string& name, const properties::Limits& limits) {
  if (Status status = known_subject(name); !status.ok()) return status;
  if (name.starts_with("exec:")) return properties::start_program(name.substr(5), limits);
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return properties::start_library(name, limits);
  for (const properties::Mutant& mutant : properties::mutants()) {
    if (name == fmt::format("mutant:{}", mutant.name)) return properties::start(properties::built_in(mutant), limits);
  }
  for (const Script& script : scripts()) {
    if (script.name != name) continue;
    const Shipped shipped = found(script);
    if (!shipped.start.empty()) return start_subject(shipped.start, limits);
    return Status{Code::io_error, fmt::format("{} is not available here: {}", name, shipped.get)};
  }
  const auto named = [&](const BuiltIn& subject) { return subject.name == name; };
  return properties::start(*std::find_if(built_in_subjects().begin(), built_in_subjects().end(), named), limits);
}

}  // namespace norma::program
