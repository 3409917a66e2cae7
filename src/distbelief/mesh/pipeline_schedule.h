#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// In which order a worker of a pipeline does forward and backward of its stages. Pure: every place computes
// its list from the same numbers, and the lists of all places fit together. Any thread.
namespace distbelief::mesh {

enum class PipelineSchedule {
  kGpipe,                  // all forwards, then all backwards: keeps the activations of every lane
  kOneForwardOneBackward,  // backward as soon as it can be: as fast, keeps pipeline - place lanes at most
  kInterleaved,            // several stages per place in turn: a smaller bubble, more messages
};
std::string_view to_string(PipelineSchedule schedule);              // "gpipe", "1f1b", "interleaved"
PipelineSchedule parse_pipeline_schedule(const std::string& name);  // throws Error(kBadInput), nearest name

// A network is cut into pipeline x chunks stages; stage s lives on place s % pipeline.
struct PipelineShape {
  int pipeline = 1;        // places
  int chunks = 1;          // stages per place; above 1 only with kInterleaved
  std::int64_t lanes = 1;  // of this replica, in one step
  int stages() const { return pipeline * chunks; }
  int place_of_stage(int stage) const { return stage % pipeline; }
};

struct PipelineAction {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  int stage = 0;
  std::int64_t lane = 0;  // from 0 in this replica
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// Throws Error(kBadInput), with what would do, for a shape that the schedule has no order for: several chunks
// without kInterleaved; with it, lanes that are no multiple of the pipeline.
void require_schedulable(PipelineSchedule schedule, const PipelineShape& shape);

// What one place does in a step, in order. Each lane goes once forward and once backward through each stage
// of the place, and each stage sees the lanes in ascending order in both directions: gradients are added in
// one order, whatever the schedule. When forward waits for the stage before and backward for the stage after,
// and sends are buffered, no place waits for ever; a place wants what another sends it in the order in which
// it is sent, activations and gradients taken by themselves. Throws as require_schedulable does.
std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, const PipelineShape& shape,
                                             int place);

// For how many lanes a stage keeps activations at the same time, at most.
int most_alive(std::span<const PipelineAction> actions, int stage);

}  // namespace distbelief::mesh
