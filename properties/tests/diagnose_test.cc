// What is wrong is called by its name; what is right is not called anything.
#include "norma/diagnose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "direct.h"
#include "norma/mutants.h"

namespace norma::properties {
namespace {

Diagnosis diagnosis_of(const BuiltIn& subject, Op op, std::vector<Format> formats = {}) {
  Direct direct(subject);
  DiagnosisSettings settings;
  settings.ops = {op};
  settings.formats = std::move(formats);
  settings.cases = 120;
  const Result<std::vector<Diagnosis>> all = diagnose(direct, settings);
  EXPECT_TRUE(all.ok()) << all.status().message;
  return all->front();
}

void expect_first(const Diagnosis& d, std::string_view name) {
  ASSERT_GT(d.wrong, 0);
  const Explanation& first = d.explanations.front();
  EXPECT_EQ(first.name, name);
  EXPECT_TRUE(first.explains(d.exact));
  EXPECT_GT(first.wrong.part_to_the_bit(), 0.95);
  EXPECT_GT(first.wrong.part_to_the_bit(), d.exact.part_to_the_bit());
  ASSERT_TRUE(d.simplest);
}

TEST(Diagnose, SaysNothingOfTheHonest) {
  for (const BuiltIn& kernel : honest_kernels()) {
    const Diagnosis d = diagnosis_of(kernel, Op::layer_norm);
    EXPECT_GT(d.cases, 60);
    EXPECT_TRUE(d.range_only) << kernel.name;
    if (d.wrong != 0) {
      EXPECT_EQ(d.explanations.front().name, kernel.name);
    }
  }
}

struct Misreading {
  const char* name;
  Op op;
  void (*change)(Spec&);
};
void PrintTo(const Misreading& of, std::ostream* to) { *to << of.name; }
class Misreadings : public ::testing::TestWithParam<Misreading> {};

TEST_P(Misreadings, AreNamed) {
  expect_first(diagnosis_of(reference_with("misreading", GetParam().change), GetParam().op), GetParam().name);
}

void flip_estimator(Estimator& e) { e = e == Estimator::biased ? Estimator::unbiased : Estimator::biased; }
void flip_momentum(Spec& s) {
  s.profile.momentum = s.profile.momentum == Momentum::weight_of_new ? Momentum::weight_of_old : Momentum::weight_of_new;
}

INSTANTIATE_TEST_SUITE_P(Profile, Misreadings,
                         ::testing::Values(Misreading{"epsilon_placement", Op::rms_norm,
                                                      [](Spec& s) {
                                                        s.profile.epsilon_placement =
                                                            s.profile.epsilon_placement == EpsilonPlacement::inside
                                                                ? EpsilonPlacement::outside
                                                                : EpsilonPlacement::inside;
                                                      }},
                                           Misreading{"variance", Op::layer_norm, [](Spec& s) { flip_estimator(s.profile.variance); }},
                                           Misreading{"gain_offset", Op::rms_norm,
                                                      [](Spec& s) { s.profile.gain_offset = !s.profile.gain_offset; }},
                                           Misreading{"momentum", Op::batch_norm_training, flip_momentum},
                                           Misreading{"epsilon=1e-6", Op::layer_norm, [](Spec& s) { s.epsilon = 1e-6; }},
                                           Misreading{"epsilon^2", Op::layer_norm, [](Spec& s) { s.epsilon = *s.epsilon * *s.epsilon; }},
                                           // ONNX: both, where PyTorch's convention was asked for.
                                           Misreading{"running_variance and momentum", Op::batch_norm_training, [](Spec& s) {
                                                        flip_estimator(s.profile.running_variance);
                                                        flip_momentum(s);
                                                      }}));

TEST(Diagnose, NamesTheFaultOfAMutant) {
  for (const std::string_view name : {"tail-dropped", "padded-count", "beta-before-gain", "epsilon-as-maximum", "rstd-in-bf16"}) {
    for (const Mutant& mutant : mutants()) {
      if (mutant.name == name) expect_first(diagnosis_of(built_in(mutant), Op::layer_norm), name);
    }
  }
}

// A kernel of which no mutant has the order of the sums: the bound tells it.
TEST(Diagnose, TellsSinglePassByItsBound) {
  const BuiltIn single_pass{"single pass in pairs", "", "",
                            [](const Spec& spec, const ByRole<ConstView>& in, const ByRole<View>& out) -> Status {
                              const ConstView& x = *in[Role::x];
                              if (in[Role::residual] || out[Role::mean] || x.shape.size() != 2 || !(spec.profile == Profile{}))
                                return {Code::bad_parameter, "not here"};
                              const auto n = static_cast<std::size_t>(x.shape[1]);
                              for (std::int64_t row = 0; row < x.shape[0]; ++row) {
                                const auto* from = reinterpret_cast<const float*>(x.data) + row * x.shape[1];
                                auto* to = reinterpret_cast<float*>(out[Role::y]->data) + row * x.shape[1];
                                float sums[2] = {0, 0}, squares[2] = {0, 0};
                                for (std::size_t i = 0; i < n; ++i) sums[i % 2] += from[i], squares[i % 2] += from[i] * from[i];
                                const float mean = (sums[0] + sums[1]) / static_cast<float>(n);
                                const float variance = std::max(0.0F, (squares[0] + squares[1]) / static_cast<float>(n) - mean * mean);
                                const float rstd = 1 / std::sqrt(variance + static_cast<float>(*spec.epsilon));
                                for (std::size_t i = 0; i < n; ++i) {
                                  const float gain = in[Role::gamma] ? reinterpret_cast<const float*>(in[Role::gamma]->data)[i] : 1;
                                  const float bias = in[Role::beta] ? reinterpret_cast<const float*>(in[Role::beta]->data)[i] : 0;
                                  to[i] = (from[i] - mean) * rstd * gain + bias;
                                }
                              }
                              return {};
                            }};
  const Diagnosis d = diagnosis_of(single_pass, Op::layer_norm, {Format::f32});
  EXPECT_GT(d.unsupported, 0);
  ASSERT_GT(d.wrong, 0);
  ASSERT_TRUE(d.arithmetic);
  EXPECT_NE(d.arithmetic->find("single_pass"), std::string::npos) << *d.arithmetic;
}

TEST(Diagnose, SaysWhyThereIsNoAnswer) {
  const BuiltIn broken{"broken", "", "", [](const Spec&, const ByRole<ConstView>&, const ByRole<View>&) {
                         return Status{Code::bad_tensor, "out of order"};
                       }};
  const Diagnosis d = diagnosis_of(broken, Op::layer_norm);
  EXPECT_EQ(d.cases, 0);
  EXPECT_EQ(d.unanswered, 120);
  EXPECT_EQ(d.unanswered_because, "out of order");
}

}  // namespace
}  // namespace norma::properties
