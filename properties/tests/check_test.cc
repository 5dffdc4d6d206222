// The laws hold of the reference; what is wrong is found, made small, and found again from the line that says it.
#include "norma/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "direct.h"
#include "scale.h"

namespace norma::properties {
namespace {

const LawReport& report_of(const Report& report, std::string_view slug) {
  for (const LawReport& r : report.laws) {
    if (r.law->slug == slug) return r;
  }
  ADD_FAILURE() << "no report of " << slug;
  return report.laws.front();
}

std::int64_t asked(const Report& report) {
  return std::count_if(report.laws.begin(), report.laws.end(),
                       [](const LawReport& r) { return r.tested() + r.vacuous + r.unsupported != 0; });
}

TEST(Laws, HaveNamesOfTheirOwn) {
  std::set<std::string_view> slugs;
  for (const Law& law : laws()) {
    EXPECT_TRUE(slugs.insert(law.slug).second) << law.slug;
    EXPECT_FALSE(law.statement.empty()) << law.slug;
    EXPECT_FALSE(law.claim.empty()) << law.slug;
  }
  EXPECT_GE(slugs.size(), 50U);
}

TEST(Laws, HoldOfTheReference) {
  Direct reference(reference_with("reference", [](Spec&) {}));
  Settings settings;
  settings.cases = testing::scaled(60);
  const Report report = check(reference, settings);
  EXPECT_EQ(report.laws.size(), laws().size());
  for (const LawReport& r : report.laws) {
    EXPECT_EQ(r.held + r.vacuous, settings.cases)
        << r.law->slug << (r.first ? ": " + r.first->what + "\n" + to_line(r.first->smallest) : "");
    EXPECT_FALSE(r.starved()) << r.law->slug << " says nothing of " << r.vacuous << " cases of " << settings.cases;
  }
  EXPECT_EQ(report.accuracy.correctly_rounded, report.accuracy.elements);
  EXPECT_GT(report.accuracy.elements, settings.cases * 1000);
}

struct Mistake {
  const char* name;
  void (*change)(Spec&);
  const char* law;
};
void PrintTo(const Mistake& of, std::ostream* to) { *to << of.name; }
class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreFoundAndMadeSmall) {
  Direct subject(reference_with(GetParam().name, GetParam().change));
  Settings settings;
  settings.laws = {GetParam().law};
  settings.stop_at_first = true;
  const Report report = check(subject, settings);
  const LawReport& r = report_of(report, GetParam().law);
  ASSERT_TRUE(r.first) << "not found";
  const Finding& f = *r.first;
  EXPECT_LE(f.smallest.elements(), 4) << to_line(f.smallest);
  EXPECT_LE(f.smallest.elements(), f.original.elements());
  // The line is the case.
  const Result<Case> again = parse_case(to_line(f.smallest));
  ASSERT_TRUE(again.ok()) << again.status().message;
  EXPECT_EQ(replay(subject, *r.law, *again).what, f.what);
  Direct right(reference_with("reference", [](Spec&) {}));
  EXPECT_EQ(replay(right, *r.law, *again).what, "");
}
INSTANTIATE_TEST_SUITE_P(Semantics, Mistakes,
                         ::testing::Values(Mistake{"epsilon_outside",
                                                   [](Spec& s) { s.profile.epsilon_placement = EpsilonPlacement::outside; },
                                                   "epsilon_inside_root"},
                                           Mistake{"unbiased", [](Spec& s) { s.profile.variance = Estimator::unbiased; }, "variance_one"},
                                           Mistake{"epsilon_fixed", [](Spec& s) { s.epsilon = 1e-5; }, "epsilon_zero"},
                                           Mistake{"gain_offset", [](Spec& s) { s.profile.gain_offset = true; }, "gain_zero_is_beta"},
                                           Mistake{"momentum",
                                                   [](Spec& s) {
                                                     s.profile.momentum = Momentum::weight_of_old;
                                                     s.momentum = 0.9;
                                                   },
                                                   "running_update"}),
                         [](const auto& i) { return std::string(i.param.name); });

// A layer norm that makes each element of y from that of x alone.
Direct elementwise(float (*f)(float)) {
  return Direct(row_kernel("elementwise", Op::layer_norm,
                           [f](const float* x, const float*, const float*, float* y, std::int64_t rows, std::int64_t cols, float) {
                             std::transform(x, x + rows * cols, y, f);
                           }));
}

// Laws that every normalization keeps, right or wrong, are broken by what is none.
TEST(Laws, FindWhatDoesNotNormalize) {
  const auto broken_by = [](float (*f)(float), const char* law) {
    Direct subject = elementwise(f);
    Settings settings;
    settings.laws = {law};
    return report_of(check(subject, settings), law).broken;
  };
  EXPECT_GT(broken_by([](float x) { return x; }, "affine_undoes_one_row"), 0);
  EXPECT_GT(broken_by([](float x) { return x / 2; }, "idempotent"), 0);
}

// What is not a number is not so many ulp away.
TEST(Laws, SayHowFarOffNumbersAre) {
  const auto said = [](float (*f)(float), const char* line) {
    Direct subject = elementwise(f);
    return replay(subject, *law_named("agrees_with_reference"), *parse_case(line)).what;
  };
  const auto one = [](float) { return 1.0F; };
  const auto nan = [](float) { return std::nanf(""); };
  const char* const flat = "layer_norm f32 x=f32[1,1]:3f800000 beta=f32[1]:40000000 epsilon=0x1p+0";
  EXPECT_EQ(said(one, flat), "y[0] = 1 (0x3f800000), exactly 2 (0x40000000): 4.194e+06 ulp away, 2.796e+06 of the bound");
  EXPECT_EQ(said(nan, flat), "y[0] = nan (0x7fc00000), exactly 2 (0x40000000)");
  EXPECT_EQ(said(one, "layer_norm f32 x=f32[1,1]:3f800000 epsilon=0x0p+0"), "y[0] = 1 (0x3f800000), exactly nan (0x7fc00000)");
}

// Every share of the cases, and all of them, are the same cases.
TEST(Check, SharesAreTheWhole) {
  std::vector<std::string> seen;
  BuiltIn spy = reference_with("spy", [](Spec&) {});
  class Spy final : public Subject {
   public:
    Spy(BuiltIn subject, std::vector<std::string>& lines) : inner_(std::move(subject)), lines_(lines) {}
    [[nodiscard]] const std::string& name() const override { return inner_.name(); }
    [[nodiscard]] const Arithmetic& arithmetic() const override { return inner_.arithmetic(); }
    Reply run(const Case& c) override {
      lines_.push_back(to_line(c));
      return inner_.run(c);
    }

   private:
    Direct inner_;
    std::vector<std::string>& lines_;
  } subject(spy, seen);
  const auto cases = [&](std::int64_t shard, std::int64_t shards) {
    seen.clear();
    Settings settings;
    settings.cases = 11;
    settings.laws = {"agrees_with_reference", "no_leak"};
    settings.shard = shard;
    settings.shards = shards;
    check(subject, settings);
    return std::multiset<std::string>(seen.begin(), seen.end());
  };
  std::multiset<std::string> joined;
  for (std::int64_t shard = 1; shard <= 3; ++shard) joined.merge(cases(shard, 3));
  EXPECT_EQ(joined, cases(1, 1));
  EXPECT_GT(joined.size(), 22U);
}

// The reference, where it does not say something else.
class Moody final : public Subject {
 public:
  explicit Moody(std::function<Reply::Kind(const Case&)> mood) : mood_(std::move(mood)) {}
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return inner_.arithmetic(); }
  Reply run(const Case& c) override {
    const Reply::Kind kind = mood_(c);
    ++calls[kind];
    return kind == Reply::Kind::ok ? inner_.run(c) : Reply{kind, "no licence", {}};
  }
  std::map<Reply::Kind, std::int64_t> calls;

