#include "norma/diagnose.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "laws/common.h"
#include "norma/mutants.h"
#include "norma/reference.h"

namespace norma::properties {
namespace {

// ---- Hypotheses -----------------------------------------------------------------------------------------------------------------------

// Another value of a field of the profile. False where that says nothing of the op.
struct Reading {
  std::string_view name, says;
  bool (*change)(Spec& spec, double n);
};

template <class T>
bool flip(T& field, T a, T b) {
  field = field == a ? b : a;
  return true;
}
bool set_epsilon(Spec& spec, double epsilon) {
  if (!(epsilon >= 0) || std::isinf(epsilon) || epsilon == spec.effective_epsilon()) return false;
  spec.epsilon = epsilon;
  return true;
}

constexpr Reading readings[] = {
    {"epsilon_placement", "ε on the other side of the root",
     [](Spec& s, double) { return flip(s.profile.epsilon_placement, EpsilonPlacement::inside, EpsilonPlacement::outside); }},
    {"variance", "the other estimator: n − 1 for n, or n for n − 1",
     [](Spec& s, double n) {
       return n > 1 && info(s.op).estimates_variance() && flip(s.profile.variance, Estimator::biased, Estimator::unbiased);
     }},
    {"running_variance", "running_variance by the other estimator",
     [](Spec& s, double n) {
       return n > 1 && s.op == Op::batch_norm_training && flip(s.profile.running_variance, Estimator::biased, Estimator::unbiased);
     }},
    {"momentum", "momentum weighs the old value for the new one, or the new for the old",
     [](Spec& s, double) {
       return s.op == Op::batch_norm_training && flip(s.profile.momentum, Momentum::weight_of_new, Momentum::weight_of_old);
     }},
    {"gain_offset", "1 + γ for γ, or γ for 1 + γ",
     [](Spec& s, double) {
       s.profile.gain_offset = !s.profile.gain_offset;
       return true;
     }},
    {"cast_before_gain", "x̂ rounded before the gain, or not",
     [](Spec& s, double) {
       s.profile.cast_before_gain = !s.profile.cast_before_gain;
       return true;
     }},
    {"epsilon=1e-3", "ε is 1e-3, whatever is asked for", [](Spec& s, double) { return set_epsilon(s, 1e-3); }},
    {"epsilon=1e-6", "ε is 1e-6, whatever is asked for", [](Spec& s, double) { return set_epsilon(s, 1e-6); }},
    {"epsilon=1e-12", "ε is 1e-12, whatever is asked for", [](Spec& s, double) { return set_epsilon(s, 1e-12); }},
    {"epsilon*n", "n·ε: n times too much", [](Spec& s, double n) { return set_epsilon(s, s.effective_epsilon() * n); }},
    {"epsilon/n", "ε/n: added to the sum of squares, before n divides it",
     [](Spec& s, double n) { return set_epsilon(s, s.effective_epsilon() / n); }},
    {"epsilon^2", "ε²: taken for a deviation",
     [](Spec& s, double) { return set_epsilon(s, s.effective_epsilon() * s.effective_epsilon()); }},
};

// The definition, read otherwise and computed exactly. Where a reading says nothing it is the definition itself.
BuiltIn read_as(const Reading* first, const Reading* second) {
  BuiltIn read;
  read.name = std::string(first->name) + (second == nullptr ? "" : " and " + std::string(second->name));
  read.summary = std::string(first->says) + (second == nullptr ? "" : "; " + std::string(second->says));
  read.words = "algorithm=correctly_rounded";
  read.normalize = [=](const Spec& asked, const ByRole<ConstView>& given, const ByRole<View>& outputs) {
    Case shape;
    shape.spec = asked;
    const ConstView& x = *given[Role::x];
    shape.inputs[Role::x] = tensor_of(Role::x, x.format, x.shape);
    const auto groups = static_cast<double>(std::max<std::int64_t>(1, membership(shape).groups));
    Spec spec = asked;
    for (const Reading* reading : {first, second}) {
      if (reading == nullptr) continue;
      Spec changed = spec;
      if (reading->change(changed, static_cast<double>(shape.elements()) / groups)) spec = changed;
    }
    return compute(spec, with_running(given, outputs), outputs);
  };
  return read;
}

// From the least generous to the most.
constexpr std::string_view arithmetics[] = {
    "compute=f32 accumulate=f64 algorithm=two_pass",    "compute=f32 algorithm=two_pass depth=pairwise",
    "compute=f32 algorithm=two_pass depth=n-1",         "compute=f32 algorithm=welford",
    "compute=f32 accumulate=f64 algorithm=single_pass", "compute=f32 algorithm=single_pass depth=pairwise",
    "compute=f32 algorithm=single_pass depth=n-1",      "compute=f16 accumulate=f32 algorithm=two_pass",
    "compute=bf16 accumulate=f32 algorithm=two_pass",   "compute=f16 algorithm=two_pass depth=n-1",
    "compute=bf16 algorithm=two_pass depth=n-1",
};

// ---- Cases ----------------------------------------------------------------------------------------------------------------------------

struct Seen {
  Case c;
  ByRole<Tensor> got;
  Truth truth;
  Roles wrong{};  // outputs of which an element leaves its bound
  bool any_wrong = false;
};

template <class Use>
void each_output(const Case& c, const ByRole<Tensor>& got, const Use& use) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (c.outputs.contain(role) && got[role]) use(role, *got[role]);
  }
}

