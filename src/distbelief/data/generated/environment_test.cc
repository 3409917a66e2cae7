#include "distbelief/data/generated/environment.h"

#include <gtest/gtest.h>

namespace distbelief::data {
namespace {

TEST(CartPole, FallsWhenPushedOneWayAndStandsLongerWhenPushedAgainstItsFall) {
  const auto environment = make_environment("cartpole");
  const auto length = [&](auto&& act) {
    SplitMix64 random(7);
    EnvironmentState state = environment->first(random);
    while (state.steps < 500 && !environment->step(state, act(state)).ended) continue;
    return state.steps;
  };
  EXPECT_LT(length([](const EnvironmentState&) { return 1; }), 15);
  const float balanced = length(
      [](const EnvironmentState& state) { return state.values[2] + 0.3F * state.values[3] > 0 ? 1 : 0; });
  EXPECT_GT(balanced, 100);
}

TEST(GridWorld, EndsAtTheGoalAndStopsAtTheWall) {
  const auto environment = make_environment("grid_world");
  EnvironmentState state{.values = {-1, -1, 1, 1}};
  EXPECT_LT(environment->step(state, 0).reward, 0);
  EXPECT_EQ(state.values[0], -1);
  for (int i = 0; i < 11; ++i) EXPECT_FALSE(environment->step(state, i < 6 ? 1 : 3).ended);
  const Environment::Outcome last = environment->step(state, 3);
  EXPECT_TRUE(last.ended);
  EXPECT_EQ(last.reward, 1);
}

TEST(FirstStates, AreFixedByIndexAndPart) {
  const FirstStates train(Part::kTrain, "cartpole", 10), test(Part::kTest, "cartpole", 10);
  std::array<float, kObserved> one{}, same{}, other{};
  std::int64_t target = 0;
  train.read(3, one.data(), &target);
  train.read(3, same.data(), &target);
  test.read(3, other.data(), &target);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  EXPECT_EQ(make_environment("chess"), nullptr);
}

}  // namespace
}  // namespace distbelief::data
