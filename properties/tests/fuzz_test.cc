// Lines are cases or refused, neighbours have lines, and a law is asked only of what it can be asked of, and of all that is made for it.
#include "norma/fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "chance.h"
#include "direct.h"
#include "norma/mutants.h"
#include "norma/truth.h"
#include "scale.h"

namespace norma::properties {
namespace {

const std::vector<Case>& corpus() {
  static const std::vector<Case> all = [] {
    std::vector<Case> cases;
    for (const auto& [name, c] : seeds()) cases.push_back(c);
    return cases;
  }();
  return all;
}

void flip(rc::Random& random, std::span<std::byte> bytes) {
  bytes[random.next() % bytes.size()] ^= static_cast<std::byte>(1U << random.next() % 8);
}
Case wandered(rc::Random& random) {
  Case c = one_of(random, corpus());
  for (std::int64_t steps = between(random, 1, 8); steps > 0; --steps) {
    c = neighbour(c, random, [&](std::span<std::byte> bytes) { flip(random, bytes); });
  }
  return c;
}

// From any number of steps the line of a case is that case, and the reference knows what to do with it.
TEST(Neighbour, HasALine) {
  rc::Random random(3);
  std::set<std::string> lines;
  std::map<Op, int> ops;
  const std::int64_t count = testing::scaled(2000);
  for (std::int64_t i = 0; i < count; ++i) {
    const Case c = wandered(random);
    const std::string line = to_line(c);
    const Result<Case> again = case_of(line);
    ASSERT_TRUE(again.ok()) << again.status().message << "\n" << line;
    EXPECT_EQ(to_line(*again), line);
    const Result<Truth> truth = truth_of(c, {});
    ASSERT_TRUE(truth.ok()) << truth.status().message << "\n" << line;
    lines.insert(line);
    ++ops[c.spec.op];
  }
  EXPECT_GT(lines.size(), static_cast<std::size_t>(count - count / 20));
  EXPECT_EQ(ops.size(), subject_ops().size());
}

// What can be different is, sooner or later.
TEST(Neighbour, DiffersInEverything) {
  const Case c = *parse_case("layer_norm f32 x=f32[2,3]:3f800000,40000000*5 gamma=f32[3]:3f800000*3 epsilon=0x1p+0");
  rc::Random random(4);
  std::map<std::string, int> seen;
  for (int i = 0; i < 2000; ++i) {
    const Case d = neighbour(c, random, [&](std::span<std::byte> bytes) { flip(random, bytes); });
    seen["shape"] += d.x().shape != c.x().shape;
    seen["larger"] += d.elements() > c.elements();
    seen["x"] += d.x().shape == c.x().shape && d.x() != c.x();
    seen["gamma"] += d.inputs[Role::gamma] && d.inputs[Role::gamma]->shape == Shape{3} && d.inputs[Role::gamma] != c.inputs[Role::gamma];
    seen["no gamma"] += !d.inputs[Role::gamma];
    seen["beta"] += d.inputs[Role::beta].has_value();
    seen["residual"] += d.inputs[Role::residual].has_value();
    seen["statistics"] += d.outputs.contain(Role::rstd);
    seen["epsilon"] += d.spec.epsilon != c.spec.epsilon;
    seen["profile"] += !(d.spec.profile == c.spec.profile);
    seen["placement"] += !(d.placement == c.placement);
    seen["salt"] += d.salt != c.salt;
  }
  for (const auto& [what, count] : seen) EXPECT_GT(count, 5) << what;
}

// Bytes that are none: refused in a printable line, and not by taking memory for them.
TEST(CaseOf, AnyBytes) {
  rc::Random random(5);
  std::int64_t cases = 0, refused = 0;
  for (std::int64_t i = 0; i < testing::scaled(20'000); ++i) {
    std::string line = to_line(one_of(random, corpus()));
    for (std::int64_t left = between(random, 1, 3); left > 0; --left) {
      const std::size_t at = random.next() % line.size();
      static constexpr std::string_view likely = "0123456789abcdef=,*[]: -xf";
      switch (random.next() % 3) {
        case 0:
          line[at] = one_in(random, 4) ? static_cast<char>(random.next() & 0xff) : likely[random.next() % likely.size()];
          break;
        case 1:
          line.erase(at, random.next() % 9);
          break;
        default:
          line.insert(at, line.substr(random.next() % line.size(), random.next() % 9));
      }
      if (line.empty()) line = " ";
    }
    const Result<Case> c = case_of(line);
    ++(c.ok() ? cases : refused);
    if (c.ok()) {
      EXPECT_TRUE(truth_of(*c, {}).ok()) << line;
      EXPECT_EQ(to_line(*case_of(to_line(*c))), to_line(*c));
    } else {
      const std::string& message = c.status().message;
      EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char b) { return static_cast<unsigned char>(b) >= 0x20 && b != 0x7f; }))
          << message;
    }
  }
  EXPECT_GT(cases, refused / 20);
  EXPECT_GT(refused, cases / 20);
}