Agreement agreement(const Elements& elements, const Tensor& got, const Tensor* other) {
  Agreement a;
  const double most = std::ldexp(1.0, info(got.format).max_exponent());
  for (std::int64_t i = 0; i < size_of(got); ++i) {
    const Element& e = elements[static_cast<std::size_t>(i)];
    if (std::isinf(e.bound) && std::isfinite(e.exact)) continue;  // nothing is promised
    ++a.elements;
    const Bits bits = bits_at(got, i);
    const Bits want = other == nullptr ? e.rounded : bits_at(*other, i);
    const bool same = same_number(got.format, bits, want);
    a.to_the_bit += same;
    const double v = value_of(got.format, bits), w = value_of(got.format, want);
    const bool near = other == nullptr ? within_bound(e, got.format, bits)
                                       : std::fabs(v - w) <= e.bound || (std::isinf(v) && v * w > 0 && std::fabs(w) + e.bound >= most);
    a.within += same || near;
  }
  return a;
}

Agreement operator+(Agreement a, const Agreement& b) { return {a.elements + b.elements, a.to_the_bit + b.to_the_bit, a.within + b.within}; }

// What a hypothesis makes of the cases that were seen. One that does not answer explains nothing.
Explanation held_against(const BuiltIn& hypothesis, Subject& instance, const std::vector<Seen>& all) {
  Explanation x{hypothesis.name, hypothesis.summary, {}, {}};
  for (const Seen& seen : all) {
    const Reply reply = instance.run(seen.c);
    each_output(seen.c, seen.got, [&](Role role, const Tensor& got) {
      const bool answered = reply.kind == Reply::Kind::ok && reply.outputs[role] && reply.outputs[role]->format == got.format;
      Agreement a = agreement(*seen.truth.outputs[role], got, answered ? &*reply.outputs[role] : nullptr);
      if (!answered) a.to_the_bit = a.within = 0;
      Agreement& sum = seen.wrong.contain(role) ? x.wrong : x.right;
      sum = sum + a;
    });
  }
  return x;
}

constexpr std::ptrdiff_t most_wrong = 40, most_right = 40;
constexpr int most_hangs = 3;

Diagnosis search(Subject& subject, Op op, const DiagnosisSettings& settings, std::vector<Seen>& seen) {
  Diagnosis d;
  d.op = op;
  // All families, mostly within the range, and what not every subject knows only now and then.
  Wish wish{.ops = {op}, .formats = settings.formats, .least_n = 2};
  std::ptrdiff_t right = 0;
  int hangs = 0;
  for (std::int64_t i = 0; i < settings.cases; ++i) {
    if (settings.progress) settings.progress(1);
    wish.tame = i % 4 != 3;
    wish.most_n = i % 8 == 7 ? 1200 : 96;
    wish.statistics = i % 2 == 1;
    wish.residual = i % 8 == 2;
    wish.plain_profile = i % 16 < 8;
    Seen s;
    s.c = generate(wish, settings.seed * 1000003 + static_cast<std::uint64_t>(op), static_cast<std::uint64_t>(i)).value();
    Reply reply = promises(subject.arithmetic(), s.c) ? subject.run(s.c) : Reply{Reply::Kind::unsupported, "", {}};
    if (reply.kind == Reply::Kind::unsupported) {
      ++d.unsupported;
      continue;
    }
    if (reply.kind != Reply::Kind::ok) {
      if (d.unanswered++ == 0) d.unanswered_because = reply.what;
      // What hangs costs its time limit each time.
      hangs += reply.kind == Reply::Kind::hung;
      if (hangs == most_hangs || reply.kind == Reply::Kind::lost) break;
      continue;
    }
    s.got = std::move(reply.outputs);
    Result<Truth> truth = truth_of(s.c, subject.arithmetic(), &s.got);
    if (!truth.ok()) continue;
    s.truth = std::move(*truth);
    ++d.cases;
    bool in_range = false;
    each_output(s.c, s.got, [&](Role role, const Tensor& got) {
      const Elements& elements = *s.truth.outputs[role];
      for (std::int64_t k = 0; k < size_of(got); ++k) {
        const Element& e = elements[static_cast<std::size_t>(k)];
        if (within_bound(e, got.format, bits_at(got, k))) continue;
        s.wrong = s.wrong | Roles{role};
        s.any_wrong = true;
        in_range = in_range || !e.range;
      }
    });
    if (!s.any_wrong) {
      if (right++ < most_right) seen.push_back(std::move(s));
      continue;
    }
    ++d.wrong;
    // What breaks within the range says more than what breaks at its ends.
    if (in_range && d.range_only) {
      d.range_only = false;
      d.simplest.reset();
      d.outputs = {};
      std::erase_if(seen, [](const Seen& old) { return old.any_wrong; });
    }
    if (in_range == d.range_only) continue;
    d.outputs = d.outputs | s.wrong;
    if (!d.simplest || s.c.elements() < d.simplest->elements()) d.simplest = s.c;
    if (std::count_if(seen.begin(), seen.end(), [](const Seen& old) { return old.any_wrong; }) < most_wrong) seen.push_back(std::move(s));
  }
  return d;
}

