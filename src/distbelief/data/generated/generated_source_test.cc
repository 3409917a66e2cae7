#include "distbelief/data/generated/generated_source.h"

#include <gtest/gtest.h>

#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

// Draws one number below `numbers`.
class OneNumber final : public DiscreteSource {
 public:
  OneNumber(Part part, std::uint64_t numbers)
      : DiscreteSource(part, 1000, {.stream = 99, .name = "one_number", .advice = "raise option 'numbers'"}),
        numbers_(numbers) {
    spec_.input_type = ElementType::kInt64;
    spec_.input_shape = {1};
    require_samples();
  }
  std::int64_t number(std::uint64_t index) const {
    std::int64_t input = -1, target = -1;
    read(index, &input, &target);
    EXPECT_EQ(input, target) << "both are of the same draw";
    return input;
  }

 private:
  void draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const override {
    *input = *target = std::int64_t(random.below(numbers_));
  }

  std::uint64_t numbers_;
};

TEST(DiscreteSource, ASampleIsOfOnePartAlone) {
  const OneNumber train(Part::kTrain, 40), test(Part::kTest, 40);
  std::vector<int> trained_on(40), tested_on(40);
  for (std::uint64_t i = 0; i < train.size(); ++i) {
    trained_on[std::size_t(train.number(i))] = 1;
    tested_on[std::size_t(test.number(i))] = 1;
  }
  int tested = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(trained_on[i] + tested_on[i], 1) << i;
    tested += tested_on[i];
  }
  EXPECT_GT(tested, 3);
  EXPECT_LT(tested, 20);
}

TEST(DiscreteSource, SamplesAreReachedInAnyOrder) {
  const OneNumber first(Part::kTest, 1'000'000), second(Part::kTest, 1'000'000);
  const std::int64_t late = first.number(900);
  for (std::uint64_t i = 0; i < 900; ++i) second.number(i);
  EXPECT_EQ(second.number(900), late);
}

TEST(DiscreteSource, WithoutAnythingToTestOnItIsRefused) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "one_number has too few different samples: none of 4096 is one to t",
                      testing::refusal([] {
                        OneNumber(Part::kTrain, 1);
                        OneNumber(Part::kTest, 1);
                      }));
}

}  // namespace
}  // namespace distbelief::data
