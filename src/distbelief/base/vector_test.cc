#include "distbelief/base/vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace distbelief {
namespace {

TEST(Vector, AddsInPlaceAndApart) {
  std::vector<float> left(37), right(37), out(37);
  std::iota(left.begin(), left.end(), 1.0F);
  std::iota(right.begin(), right.end(), 100.0F);
  add(out.data(), left.data(), right.data(), 37);
  add(left.data(), left.data(), right.data(), 37);
  for (std::size_t i = 0; i < 37; ++i) EXPECT_EQ(out[i], float(101 + 2 * i));
  EXPECT_EQ(left, out);
}

TEST(Vector, NormalizesEveryByteAsOneWouldByHand) {
  std::vector<std::uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::vector<float> out(256);
  normalize_bytes(out.data(), bytes.data(), 0.2860F, 0.3530F, 256);
  for (int value = 0; value < 256; ++value) {
    const volatile float scaled = float(value) / 255.0F;
    const volatile float moved = scaled - 0.2860F;
    EXPECT_EQ(out[std::size_t(value)], moved / 0.3530F) << value;
  }
}

}  // namespace
}  // namespace distbelief