std::optional<std::string> covering_arithmetic(const std::vector<Seen>& all) {
  for (const std::string_view words : arithmetics) {
    const Arithmetic arithmetic = *parse_arithmetic(words);
    bool covers = true;
    for (const Seen& seen : all) {
      const Result<Truth> truth = truth_of(seen.c, arithmetic, &seen.got);
      each_output(seen.c, seen.got, [&](Role role, const Tensor& got) {
        for (std::int64_t i = 0; covers && i < size_of(got); ++i) {
          const Element& e = (*truth->outputs[role])[static_cast<std::size_t>(i)];
          covers = e.range || within_bound(e, got.format, bits_at(got, i));
        }
      });
      if (!covers) break;
    }
    if (covers) return std::string(words);
  }
  return std::nullopt;
}

void keep_best(std::vector<Explanation>& best, Explanation x) {
  const auto better = [](const Explanation& a, const Explanation& b) {
    return std::pair(std::round(a.score() * 50), a.wrong.to_the_bit) > std::pair(std::round(b.score() * 50), b.wrong.to_the_bit);
  };
  best.insert(std::upper_bound(best.begin(), best.end(), x, better), std::move(x));
  if (best.size() > 3) best.pop_back();
}

}  // namespace

const std::vector<Op>& DiagnosisSettings::asked() const { return ops.empty() ? subject_ops() : ops; }
std::int64_t DiagnosisSettings::steps() const { return cases * static_cast<std::int64_t>(asked().size()); }

Result<std::vector<Diagnosis>> diagnose(Subject& subject, const DiagnosisSettings& settings) {
  std::vector<Diagnosis> diagnoses;
  for (const Op op : settings.asked()) {
    std::vector<Seen> seen;
    Diagnosis d = search(subject, op, settings, seen);
    if (d.wrong != 0) {
      for (const Seen& s : seen) {
        each_output(s.c, s.got, [&](Role role, const Tensor& got) {
          if (s.wrong.contain(role)) d.exact = d.exact + agreement(*s.truth.outputs[role], got, nullptr);
        });
      }
      std::vector<Explanation> honest;
      const auto consider = [&](const BuiltIn& hypothesis) -> Status {
        Result<std::unique_ptr<Subject>> instance = start(hypothesis, {});
        if (!instance.ok()) return instance.status();
        Explanation x = held_against(hypothesis, **instance, seen);
        // A fault that does not show in these cases is no explanation beside the kernel that is without it.
        const bool shows =
            std::none_of(honest.begin(), honest.end(), [&](const Explanation& h) { return h.wrong == x.wrong && h.right == x.right; });
        if (honest.size() < honest_kernels().size()) honest.push_back(x);
        if (shows) keep_best(d.explanations, std::move(x));
        return {};
      };
      // Honest kernels first: beyond the range of their arithmetic they are wrong as well, and nothing else is.
      for (const BuiltIn& kernel : honest_kernels()) {
        BuiltIn within_range = kernel;
        within_range.summary += ", as it should be: it is the range of f32 that ends";
        if (Status s = consider(within_range); !s.ok()) return s;
      }
      for (const Reading& reading : readings) {
        if (Status s = consider(read_as(&reading, nullptr)); !s.ok()) return s;
      }
      for (const Mutant& mutant : mutants()) {
        BuiltIn fault = built_in(mutant);
        fault.name = mutant.name;
        if (Status s = consider(fault); !s.ok()) return s;
      }
      if (!d.explanations.front().explains(d.exact)) {
        for (const Reading* first = std::begin(readings); first != std::end(readings); ++first) {
          for (const Reading* second = first + 1; second != std::end(readings); ++second) {
            if (Status s = consider(read_as(first, second)); !s.ok()) return s;
          }
        }
      }
      d.arithmetic = covering_arithmetic(seen);
    }
    diagnoses.push_back(std::move(d));
  }
  return diagnoses;
}

}  // namespace norma::properties
