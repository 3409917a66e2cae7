#include "distbelief/compute/row_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace distbelief::compute {
namespace {

TEST(RowValues, FirstValuesComeFromSeedAndIdAlone) {
  std::vector<float> one(33), again(33), other_id(33), other_seed(33);
  first_values(7, 100, 0.5F, one.data(), one.size());
  first_values(7, 100, 0.5F, again.data(), again.size());
  first_values(7, 101, 0.5F, other_id.data(), other_id.size());
  first_values(8, 100, 0.5F, other_seed.data(), other_seed.size());
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other_id);
  EXPECT_NE(one, other_seed);
  EXPECT_EQ(std::set<float>(one.begin(), one.end()).size(), one.size()) << "numbers of a row differ";
}

TEST(RowValues, FirstValuesFillTheirRangeEvenly) {
  std::vector<float> values(100'000);
  first_values(1, 2, 2.0F, values.data(), values.size());
  double sum = 0, squares = 0;
  for (const float value : values) {
    EXPECT_GE(value, -2.0F);
    EXPECT_LT(value, 2.0F);
    sum += value;
    squares += double(value) * value;
  }
  EXPECT_NEAR(sum / double(values.size()), 0, 0.02);
  EXPECT_NEAR(squares / double(values.size()), 4.0 / 3, 0.02);
}

TEST(RowValues, ASumOfSquaresIsFiniteOnlyIfAllNumbersAre) {
  for (const std::size_t width : {1U, 15U, 16U, 17U, 64U, 100U})
    for (std::size_t bad = 0; bad < width; ++bad) {
      std::vector<float> values(width, 0.5F);
      EXPECT_FLOAT_EQ(row_square(values.data(), width), 0.25F * float(width));
      values[bad] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_FALSE(std::isfinite(row_square(values.data(), width)));
      values[bad] = -std::numeric_limits<float>::infinity();
      EXPECT_FALSE(std::isfinite(row_square(values.data(), width)));
    }
}

TEST(RowValues, AnUpdateIsAdagradWithOneSumForTheRow) {
  std::vector<float> values{1, 2, 3, 4};
  const std::vector<float> gradient{1, -1, 2, 0};
  float accumulated = 0;
  update_row(values.data(), accumulated, gradient.data(), 0.1F, 4);
  EXPECT_FLOAT_EQ(accumulated, 6.0F / 4);
  EXPECT_FLOAT_EQ(values[0], 1 - 0.1F / std::sqrt(1.5F));
  EXPECT_FLOAT_EQ(values[1], 2 + 0.1F / std::sqrt(1.5F));
  EXPECT_FLOAT_EQ(values[3], 4);
  update_row(values.data(), accumulated, gradient.data(), 0.1F, 4);
  EXPECT_FLOAT_EQ(accumulated, 3);
  EXPECT_FLOAT_EQ(values[2], 3 - 0.2F / std::sqrt(1.5F) - 0.2F / std::sqrt(3.0F));
}

TEST(RowValues, PartsGetAboutAsManyRows) {
  std::vector<int> rows(64);
  for (std::uint64_t id = 0; id < 64'000; ++id) ++rows.at(std::size_t(part_of_row(id)));
  for (const int count : rows) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace distbelief::compute