 private:
  Direct inner_{reference_with("moody", [](Spec&) {})};
  std::function<Reply::Kind(const Case&)> mood_;
};

TEST(Check, TheDeadAreNotAskedForLong) {
  using Kind = Reply::Kind;
  const auto little = [](const Case& c) { return c.spec.op == Op::layer_norm && c.x().format == Format::f32; };
  struct {
    std::function<Kind(const Case&)> mood;
    Kind kind;
    std::int64_t calls;
    const char* says;
  } const all[] = {
      {[](const Case&) { return Kind::hung; }, Kind::hung, 2, "2 calls hung, and none was computed"},
      {[&](const Case& c) { return little(c) ? Kind::hung : Kind::unsupported; }, Kind::hung, 2, "2 calls hung, and none was computed"},
      {[](const Case&) { return Kind::crashed; }, Kind::crashed, 10, "10 calls crashed, and none was computed"},
  };
  for (const auto& dead : all) {
    Moody subject(dead.mood);
    const Report report = check(subject, {});
    EXPECT_EQ(report.ended, dead.says);
    EXPECT_EQ(subject.calls[dead.kind], dead.calls);
    EXPECT_EQ(report.laws.size(), laws().size());
    EXPECT_EQ(asked(report), 1);
    EXPECT_EQ(report.laws.front().broken, dead.calls);
    ASSERT_TRUE(report.laws.front().first);
    EXPECT_EQ(report.laws.front().first->reply, dead.kind);
  }
}

