#include "distbelief/data/generated/synthetic_shapes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/data/generated/synthetic_table.h"

namespace distbelief::data {
namespace {

struct ShapeSample {
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(16 * 16);
  std::vector<std::int64_t> labels = std::vector<std::int64_t>(16 * 16);
};

ShapeSample read(const SyntheticShapes& source, std::uint64_t index) {
  ShapeSample sample;
  source.read(index, sample.pixels.data(), sample.labels.data());
  return sample;
}

TEST(SyntheticShapes, DrawEveryClassLighterThanTheGround) {
  const SyntheticShapes source(Part::kTrain, {.samples = 200, .size = 16, .noise = 0});
  std::array<double, 4> sums{}, counts{};
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    const ShapeSample sample = read(source, i);
    for (std::size_t p = 0; p < sample.pixels.size(); ++p) {
      ASSERT_LT(sample.labels[p], 4);
      sums[std::size_t(sample.labels[p])] += sample.pixels[p];
      counts[std::size_t(sample.labels[p])] += 1;
    }
  }
  for (std::size_t c = 1; c < 4; ++c) {
    EXPECT_GT(counts[c], 0.02 * 200 * 256);
    EXPECT_GT(sums[c] / counts[c], sums[0] / counts[0] + 50);
  }
}

TEST(SyntheticShapes, AreFixedByIndexAndPart) {
  const SyntheticShapes train(Part::kTrain, {.samples = 9, .size = 16});
  const SyntheticShapes test(Part::kTest, {.samples = 9, .size = 16});
  EXPECT_EQ(read(train, 3).pixels, read(train, 3).pixels);
  EXPECT_NE(read(train, 3).pixels, read(train, 4).pixels);
  EXPECT_NE(read(train, 3).pixels, read(test, 3).pixels);
  EXPECT_THROW(SyntheticShapes(Part::kTrain, {.samples = 9, .size = 4}), Error);
}

TEST(SyntheticTable, HasOneCategoryPerRowAndBothClasses) {
  const SyntheticTable source(Part::kTrain, {.samples = 500});
  int positive = 0;
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    std::array<float, 16> row{};
    std::int64_t label = -1;
    source.read(i, row.data(), &label);
    float categories = 0;
    for (std::size_t c = 8; c < 16; ++c) categories += row[c];
    EXPECT_EQ(categories, 1);
    positive += int(label);
  }
  EXPECT_GT(positive, 150);
  EXPECT_LT(positive, 350);
}

TEST(SyntheticTable, ClassesAreTheSignsOfTheValues) {
  const SyntheticTable classes(Part::kTest, {.samples = 50});
  const SyntheticTable values(Part::kTest, {.samples = 50, .target = SyntheticTable::Target::kValue});
  for (std::uint64_t i = 0; i < 50; ++i) {
    std::array<float, 16> row{};
    std::int64_t label = -1;
    float value = 0;
    classes.read(i, row.data(), &label);
    values.read(i, row.data(), &value);
    EXPECT_EQ(label, value > 0 ? 1 : 0);
  }
  EXPECT_THROW(SyntheticTable(Part::kTest, {.numbers = 2}), Error);
}

}  // namespace
}  // namespace distbelief::data