TEST(CaseOf, Refuses) {
  const std::string start = "layer_norm f32 x=f32";
  EXPECT_TRUE(case_of(start + "[8192,1]:3f800000*8192 epsilon=0x1p+0").ok());
  for (const std::string& line : {
           std::string(),
           std::string(1000, '\0'),
           start + "[8193,1]:3f800000*8193 epsilon=0x1p+0",
           start + "[268435456,1]:3f800000*268435456 epsilon=0x1p+0",
           start + "[2,0]: epsilon=0x1p+0",
           start + "[2,1]:3f800000*2 epsilon=0x1p+0 gap=1048576",
           start + "[2,1]:3f800000*2 epsilon=0x1p+0 offset=65",
           start + "[3]:3f800000*3 epsilon=0x1p+0",
           start + "[2,1]:3f800000*2 epsilon=0x1p+0 axis=0",
           start + "[2,1]:3f800000*2 epsilon=-0x1p+0",
           start + "[2,1]:3f800000*2 epsilon=inf",
           start + "[2,1]:3f800000*2 gamma=f32[2]:3f800000*2 epsilon=0x1p+0",
           start + "[2,1]:3f800000*2 epsilon=0x1p+0 groups=3",
           start + "[2,1]:3f800000*2 epsilon=0x1p+0 want=xhat,y",
           start + "[2,1]:3f800000*2 epsilon=0x1p+0 want=mean",
           std::string("group_norm f32 x=f32[2,3]:3f800000*6 epsilon=0x1p+0 groups=2"),
           std::string("group_norm f32 x=f32[2,3]:3f800000*6 epsilon=0x1p+0 groups=9223372036854775807"),
           std::string("batch_norm_inference f32 x=f32[2,1]:3f800000*2 epsilon=0x1p+0"),
           std::string("weight_norm f32 x=f32[2,1]:3f800000*2 epsilon=0x1p+0"),
       }) {
    EXPECT_FALSE(case_of(line).ok()) << line;
  }
}

TEST(Seeds, AreOfEveryFamilyOpAndFormat) {
  std::set<std::string> names;
  const std::vector<Question> all = questions({});
  std::int64_t asked = 0;
  for (const auto& [name, c] : seeds()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(case_of(to_line(c)).ok()) << to_line(c);
    asked += std::any_of(all.begin(), all.end(), [&, &seed = c](const Question& q) { return fits(seed, q.wish); });
  }
  EXPECT_EQ(names.size(), families().size() * subject_ops().size() * 4);
  EXPECT_GT(asked, static_cast<std::int64_t>(names.size() * 3 / 4));
}

// By number, whatever else was asked before: so shares of the numbers are the whole.
TEST(Searched, TheSameNumberIsTheSameCase) {
  const std::vector<Question> all = questions({});
  for (const std::span<const Case> given : {std::span<const Case>(corpus()), std::span<const Case>()}) {
    std::set<std::string> lines;
    for (std::uint64_t i = 400; i-- > 0;) {
      const std::string line = to_line(searched(2 * i + 300, 1, given, all));
      EXPECT_EQ(line, to_line(searched(2 * i + 300, 1, given, all)));
      lines.insert(line);
    }
    EXPECT_GT(lines.size(), 380U);
  }
  EXPECT_EQ(to_line(searched(7, 1, corpus(), all)), to_line(corpus()[7]));
  EXPECT_NE(to_line(searched(700, 1, corpus(), all)), to_line(searched(700, 2, corpus(), all)));
}

TEST(Fits, WhatIsGeneratedForALaw) {
  for (const Question& q : questions({})) {
    for (std::uint64_t i = 0; i < 150; ++i) {
      const Case c = generate(q.wish, 11, i).value();
      ASSERT_TRUE(fits(c, q.wish)) << q.law->slug << ": " << to_line(c).substr(0, 2000);
    }
  }
}

