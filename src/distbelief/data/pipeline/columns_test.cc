#include "distbelief/data/pipeline/columns.h"

#include <gtest/gtest.h>

#include "distbelief/data/generated/synthetic.h"
#include "distbelief/data/pipeline/batch.h"

namespace distbelief::data {
namespace {

std::unique_ptr<Source> colour_images() {
  return std::make_unique<SyntheticImages>(
      Part::kTrain,
      SyntheticImages::Options{.samples = 9, .channels = 3, .height = 4, .width = 5, .classes = 3});
}

std::vector<float> first_batch(const Source& source) {
  Batch batch;
  BatchMaker(source, {.seed = 1, .normalize = true}).eval_batch({0, 9}, batch);
  return {batch.input.as<float>(), batch.input.as<float>() + batch.input.byte_count() / sizeof(float)};
}

TEST(Columns, HaveTheValuesOfTheWholeWhereverTheyBeginAndEnd) {
  const std::vector<float> whole = first_batch(*colour_images());
  for (const auto& [begin, end] :
       {std::pair{0, 20}, std::pair{3, 11}, std::pair{15, 47}, std::pair{40, 60}}) {
    const Columns columns(colour_images(), std::uint64_t(begin), std::uint64_t(end - begin));
    const std::vector<float> own = first_batch(columns);
    ASSERT_EQ(own.size(), std::size_t(9 * (end - begin)));
    for (int sample = 0; sample < 9; ++sample)
      for (int i = begin; i < end; ++i)
        EXPECT_EQ(own[std::size_t(sample * (end - begin) + i - begin)], whole[std::size_t(sample * 60 + i)])
            << sample << " " << i;
  }
}

}  // namespace
}  // namespace distbelief::data