// A hang costs its time limit: of those who compute something, too, there are so many in a law and so many in all.
TEST(Check, HangsAreFew) {
  using Kind = Reply::Kind;
  const auto mood = [](const Case& c) { return c.x().format == Format::f16 ? Kind::hung : Kind::ok; };
  Moody subject(mood);
  Settings settings;
  settings.laws = {"tails"};
  const Report one = check(subject, settings);
  EXPECT_EQ(one.ended, "");
  ASSERT_EQ(one.laws.size(), 1U);
  const LawReport& r = one.laws.front();
  EXPECT_EQ(r.broken, 3);
  EXPECT_GT(r.held, 0);
  EXPECT_EQ(r.first->what, "hung: no licence; gave up after 3 hangs");
  EXPECT_LT(r.first->smallest.elements(), r.first->original.elements());
  EXPECT_LE(subject.calls[Kind::hung], 11);

  Moody again(mood);
  const Report report = check(again, {});
  EXPECT_EQ(report.ended, "30 calls hung");
  EXPECT_EQ(again.calls[Kind::hung], 30);
  EXPECT_LT(asked(report), static_cast<std::int64_t>(laws().size()));

  // One is no reason.
  bool hung = false;
  Moody once([&](const Case&) { return std::exchange(hung, true) ? Kind::ok : Kind::hung; });
  settings.laws.clear();
  settings.cases = 3;
  const Report whole = check(once, settings);
  EXPECT_EQ(whole.ended, "");
  EXPECT_EQ(whole.laws.size(), laws().size());
  EXPECT_EQ(whole.laws.front().broken, 1);
}

// That a subject could not be started again is no law's business.
TEST(Check, WhatIsLostBreaksNoLaw) {
  std::int64_t calls = 0;
  Moody subject([&](const Case&) { return ++calls > 700 ? Reply::Kind::lost : Reply::Kind::ok; });
  const Report report = check(subject, {});
  EXPECT_EQ(report.ended, "the subject could not be started again: no licence");
  EXPECT_EQ(subject.calls[Reply::Kind::lost], 1);
  EXPECT_EQ(report.must_violations() + report.should_violations(), 0);
  EXPECT_GT(asked(report), 1);
  EXPECT_LT(asked(report), static_cast<std::int64_t>(laws().size()));
  EXPECT_EQ(report.laws.size(), laws().size());  // the others were not asked
}

