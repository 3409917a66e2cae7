#pragma once

#include <cstdint>

// The position of this thread's forward in its step, for blocks that carry state from step to step. Such a
// block keeps a row of state for every place of the global batch in a buffer of its network. A lane reads and
// writes the rows of its own places and writes 0 to all others; it scales its rows by `filled_lanes`, because
// the lanes' buffers are averaged after the step. The state therefore travels like running statistics:
// through checkpoints and snapshots, and to the next carrier of the lane.
namespace distbelief::model {

struct LanePlace {
  std::int64_t first = 0;         // global batch place of the lane's first sample
  std::int64_t filled_lanes = 1;  // lanes with samples in this step
  bool fresh = true;              // the carried state starts anew
};

// RAII guard: current_lane() returns `place` on this thread. Scopes on a thread must not nest.
class LanePlaceScope {
 public:
  explicit LanePlaceScope(const LanePlace& place);
  ~LanePlaceScope();
  LanePlaceScope(const LanePlaceScope&) = delete;
  LanePlaceScope& operator=(const LanePlaceScope&) = delete;
};

// Null outside a step: nothing is carried.
const LanePlace* current_lane();

// RAII guard for validation: the samples of a batch on this thread are consecutive, and a block that carries
// state in training reads them as one sequence from zeros. Scopes on a thread must not nest.
class SamplesInOrderScope {
 public:
  SamplesInOrderScope();
  ~SamplesInOrderScope();
  SamplesInOrderScope(const SamplesInOrderScope&) = delete;
  SamplesInOrderScope& operator=(const SamplesInOrderScope&) = delete;
};
bool samples_are_in_order();

}  // namespace distbelief::model
