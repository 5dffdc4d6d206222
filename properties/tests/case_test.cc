// Cases read back as what was written; what is no case is refused with a sentence.
#include "norma/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "direct.h"
#include "norma/generate.h"
#include "norma/mutants.h"
#include "norma/reference.h"
#include "norma/truth.h"
#include "scale.h"

namespace norma::properties {
namespace {

constexpr const char* lines[] = {
    "layer_norm f32 x=f32[2,3]:3f800000,40000000*4,7fc00000 gamma=f32[3]:3f800000*3 epsilon=0x1p-17 salt=7",
    "rms_norm bf16 x=bf16[1,0]: epsilon=0x0p+0 gain_offset",
    ("batch_norm_training f16 x=f16[2,1,2]:3c00*4 running_mean=f32[1]:00000000 momentum=0x1p-2 running_biased channels_last "
     "want=running_mean,y,rstd gap=3 offset=5 threads=3"),
    "group_norm f64 x=f64[1,2]:3ff0000000000000,8000000000000000 axis=1 groups=2 epsilon_outside in_place",
};

TEST(Case, ReadsBackAsWritten) {
  for (const char* line : lines) {
    const Result<Case> c = parse_case(line);
    ASSERT_TRUE(c.ok()) << c.status().message;
    EXPECT_EQ(to_line(*c), line);
  }
}

TEST(Case, WhatIsNoneIsRefused) {
  const char* bad[] = {"",
                       "layer_norm",
                       "layer_nom f32 x=f32[1]:3f800000",
                       "layer_norm f33 x=f32[1]:3f800000",
                       "layer_norm f32",
                       "layer_norm f32 x=f32[1]:3f8",
                       "layer_norm f32 x=f32[2]:3f800000",
                       "layer_norm f32 x=f32[1]:3f800000*2",
                       "layer_norm f32 x=f32[-1]:",
                       "layer_norm f32 x=f32[99999999999,9]:",
                       "layer_norm f32 x=f32[1]:3f800000 epsilon=big",
                       "layer_norm f32 x=f32[1]:3f800000 mean=f32[1]:00000000",
                       "layer_norm f32 x=f32[1]:3f800000 upside_down",
                       "layer_norm f32 x=f32[1]:3f800000 threads=0",
                       "layer_norm f32 x=f32[1]:3f800000 want=z",
                       "layer_norm f32 x=f32[1]:3f800000 want=",
                       "layer_norm f32 x=f32[1]:3f800000 want=y,",
                       "layer_norm f32 x=f32[1]:3f800000 want=y,y",
                       "layer_norm f32 x=f32[1]:3f800000,",
                       "layer_norm f32 x=f32[1,]:3f800000",
                       "layer_norm f32 x=f32[1]:3f800000 x=f32[1]:40000000",
                       "layer_norm f32 x=f32[1]:3f800000 epsilon=1 epsilon=2",
                       "layer_norm f32 x=f32[1]:3f800000 unbiased unbiased"};
  for (const char* line : bad) {
    const Result<Case> c = parse_case(line);
    ASSERT_FALSE(c.ok()) << line;
    EXPECT_EQ(c.status().message.find('\n'), std::string::npos);
    EXPECT_EQ(c.status().message.substr(0, 6), "case: ") << c.status().message;
  }
}

Tensor from_golden(Role role, const nlohmann::json& j, const char* key = "data") {
  Tensor t = tensor_of(role, *format_named(j["dtype"].get<std::string>()), j["shape"].get<Shape>());
  const std::string digits = j[key];
  EXPECT_EQ(digits.size(), 2 * t.data.size());
  for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<std::byte>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return t;
}

// One comparison, lo <= y <= hi, tells an honest loop from a wrong one; the middle is what the reference computes.
TEST(Case, GoldenCasesHaveTheTruthAndItsInterval) {
  const auto plain = std::find_if(honest_kernels().begin(), honest_kernels().end(), [](const BuiltIn& k) { return k.name == "plain"; });
  Direct honest(*plain), right(reference_with("reference", [](Spec&) {}));
  Direct wrong(reference_with("wrong", [](Spec& s) { s.epsilon = 2 * s.effective_epsilon() + 1; }));
  std::int64_t compared = 0, outside = 0, lo_is_hi = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(testing::scaled(400)); ++i) {
    const Case c =
        generate({.finite = i % 8 != 0, .tame = i % 2 != 0, .most_n = 40, .statistics = i % 3 == 0, .residual = true}, 5, i).value();
    const Result<std::string> text = to_golden(c, "a \"comment\"");
    ASSERT_TRUE(text.ok()) << text.status().message << to_line(c);
    const nlohmann::json j = nlohmann::json::parse(*text);
    EXPECT_EQ(j["comment"], "a \"comment\"");
    EXPECT_EQ(j["op"], info(c.spec.op).name);
    EXPECT_EQ(j["shape"].get<Shape>(), c.x().shape);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      ASSERT_EQ(j["inputs"].contains(name(role)), c.inputs[role].has_value());
      if (c.inputs[role]) {
        EXPECT_EQ(from_golden(role, j["inputs"][std::string(name(role))]).data, c.inputs[role]->data);
      }
    }
    const Reply exact = right.run(c), loop = honest.run(c), off = wrong.run(c);
    ASSERT_EQ(exact.kind, Reply::Kind::ok);
    const nlohmann::json& y = j["outputs"]["y"];
    const Tensor middle = from_golden(Role::y, y), lo = from_golden(Role::y, y, "lo"), hi = from_golden(Role::y, y, "hi");
    EXPECT_EQ(middle.data, exact.outputs[Role::y]->data) << to_line(c);
    if (j["severity"] != "must") continue;
    // One step further is outside: nothing was rounded outwards.
    ByRole<Tensor> beyond;
    beyond[Role::y] = lo;
    for (std::int64_t k = 0; k < c.elements(); ++k) set_bits(*beyond[Role::y], k, next_down(c.format, bits_at(lo, k)));
    const Result<Truth> truth = truth_of(c, {}, &beyond);
    for (std::int64_t k = 0; k < c.elements(); ++k) {
      const double least = value_at(lo, k), most = value_at(hi, k);
      const auto inside = [&](const Reply& reply) {
        const double value = value_at(*reply.outputs[Role::y], k);
        return std::isnan(value) ? std::isnan(least) : least <= value && value <= most;
      };
      EXPECT_TRUE(inside(exact) && inside(loop)) << "y[" << k << "]: " << least << " to " << most << "\n" << to_line(c);
      if (std::isfinite(least) && c.format != Format::f64) {
        EXPECT_FALSE(within_bound(truth->y()[static_cast<std::size_t>(k)], c.format, bits_at(*beyond[Role::y], k))) << k << to_line(c);
      }
      ++compared;
      outside += !inside(off);
      lo_is_hi += least == most;
    }
  }
  EXPECT_GT(compared, testing::scaled(10'000));
  EXPECT_GT(outside, compared / 4);
  EXPECT_LT(lo_is_hi, compared / 2);
}

// As the reference sees it: every group has a value of its own, which its statistics give back.
TEST(Case, MembershipIsThatOfTheReference) {
  for (const OpInfo& op : ops) {
    if (op.grouping == Grouping::leading_index || op.given_statistics) continue;
    Case c;
    c.spec.op = static_cast<Op>(&op - ops.data());
    c.spec.epsilon = 1;
    if (c.spec.op == Op::group_norm) c.spec.groups = 2;
    c.inputs[Role::x] = tensor_of(Role::x, Format::f32, {3, 4, 5});
    const Membership m = membership(c);
    for (std::int64_t i = 0; i < c.elements(); ++i) {
      set_bits(*c.inputs[Role::x], i, nearest_bits(Format::f32, static_cast<double>(1 + m.group[static_cast<std::size_t>(i)])));
    }
    const Role role = op.outputs.contain(Role::mean) ? Role::mean : Role::variance;
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
    ASSERT_TRUE(shape.ok());
    Tensor statistic = tensor_of(role, Format::f64, *shape);
    ASSERT_EQ(size_of(statistic), m.groups) << op.name;
    ByRole<ConstView> inputs;
    inputs[Role::x] = c.x().view();
    ByRole<View> outputs;
    outputs[role] = View{Format::f64, statistic.data.data(), *shape, {}};
    ASSERT_TRUE(compute(c.spec, inputs, outputs).ok());
    for (std::int64_t g = 0; g < m.groups; ++g) {
      const double value = static_cast<double>(1 + g);
      EXPECT_EQ(value_at(statistic, g), op.centred ? value : value * value) << op.name << " group " << g;
    }
  }
}

}  // namespace
}  // namespace norma::properties
