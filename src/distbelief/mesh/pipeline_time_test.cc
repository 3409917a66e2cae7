#include "distbelief/mesh/pipeline_time.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace distbelief::mesh {
namespace {

std::vector<StageCost> uneven(int stages) {
  std::vector<StageCost> costs;
  for (int s = 0; s < stages; ++s)
    costs.push_back({.forward = 1.0 + 0.3 * s, .backward = 2.5 - 0.2 * s, .transfer = 0.1 * s});
  return costs;
}

TEST(SharedCores, OneCoreTakesTheSumOfAllWork) {
  const PipelineShape shape{.pipeline = 3, .chunks = 1, .lanes = 5};
  std::vector<StageCost> costs = uneven(3);
  double work = 0;
  for (StageCost& cost : costs) {
    cost.transfer = 0;
    work += 5 * (cost.forward + cost.backward);
  }
  EXPECT_NEAR(simulate_step(PipelineSchedule::kOneForwardOneBackward, shape, costs, 1), work, 1e-9);
}

TEST(SharedCores, MoreOfThemNeverTakeLonger) {
  const PipelineShape shape{.pipeline = 4, .chunks = 1, .lanes = 8};
  const std::vector<StageCost> costs = uneven(4);
  double before = 1e9;
  for (const double cores : {0.5, 1.0, 1.5, 2.0, 3.0, 4.0}) {
    const double seconds = simulate_step(PipelineSchedule::kOneForwardOneBackward, shape, costs, cores);
    EXPECT_LE(seconds, before * (1 + 1e-9)) << cores;
    before = seconds;
  }
}

}  // namespace
}  // namespace distbelief::mesh