TEST(Fits, NothingElse) {
  const auto fit = [](std::string_view line, const Wish& wish) { return fits(*parse_case(line), wish); };
  const std::string plain = "layer_norm f32 x=f32[2,2]:3f800000,40000000*3 epsilon=0x1p+0";
  EXPECT_TRUE(fit(plain, {.tame = true, .plain_profile = true}));
  EXPECT_TRUE(fit(plain + " gap=3 offset=1 in_place", {}));
  EXPECT_FALSE(fit(plain, {.ops = {Op::rms_norm}}));
  EXPECT_FALSE(fit(plain, {.formats = {Format::f16}}));
  EXPECT_FALSE(fit(plain, {.affine = Affine::both}));
  EXPECT_FALSE(fit(plain, {.least_rows = 3}));
  EXPECT_FALSE(fit(plain, {.most_rows = 1}));
  EXPECT_FALSE(fit(plain, {.least_n = 3}));
  EXPECT_FALSE(fit(plain, {.most_n = 1}));
  EXPECT_FALSE(fit(plain, {.statistics = true}));
  EXPECT_FALSE(fit(plain, {.family = "flat"}));
  EXPECT_TRUE(fit("layer_norm f32 x=f32[2,2]:3f800000*2,40000000*2 epsilon=0x1p+0", {.family = "flat"}));
  EXPECT_FALSE(fit(plain + " epsilon_outside", {.plain_profile = true}));
  EXPECT_FALSE(fit(plain + " want=mean,rstd,y", {}));
  EXPECT_TRUE(fit(plain + " want=mean,rstd,y", {.statistics = true}));
  EXPECT_FALSE(fit(plain + " want=mean,y", {.statistics = true}));
  const std::string training =
      "batch_norm_training f32 x=f32[2,1]:3f800000*2 running_mean=f32[1]:3f800000 running_variance=f32[1]:3f800000 epsilon=0x1p+0 want=";
  EXPECT_TRUE(fit(training + "mean,rstd,running_mean,running_variance,y", {.statistics = true}));
  EXPECT_TRUE(fit(training + "running_mean,running_variance,y", {.statistics = true}));
  EXPECT_FALSE(fit(training + "mean,running_mean,running_variance,y", {.statistics = true}));
  EXPECT_FALSE(fit(training + "running_mean,y", {.statistics = true}));
  EXPECT_FALSE(fit(plain + " gain_offset", {}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[2,2]:7f800000,40000000*3 epsilon=0x1p+0", {}));
  EXPECT_TRUE(fit("layer_norm f32 x=f32[2,2]:7f800000,40000000*3 epsilon=0x1p+0", {.finite = false}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[2,2]:7f000000,40000000*3 epsilon=0x1p+0", {.tame = true}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[2,2]:00000001,40000000*3 epsilon=0x1p+0", {.tame = true}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[2,2]:3f800000,40000000*3 epsilon=0x0p+0", {}));
  EXPECT_TRUE(fit("layer_norm f32 x=f32[2,2]:3f800000,40000000*3 epsilon=0x0p+0", {.epsilon_zero = true}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[2,2]:3f800000,40000000*3 gamma=f16[2]:3c00*2 epsilon=0x1p+0", {}));
  EXPECT_TRUE(fit("layer_norm f32 x=f32[2,2]:3f800000,40000000*3 gamma=f16[2]:3c00*2 epsilon=0x1p+0", {.mixed = true}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[1,1]:3f800000 epsilon=0x1p+0 unbiased", {}));
  EXPECT_FALSE(fit("layer_norm f32 x=f32[1,1]:3f800000 residual=f32[1,1]:3f800000 epsilon=0x1p+0 want=sum,y", {}));
  EXPECT_TRUE(fit("layer_norm f32 x=f32[1,1]:3f800000 residual=f32[1,1]:3f800000 epsilon=0x1p+0 want=sum,y", {.residual = true}));
}

// However far one wanders, no law, whatever its severity, is held against what is right.
TEST(Ask, NoLawIsBrokenByTheReference) {
  Direct reference(reference_with("reference", [](Spec&) {}));
  Watched watched(reference);
  rc::Random random(5);
  const std::vector<Question> all = questions({});
  std::int64_t held = 0;
  const std::int64_t count = testing::scaled(600);
  for (std::int64_t i = 0; i < count; ++i) {
    const Case c = wandered(random);
    const Answers answers = ask(watched, all, c, {.strict = true});
    ASSERT_FALSE(answers.broken) << counterexample(*answers.broken, "reference");
    EXPECT_EQ(answers.unsupported, 0) << to_line(c).substr(0, 400);
    EXPECT_EQ(answers.excused, 0);
    held += answers.held;
  }
  EXPECT_GT(held, 2 * count);
  std::cout << held << " answers\n";
}

TEST(Ask, NoMustIsBrokenByHonestKernels) {
  rc::Random random(6);
  const std::vector<Question> all = questions({});
  for (const BuiltIn& kernel : honest_kernels()) {
    Direct direct(kernel);
    Watched subject(direct);
    std::int64_t held = 0;
    const std::int64_t count = testing::scaled(1000);
    for (std::int64_t i = 0; i < count; ++i) {
      const Answers answers = ask(subject, all, wandered(random), {});
      ASSERT_FALSE(answers.broken) << counterexample(*answers.broken, kernel.name);
      held += answers.held;
    }
    EXPECT_GT(held, count) << kernel.name;
  }
}

// Squares underflow here, so that nothing is promised of what is computed with them, whichever law looks at it.
TEST(Ask, NoMustIsBrokenOutOfRange) {
  const std::vector<Question> all = questions({});
  for (const BuiltIn& kernel : honest_kernels()) {
    Direct direct(kernel);
    Watched subject(direct);
    std::int64_t excused = 0;
    for (const std::string line : {"rms_norm f32 x=f32[1,1]:1d009d00 epsilon=0x1p+0", "rms_norm f32 x=f32[1,1]:1d009d00 epsilon=0x0p+0",
                                   "layer_norm f32 x=f32[1,3]:1d009d00,9c009d00,1d109d00 epsilon=0x0p+0",
                                   "rms_norm f32 x=f32[2,3]:1d009d00,9c009d00,1d109d00*4 epsilon=0x0p+0"}) {
      for (int salt = 0; salt < 40; ++salt) {
        const Answers answers = ask(subject, all, *case_of(line + " salt=" + std::to_string(salt)), {});
        ASSERT_FALSE(answers.broken) << counterexample(*answers.broken, kernel.name);
        excused += answers.excused;
      }
    }
    EXPECT_GT(excused, 100) << kernel.name;
  }
}

// No law makes of a case what its format cannot say, and calls the answer wrong.
TEST(Ask, NoLawAsksTheUnsayable) {
  Direct right(reference_with("reference", [](Spec&) {}));
  Watched subject(right);
  for (const char* line :
       {"batch_norm_training f16 x=f16[1,1,1,1]:0000 epsilon=0x1p+60", "layer_norm f16 x=f16[2,2]:0000,3c00*3 epsilon=0x1p+60"}) {
    const Answers answers = ask(subject, questions({}), *case_of(line), {.strict = true});
    ASSERT_FALSE(answers.broken) << counterexample(*answers.broken, "reference");
    EXPECT_GT(answers.held, 10) << line;
  }
}

TEST(Ask, WhatIsBrokenIsSmall) {
  Direct wrong(reference_with("wrong", [](Spec& s) { s.profile.variance = Estimator::unbiased; }));
  Watched subject(wrong);
  const Case c =
      generate({.ops = {Op::layer_norm}, .tame = true, .affine = Affine::none, .least_rows = 4, .least_n = 40, .plain_profile = true}, 1, 1)
          .value();
  const Answers answers = ask(subject, questions({}), c, {});
  ASSERT_TRUE(answers.broken);
  EXPECT_LE(answers.broken->finding.smallest.elements(), 2);
  const std::string text = counterexample(*answers.broken, "./a kernel.so");
  for (const char* word :
       {"✗ agrees_with_reference\n", "norma check './a kernel.so' --law agrees_with_reference --case 'layer_norm ", "norma::Spec spec;"}) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_NE(counterexample(*answers.broken, "k", " --time 7").find("' --time 7\n"), std::string::npos);
  EXPECT_EQ(to_line(ask(subject, questions({}), c, {.shrink = false}).broken->finding.smallest), to_line(c));
}

// A wall would tell of it; here it is a crash, for whoever looks for one.
TEST(StartHere, WhatIsNotTheSubjectsEndsTheProcess) {
  const Case c = *parse_case("layer_norm f32 x=f32[2,2]:3f800000,40000000*3 epsilon=0x1p+0");
  using Normalize = Status (*)(const Spec&, const ByRole<ConstView>&, const ByRole<View>&);
  const Normalize beyond = [](const Spec&, const ByRole<ConstView>&, const ByRole<View>& o) {
    for (int i = 0; i < 1 << 21; ++i) o[Role::y]->data[i] = std::byte{1};
    return Status{};
  };
  const Normalize into_x = [](const Spec&, const ByRole<ConstView>& i, const ByRole<View>&) {
    *const_cast<std::byte*>(i[Role::x]->data) ^= std::byte{1};
    return Status{};
  };
  for (const Normalize crime : {beyond, into_x}) {
    Direct subject(BuiltIn{"criminal", "", "", crime});
    EXPECT_DEATH((void)subject.run(c), "");
  }
  Direct lazy(BuiltIn{"lazy", "", "", [](auto&, auto&, auto&) { return Status{}; }});
  EXPECT_EQ(lazy.run(c).what, "y[0] was not written");
  EXPECT_FALSE(start_here(BuiltIn{"vague", "", "algorithm=clever", beyond}).ok());
}

}  // namespace
}  // namespace norma::properties
