#include "distbelief/base/half_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace distbelief {
namespace {

TEST(Float16, HasTheValuesOfTheStandard) {
  EXPECT_EQ(float_from_float16(0x3c00), 1.0F);
  EXPECT_EQ(float_from_float16(0xc000), -2.0F);
  EXPECT_EQ(float_from_float16(0x3555), 0x1.554p-2F) << "a third, nearly";
  EXPECT_EQ(float_from_float16(0x7bff), 65504.0F) << "the largest";
  EXPECT_EQ(float_from_float16(0x0400), 0x1p-14F) << "the smallest with an exponent";
  EXPECT_EQ(float_from_float16(0x03ff), 0x1.ff8p-15F);
  EXPECT_EQ(float_from_float16(0x8001), -0x1p-24F) << "the smallest";
  EXPECT_EQ(float_from_float16(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float_from_float16(0x7e00)));
  EXPECT_TRUE(std::signbit(float_from_float16(0x8000)));
  EXPECT_EQ(float_from_float16(0x8000), 0.0F);
}

TEST(Bfloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(float_from_bfloat16(0x3f80), 1.0F);
  EXPECT_EQ(float_from_bfloat16(0xc049), -3.140625F);
  EXPECT_TRUE(std::isnan(float_from_bfloat16(0x7fc0)));
}

}  // namespace
}  // namespace distbelief
