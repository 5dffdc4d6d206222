// Cases read back as what was written; what is no case is refused with a sentence.
#include "norma/case.h"

#include <gtest/gtest.h>

#include "norma/reference.h"

namespace norma::properties {
namespace {

constexpr const char* lines[] = {
    "layer_norm f32 x=f32[2,3]:3f800000,40000000*4,7fc00000 gamma=f32[3]:3f800000*3 epsilon=0x1p-17 salt=7",
    "rms_norm bf16 x=bf16[1,0]: epsilon=0x0p+0 gain_offset",
    "batch_norm_training f16 x=f16[2,1,2]:3c00*4 running_mean=f32[1]:00000000 momentum=0x1p-2 running_biased channels_last "
    "want=running_mean,y,rstd gap=3 offset=5",
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
                       "layer_norm f32 x=f32[1]:3f800000 want=z"};
  for (const char* line : bad) {
    const Result<Case> c = parse_case(line);
    ASSERT_FALSE(c.ok()) << line;
    EXPECT_EQ(c.status().message.find('\n'), std::string::npos);
    EXPECT_EQ(c.status().message.substr(0, 6), "case: ") << c.status().message;
  }
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