// One that is right but where it is told how many threads to use, and one but where it is asked for statistics too.
TEST(Laws, FindWhatIsRightOnlyOtherwise) {
  const auto spoilt = [](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
    const Status status = compute(spec, with_running(inputs, outputs), outputs);
    if (status.ok() && !outputs[Role::y]->shape.empty() && product(outputs[Role::y]->shape.begin(), outputs[Role::y]->shape.end()) != 0) {
      outputs[Role::y]->data[info(outputs[Role::y]->format).bytes() - 1] ^= std::byte{0x41};  // its sign, and much of its exponent
    }
    return status;
  };
  const auto broken_by = [](BuiltIn subject, const char* law) {
    Direct direct(subject);
    Settings settings;
    settings.laws = {law};
    const LawReport r = report_of(check(direct, settings), law);
    EXPECT_EQ(r.severity, Severity::must);
    return r.broken;
  };
  BuiltIn right = reference_with("right", [](Spec&) {});
  EXPECT_EQ(broken_by(right, "threads_in_bound"), 0);
  EXPECT_EQ(broken_by(right, "auxiliary_outputs"), 0);
  BuiltIn told = right;
  told.threaded = [spoilt](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, int) {
    return spoilt(spec, inputs, outputs);
  };
  EXPECT_GT(broken_by(told, "threads_in_bound"), 0);
  BuiltIn asked = right;
  asked.normalize = [spoilt, plain = right.normalize](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
    return outputs[Role::rstd] ? spoilt(spec, inputs, outputs) : plain(spec, inputs, outputs);
  };
  EXPECT_GT(broken_by(asked, "auxiliary_outputs"), 0);
}

// Sums in f64, a mean in f32: of two neighbours, it is one of them.
TEST(Check, AMeanMayBeRounded) {
  const auto kernel = [](const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows, std::int64_t cols,
                         float epsilon) {
    for (const float* const end = x + rows * cols; x != end; x += cols, y += cols) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < cols; ++i) sum += static_cast<double>(x[i]);
      const auto mean = static_cast<float>(sum / static_cast<double>(cols));
      for (std::int64_t i = 0; i < cols; ++i) squares += static_cast<double>(x[i] - mean) * static_cast<double>(x[i] - mean);
      const auto rstd = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(epsilon)));
      for (std::int64_t i = 0; i < cols; ++i) {
        y[i] = (x[i] - mean) * rstd * (gamma != nullptr ? gamma[i] : 1) + (beta != nullptr ? beta[i] : 0);
      }
    }
  };
  Direct subject(row_kernel("mean in f32", Op::layer_norm, kernel, "compute=f32 accumulate=f64"));
  Settings settings;
  settings.ops = {Op::layer_norm};
  settings.cases = testing::scaled(150);
  const Report report = check(subject, settings);
  for (const LawReport& r : report.laws) {
    if (r.severity != Severity::must) continue;
    EXPECT_EQ(r.broken, 0) << r.law->slug << ": " << r.first->what << "\n" << to_line(r.first->smallest);
  }
}

// Of f64, an arithmetic of f32 promises nothing, and is not asked.
TEST(Check, WhatIsWiderThanTheArithmeticIsNotAsked) {
  BuiltIn narrow = reference_with("narrow", [](Spec&) {});
  narrow.words = "compute=f32";
  Direct subject(narrow);
  Settings settings;
  settings.formats = {Format::f64};
  settings.cases = 4;
  for (const LawReport& r : check(subject, settings).laws) {
    EXPECT_EQ(r.tested(), 0) << r.law->slug;
    if (r.unsupported == 0 || r.law->slug.starts_with("threads")) continue;
    EXPECT_EQ(r.reasons.count("it computes in less than the format of x"), 1U) << r.law->slug;
  }
}

