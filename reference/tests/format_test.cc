#include "norma/format.h"

#include <gtest/gtest.h>

namespace norma {
namespace {

TEST(Format, NamesResolveInAllThreeSpellings) {
  EXPECT_EQ(format_named("f32"), Format::f32);
  EXPECT_EQ(format_named("BF16"), Format::bf16);
  EXPECT_EQ(format_named("f2"), Format::f16);
  EXPECT_EQ(format_named("f31"), std::nullopt);
  EXPECT_EQ(format_named(""), std::nullopt);
}

}  // namespace
}  // namespace norma
