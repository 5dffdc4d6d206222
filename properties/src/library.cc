// Functions of this program, and shared libraries, as subjects.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "norma/subject.h"
#include "wall.h"

namespace norma::properties {
namespace {

template <class V>
void views(const Slots& slots, ByRole<V>& to) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const Placed& p = slots[r];
    if (!p.present) continue;
    V& view = to[static_cast<Role>(r)].emplace();
    view.format = p.format;
    view.data = p.data;
    view.shape.assign(p.shape.begin(), p.shape.begin() + p.rank);
    view.strides.assign(p.strides.begin(), p.strides.begin() + p.rank);
  }
}

Result<std::unique_ptr<Subject>> begun(Load load, Answer answer, const Limits& limits) {
  auto subject = std::make_unique<Walled>(std::move(load), std::move(answer), limits);
  if (Status status = subject->begin(); !status.ok()) return status;
  return std::unique_ptr<Subject>(std::move(subject));
}

std::optional<norma_format> format_of(Format format) {
  switch (format) {
    case Format::f16:
      return NORMA_F16;
    case Format::bf16:
      return NORMA_BF16;
    case Format::f32:
      return NORMA_F32;
    case Format::f64:
      return NORMA_F64;
    default:
      return std::nullopt;
  }
}

constexpr std::array<std::pair<Op, norma_op>, 6> op_codes{{
    {Op::layer_norm, NORMA_LAYER_NORM},
    {Op::rms_norm, NORMA_RMS_NORM},
    {Op::batch_norm_training, NORMA_BATCH_NORM_TRAINING},
    {Op::batch_norm_inference, NORMA_BATCH_NORM_INFERENCE},
    {Op::group_norm, NORMA_GROUP_NORM},
    {Op::instance_norm, NORMA_INSTANCE_NORM},
}};

constexpr Roles outputs_of_calls{Role::y, Role::sum, Role::mean, Role::rstd, Role::running_mean, Role::running_variance};

// What subject.h has no words for.
std::string wordless(const Control& c) {
  if (c.spec.op == Op::weight_norm) return "weight_norm";
  if (c.spec.profile.residual_sum == ResidualSum::exact) return "an exact x + residual";
  for (std::size_t r = 0; r < role_count; ++r) {
    for (const Placed* p : {&c.inputs[r], &c.results[r]}) {
      if (p->present && !format_of(p->format)) return std::string(info(p->format).name);
    }
    if (c.results[r].present && !outputs_of_calls.contain(static_cast<Role>(r))) return "the output " + std::string(role_names[r]);
  }
  return "";
}

void call(const norma_subject& subject, Control& c) {
  if (const std::string what = wordless(c); !what.empty()) {
    say(c.message, "norma/subject.h does not know " + what);
    c.answer = NORMA_UNSUPPORTED;
    return;
  }
  norma_call call{};
  call.size = sizeof call;
  call.op = -1;
  for (const auto& [op, code] : op_codes) {
    if (op == c.spec.op) call.op = code;
  }
  call.axis = c.spec.effective_axis();
  call.groups = c.spec.groups.value_or(1);
  call.epsilon = c.spec.effective_epsilon();
  call.momentum = c.spec.momentum;
  const Profile& p = c.spec.profile;
  call.epsilon_outside = p.epsilon_placement == EpsilonPlacement::outside ? 1 : 0;
  call.variance_unbiased = p.variance == Estimator::unbiased ? 1 : 0;
  call.running_biased = p.running_variance == Estimator::biased ? 1 : 0;
  call.momentum_of_old = p.momentum == Momentum::weight_of_old ? 1 : 0;
  call.gain_offset = p.gain_offset ? 1 : 0;
  call.cast_before_gain = p.cast_before_gain ? 1 : 0;
  std::array<norma_tensor, 2 * role_count> tensors{};
  const auto tensor = [&](Slots& slots, Role role, std::size_t at) -> const norma_tensor* {
    Placed& placed = slots[static_cast<std::size_t>(role)];
    if (!placed.present) return nullptr;
    tensors[at] = {*format_of(placed.format), placed.rank, placed.shape.data(), placed.strides.data(), placed.data};
    return &tensors[at];
  };
  std::size_t at = 0;
  const auto input = [&](Role role) { return tensor(c.inputs, role, at++); };
  const auto output = [&](Role role) { return tensor(c.results, role, at++); };
  call.x = input(Role::x);
  call.gamma = input(Role::gamma);
  call.beta = input(Role::beta);
  call.residual = input(Role::residual);
  call.given_mean = input(Role::mean);
  call.given_variance = input(Role::variance);
  call.y = output(Role::y);
  call.sum = output(Role::sum);
  call.mean = output(Role::mean);
  call.rstd = output(Role::rstd);
  call.running_mean = output(Role::running_mean);
  call.running_variance = output(Role::running_variance);
  call.threads = c.threads;
  c.answer = subject.normalize(&call, c.message.data(), c.message.size());
}