// What the command repeats is wrong alone, or the report says that it is not: of whom the statistics of the call before are used, say.
TEST(Check, WhatOnlyOtherCallsBreakIsSaid) {
  auto calls = std::make_shared<int>(0);
  BuiltIn moody = reference_with("moody", [](Spec&) {});
  moody.normalize = [calls, right = moody.normalize](const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
    Spec other = spec;
    if (++*calls % 7 == 0) other.epsilon = 3;
    return right(other, inputs, outputs);
  };
  const Result<std::unique_ptr<Subject>> subject = start(moody, {});
  ASSERT_TRUE(subject.ok());
  Settings settings;
  settings.laws = {"variance_one"};
  const Report report = check(**subject, settings);
  ASSERT_TRUE(report.laws[0].first);
  const Finding& f = *report.laws[0].first;
  EXPECT_TRUE(f.what.ends_with("; after other calls only: alone it is right")) << f.what;
  EXPECT_EQ(to_line(f.smallest), to_line(f.original));
}

// Whatever the severity of the law that was asked.
TEST(Check, ACrashIsAMust) {
  const Result<std::unique_ptr<Subject>> subject =
      start(BuiltIn{"crashes by threads", "", "threads", row_kernel("", Op::layer_norm, [](auto&&...) {}).normalize,
                    [](const Spec&, const ByRole<ConstView>&, const ByRole<View>&, int) -> Status { std::abort(); }},
            {});
  ASSERT_TRUE(subject.ok());
  Settings settings;
  settings.laws = {"threads"};
  settings.ops = {Op::layer_norm};
  settings.formats = {Format::f32};
  const Report report = check(**subject, settings);
  EXPECT_GT(report.must_violations(), 0);
}

// NaN where nothing is promised has no margin: the root of a variance in one pass that came out negative.
TEST(Check, WhatIsNotPromisedHasNoMargin) {
  const auto single_pass = [](const float* x, const float*, const float*, float* y, std::int64_t rows, std::int64_t cols, float epsilon) {
    for (const float* const end = x + rows * cols; x != end; x += cols, y += cols) {
      float sum = 0, squares = 0;
      for (std::int64_t i = 0; i < cols; ++i) sum += x[i], squares += x[i] * x[i];
      const float n = static_cast<float>(cols), mean = sum / n, rstd = 1 / std::sqrt(squares / n - mean * mean + epsilon);
      for (std::int64_t i = 0; i < cols; ++i) y[i] = (x[i] - mean) * rstd;
    }
  };
  Direct subject(row_kernel("single_pass", Op::layer_norm, single_pass, "algorithm=single_pass"));
  Settings settings;
  settings.laws = {"flat_row_is_beta"};
  const Accuracy a = check(subject, settings).accuracy;
  ASSERT_TRUE(std::isinf(a.ulp.value)) << "no NaN";
  for (const Extreme* e : {&a.ulp, &a.margin, &a.depth}) EXPECT_FALSE(std::isnan(e->margin) || std::isnan(e->value)) << e->line;
  for (const auto& [kind, t] : a.kinds) EXPECT_FALSE(std::isnan(t.ulp.margin) || std::isnan(t.margin.margin));
}

TEST(Check, OpsAndFormatsAreThoseAskedFor) {
  Direct reference(reference_with("reference", [](Spec&) {}));
  Settings settings;
  settings.cases = 5;
  settings.ops = {Op::rms_norm};
  settings.formats = {Format::bf16};
  const Report report = check(reference, settings);
  EXPECT_GT(report.laws.size(), 10U);
  EXPECT_LT(report.laws.size(), laws().size());  // some are about batches
  ASSERT_EQ(report.accuracy.kinds.size(), 1U);
  EXPECT_EQ(report.accuracy.kinds.begin()->first, (std::pair{Op::rms_norm, Format::bf16}));
}

}  // namespace
}  // namespace norma::properties
