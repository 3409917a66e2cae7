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

TEST(Vector, GivesTheSumToBothAtAnyLength) {
  for (const std::size_t count : {0, 1, 15, 16, 17, 37, 4096, 4103}) {
    std::vector<float> left(count + 1, -1.0F), right(count + 1, -2.0F);
    std::iota(left.begin(), left.begin() + std::ptrdiff_t(count), 1.0F);
    std::iota(right.begin(), right.begin() + std::ptrdiff_t(count), 100.0F);
    add_to_both(left.data(), right.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(left[i], float(101 + 2 * i)) << count;
      ASSERT_EQ(right[i], left[i]) << count;
    }
    EXPECT_EQ(left[count], -1.0F);
    EXPECT_EQ(right[count], -2.0F);
  }
}

TEST(Vector, NormalizesEveryByteAsOneWouldByHand) {
  std::vector<std::uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::vector<float> out(256);
  const std::pair<float, float> traits[] = {{0.2860F, 0.3530F},
                                            {0.1307F, 0.3081F},
                                            {0.4914F, 0.2470F},
                                            {0.485F, 0.229F},
                                            {0.456F, 0.224F},
                                            {0.406F, 0.225F},
                                            {0, 1}};
  for (const auto& [mean, deviation] : traits) {
    normalize_bytes(out.data(), bytes.data(), mean, Divisor(deviation), 256);
    for (int value = 0; value < 256; ++value) {
      const volatile float scaled = float(value) / 255.0F;
      const volatile float moved = scaled - mean;
      EXPECT_EQ(out[std::size_t(value)], moved / deviation) << value;
    }
  }
}

TEST(Vector, NormalizesPastTheCachesAtAnyPlaceAndLength) {
  std::vector<std::uint8_t> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::uint8_t(i * 37);
  const Divisor deviation(0.229F);
  std::vector<float> wanted(bytes.size());
  normalize_bytes(wanted.data(), bytes.data(), 0.485F, deviation, bytes.size());
  for (const std::size_t first : {0, 1, 15, 16, 17}) {
    for (const std::size_t count : {0, 1, 7, 15, 16, 17, 224, 1024, 1039, 4096, 4103}) {
      std::vector<float> out(first + count + 1, -7.0F);
      normalize_bytes_past_caches(out.data() + first, bytes.data(), 0.485F, deviation, count);
      publish_past_caches();
      for (std::size_t i = 0; i < first; ++i) ASSERT_EQ(out[i], -7.0F) << first << " " << count;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[first + i], wanted[i]) << first << " " << count;
      ASSERT_EQ(out.back(), -7.0F) << first << " " << count;
    }
  }
}

}  // namespace
}  // namespace distbelief
