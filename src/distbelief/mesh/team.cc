#include "distbelief/mesh/team.h"

#include <numeric>

#include "distbelief/base/random.h"

namespace distbelief::mesh {

// Separates the lanes' randomness from that of data augmentation and initial weights.
constexpr std::uint64_t kLaneStream = 0x6c616e65;

StepOutcome outcome_of(const LaneNotes& mean, std::int64_t filled_lanes) {
  return {.loss = double(mean.loss) * double(filled_lanes),
          .save = mean.save > 0,
          .snapshot = mean.snapshot > 0,
          .stop = mean.stop > 0,
          .pause = mean.pause > 0,
          .hand_over = mean.hand_over > 0,
          .lanes = mean.lanes > 0};
}

StepSize size_of(const StepPlan& plan) {
  StepSize size;
  for (const std::int64_t samples : plan.lane_samples) {
    size.samples += samples;
    size.filled_lanes += samples > 0 ? 1 : 0;
  }
  return size;
}

std::uint64_t lane_seed(std::uint64_t seed, std::int64_t step, std::int64_t lane) {
  return derive_seed({seed, kLaneStream, std::uint64_t(step), std::uint64_t(lane)});
}

LaneContext::LaneContext(std::uint64_t seed, const StepPlan& plan, std::int64_t lane)
    : randomness_(lane_seed(seed, plan.step, lane)),
      place_(model::LanePlace{.first = std::accumulate(plan.lane_samples.begin(),
                                                       plan.lane_samples.begin() + lane, std::int64_t{0}),
                              .filled_lanes = size_of(plan).filled_lanes,
                              .fresh = plan.fresh}) {}

std::size_t lane_values(const torch::nn::Module& network) {
  return compute::BufferSet(network).size() + kNoteFloats;
}

}  // namespace distbelief::mesh
