#include "distbelief/compute/schedule.h"

#include <gtest/gtest.h>

#include <limits>

namespace distbelief::compute {
namespace {

ScheduleConfig named(const std::string& name) {
  ScheduleConfig schedule;
  schedule.name = name;
  return schedule;
}

TEST(Schedule, ConstantStaysAtTheBaseRate) {
  for (std::int64_t step : {0, 1, 500}) EXPECT_EQ(learning_rate(named("constant"), 0.3, step, 100, 501), 0.3);
}

TEST(Schedule, WarmUpRisesLinearlyAndReachesTheBaseRateOnItsLastStep) {
  ScheduleConfig schedule = named("constant");
  schedule.warmup_steps = 4;
  const double wanted[] = {0.2, 0.4, 0.6, 0.8, 0.8};
  for (std::int64_t step = 0; step < 5; ++step)
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 0.8, step, 10, 100), wanted[step]);
}

TEST(Schedule, StepDropsEverySoManyEpochs) {
  ScheduleConfig schedule = named("step");
  schedule.step_epochs = 2;
  schedule.gamma = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 19, 10, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 20, 10, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 59, 10, 100), 0.25);
}

TEST(Schedule, AnyNumberOfEpochsMayLieBetweenDrops) {
  ScheduleConfig schedule = named("step");
  schedule.step_epochs = std::numeric_limits<std::int64_t>::max();
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 1'000'000, 10, 2'000'000), 1);
}

TEST(Schedule, CosineFallsFromTheBaseToTheLeastRateAfterWarmUp) {
  ScheduleConfig schedule = named("cosine");
  schedule.warmup_steps = 10;
  schedule.min_lr = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.1, 10, 10, 110), 1.1);
  EXPECT_NEAR(learning_rate(schedule, 1.1, 60, 10, 110), 0.6, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 1.1, 110, 10, 110), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 1.1, 1000, 10, 110), 0.1, 1e-12) << "a run that goes on stays there";
  for (std::int64_t step = 10; step < 110; ++step)
    EXPECT_GT(learning_rate(schedule, 1.1, step, 10, 110), learning_rate(schedule, 1.1, step + 1, 10, 110));
}

TEST(Schedule, EveryNameIsKnown) {
  for (const std::string& name : schedule_names())
    EXPECT_GT(learning_rate(named(name), 1, 0, 10, 100), 0) << name;
}

}  // namespace
}  // namespace distbelief::compute
