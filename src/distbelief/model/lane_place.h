#pragma once

#include <cstdint>

// Where the forward that runs on this thread stands in its step, for blocks that carry state from one step to
// the next. Such a block keeps, in a buffer of its network, a row of state for every place of the global
// batch. A lane reads and writes the rows of its own places and leaves 0 in all others; what it writes counts
// `filled_lanes` times, because the lanes' buffers are averaged after the step. So the state travels with
// running statistics: through checkpoints and snapshots, and to whoever carries the lane next.
namespace distbelief::model {

struct LanePlace {
  std::int64_t first = 0;         // place in the global batch of the lane's first sample
  std::int64_t filled_lanes = 1;  // that have samples in this step
  bool fresh = true;              // what is carried begins anew
};

// While it lives, current_lane() gives `place` on this thread. Scopes on a thread do not nest.
class LanePlaceScope {
 public:
  explicit LanePlaceScope(const LanePlace& place);
  ~LanePlaceScope();
  LanePlaceScope(const LanePlaceScope&) = delete;
  LanePlaceScope& operator=(const LanePlaceScope&) = delete;
};

// Null outside a step: nothing is carried.
const LanePlace* current_lane();

// Validation: while it lives, the samples of a batch that a forward on this thread is given follow each
// other, and a block that carries state in training reads them on, the first from zeros. Scopes on a thread
// do not nest.
class SamplesInOrderScope {
 public:
  SamplesInOrderScope();
  ~SamplesInOrderScope();
  SamplesInOrderScope(const SamplesInOrderScope&) = delete;
  SamplesInOrderScope& operator=(const SamplesInOrderScope&) = delete;
};
bool samples_are_in_order();

}  // namespace distbelief::model