// Name and words; or what is wrong with a subject that comes from there.
std::string introduced(const norma_subject& subject, const std::string& from, Control& c) {
  if (subject.version != NORMA_SUBJECT_VERSION) {
    return printable(from) + ": made for version " + std::to_string(subject.version) + " of norma/subject.h, expected " +
           std::to_string(NORMA_SUBJECT_VERSION);
  }
  if (subject.normalize == nullptr) return printable(from) + ": its normalize is a null pointer";
  say(c.name, subject.name != nullptr ? subject.name : from);
  say(c.words, subject.profile != nullptr ? subject.profile : "");
  return "";
}

// What a subject that needs no loading answers, and who it is.
Answer answer_of(const BuiltIn& subject) {
  return [normalize = subject.normalize, threaded = subject.threaded](Control& c) {
    ByRole<ConstView> inputs;
    ByRole<View> outputs;
    views(c.inputs, inputs);
    views(c.results, outputs);
    const bool told = c.threads != 0 && threaded;
    const Status status = told ? threaded(c.spec, inputs, outputs, c.threads) : normalize(c.spec, inputs, outputs);
    c.answer = status.ok() ? NORMA_OK : status.code == Code::bad_parameter ? NORMA_UNSUPPORTED : NORMA_ERROR;
    say(c.message, status.message);
  };
}
Answer answer_of(const norma_subject& subject) {
  return [&subject](Control& c) { call(subject, c); };
}
Load load_of(const BuiltIn& subject) {
  return [name = subject.name, words = subject.words](Control& c) {
    say(c.name, name);
    say(c.words, words);
    return std::string();
  };
}
Load load_of(const norma_subject& subject) {
  return [&subject](Control& c) { return introduced(subject, "the subject", c); };
}

template <class S>
Result<std::unique_ptr<Subject>> begun_here(const S& subject) {
  auto here = std::make_unique<Unwalled>(answer_of(subject));
  if (Status status = here->begin(load_of(subject)); !status.ok()) return status;
  return std::unique_ptr<Subject>(std::move(here));
}

}  // namespace

Result<std::unique_ptr<Subject>> start(const BuiltIn& subject, const Limits& limits) {
  return begun(load_of(subject), answer_of(subject), limits);
}
Result<std::unique_ptr<Subject>> start(const norma_subject& subject, const Limits& limits) {
  return begun(load_of(subject), answer_of(subject), limits);
}
Result<std::unique_ptr<Subject>> start_here(const BuiltIn& subject) { return begun_here(subject); }
Result<std::unique_ptr<Subject>> start_here(const norma_subject& subject) { return begun_here(subject); }

Result<std::unique_ptr<Subject>> start_library(const std::string& given, const Limits& limits) {
  // A bare name is a file here before it is one where libraries are installed.
  const bool here = given.find('/') == std::string::npos && access(given.c_str(), F_OK) == 0;
  const std::string path = here ? "./" + given : given;
  // In the child; the parent never loads it.
  const auto subject = std::make_shared<const norma_subject*>(nullptr);
  const Load load = [path, subject](Control& c) -> std::string {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return printable(dlerror());
    const auto entry = reinterpret_cast<const norma_subject* (*)()>(dlsym(library, "norma_get_subject"));
    if (entry == nullptr) return printable(path) + ": exports no norma_get_subject (see norma/subject.h)";
    const norma_subject* found = entry();
    if (found == nullptr) return printable(path) + ": norma_get_subject() returned a null pointer";
    const std::string problem = introduced(*found, path, c);
    if (!problem.empty()) return problem;
    *subject = found;
    return "";
  };
  const Answer answer = [subject](Control& c) { call(**subject, c); };
  Result<std::unique_ptr<Subject>> started = begun(load, answer, limits);
  if (!started.ok() && started.status().message.find(path) == std::string::npos) {
    return Status{started.status().code, printable(path) + ": " + started.status().message};
  }
  return started;
}

}  // namespace norma::properties
