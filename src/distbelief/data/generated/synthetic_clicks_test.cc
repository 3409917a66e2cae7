#include "distbelief/data/generated/synthetic_clicks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

TEST(SyntheticClicks, FewIdsComeOftenAndMostNever) {
  const SyntheticClicks clicks(Part::kTrain, {.samples = 20'000});
  std::map<std::int64_t, int> seen;
  std::int64_t largest = 0, clicked = 0;
  for (std::uint64_t i = 0; i < clicks.size(); ++i) {
    std::vector<std::int64_t> ids(8);
    std::int64_t target = -1;
    clicks.read(i, ids.data(), &target);
    for (std::size_t field = 0; field < ids.size(); ++field) {
      ASSERT_EQ(ids[field] / 12'500'000, std::int64_t(field)) << "a field has ids of its own";
      largest = std::max(largest, ids[field]);
    }
    ++seen[ids[0]];
    clicked += target;
  }
  EXPECT_GT(seen[0], 500);  // of 20,000 draws: about 1 in 24
  EXPECT_GT(seen.size(), 8'000U);
  EXPECT_GT(largest, 99'000'000);
  EXPECT_GT(clicked, 4'000);
  EXPECT_LT(clicked, 10'000);
}

TEST(SyntheticClicks, ClicksFollowTheRuleThatIsTold) {
  const SyntheticClicks clicks(Part::kTest, {.samples = 20'000, .noise = 0});
  double expected = 0, surprise = 0, constant = 0;
  int clicked = 0;
  for (std::uint64_t i = 0; i < clicks.size(); ++i) {
    std::vector<std::int64_t> ids(8);
    std::int64_t target = -1;
    clicks.read(i, ids.data(), &target);
    const double chance = clicks.truth(ids.data());
    expected += chance;
    clicked += int(target);
    surprise -= std::log(target == 1 ? chance : 1 - chance);
  }
  const double share = double(clicked) / 20'000;
  constant = -20'000 * (share * std::log(share) + (1 - share) * std::log(1 - share));
  EXPECT_NEAR(expected, clicked, 300);
  EXPECT_LT(surprise, 0.9 * constant) << "knowing the ids helps";
}

TEST(SyntheticClicks, OptionsOutOfRangeAreRefused) {
  EXPECT_THROW(SyntheticClicks(Part::kTrain, {.fields = 1}), Error);
  EXPECT_THROW(SyntheticClicks(Part::kTrain, {.ids = 3}), Error);
  EXPECT_THROW(SyntheticClicks(Part::kTrain, {.noise = -1}), Error);
}

}  // namespace
}  // namespace distbelief::data
