#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The order in which a worker of a pipeline runs forward and backward of its stages. Pure: every place
// computes its list from the same numbers, and the lists of all places fit together. Any thread.
namespace distbelief::mesh {

enum class PipelineSchedule {
  kGpipe,                  // all forwards, then all backwards: keeps the activations of every lane
  kOneForwardOneBackward,  // backward as early as possible: as fast, keeps at most pipeline - place lanes
  kInterleaved,            // several stages per place in turn: a smaller bubble, more messages
};
std::string_view to_string(PipelineSchedule schedule);  // "gpipe", "1f1b", "interleaved"
// Throws Error(kBadInput) with the nearest name.
PipelineSchedule parse_pipeline_schedule(const std::string& name);

// A network is cut into pipeline x chunks stages; stage s lives on place s % pipeline.
struct PipelineShape {
  int pipeline = 1;        // places
  int chunks = 1;          // stages per place; above 1 only with kInterleaved
  std::int64_t lanes = 1;  // lanes of this copy in one step
  int stages() const { return pipeline * chunks; }
  int place_of_stage(int stage) const { return stage % pipeline; }
};

struct PipelineAction {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  int stage = 0;
  std::int64_t lane = 0;  // counted from 0 in this copy
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// Throws Error(kBadInput), with values that work, for a shape without a schedule: several chunks without
// kInterleaved, or kInterleaved with lanes that are no multiple of the pipeline.
void require_schedulable(PipelineSchedule schedule, const PipelineShape& shape);

// The actions of one place in a step, in order. Each lane goes once forward and once backward through each
// stage of the place. Each stage sees the lanes in ascending order in both directions, so gradients are added
// in one order under every schedule. No deadlock: if forward waits for the previous stage, backward for the
// next one, and sends are buffered, no place waits forever. A place receives messages from another in the
// order in which they are sent, activations and gradients each on their own. Throws as require_schedulable
// does.
std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, const PipelineShape& shape,
                                             int place);

// The largest number of lanes whose activations a stage keeps at once.
int most_alive(std::span<const PipelineAction> actions, int stage);

}  // namespace distbelief::mesh
