#pragma once

#include "distbelief/compute/buffers.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/mesh/sharing.h"
#include "distbelief/model/lane_place.h"
#include "distbelief/model/random.h"
#include "distbelief/report/phases.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::mesh {

// What every lane hands to all workers besides its gradients; they see the mean over lanes.
struct LaneNotes {
  float loss = 0;       // the lane's part of the global loss
  float save = 0;       // a worker asks for a checkpoint
  float snapshot = 0;   // ... for a snapshot
  float stop = 0;       // ... to stop
  float pause = 0;      // ... to pause
  float hand_over = 0;  // ... to let the next generation take over
  float lanes = 0;      // ... to carry the lanes otherwise
};
inline constexpr std::size_t kNoteFloats = sizeof(LaneNotes) / sizeof(float);

// What all workers know after a step, the same on each.
struct StepOutcome {
  double loss = 0;  // over the global batch
  bool save = false;
  bool snapshot = false;
  bool stop = false;
  bool pause = false;
  bool hand_over = false;
  bool lanes = false;
};
// From the mean of the notes of so many lanes that had samples.
StepOutcome outcome_of(const LaneNotes& mean, std::int64_t filled_lanes);

// How many samples a step has, and how many lanes have some.
struct StepSize {
  std::int64_t samples = 0;
  std::int64_t filled_lanes = 0;
};
StepSize size_of(const StepPlan& plan);

// What a lane of a step draws its randomness from.
std::uint64_t lane_seed(std::uint64_t seed, std::int64_t step, std::int64_t lane);

// What a lane's forward runs in, on its thread: its randomness and its place in the step.
class LaneContext {
 public:
  LaneContext(std::uint64_t seed, const StepPlan& plan, std::int64_t lane);

 private:
  model::GeneratorScope randomness_;
  model::LanePlaceScope place_;
};

// Floats that each lane hands to all: a network's buffers and the notes.
std::size_t lane_values(const torch::nn::Module& network);

// One worker's part in every step. All workers call the same functions in the same order.
class Team {
 public:
  virtual ~Team() = default;
  // `wishes` are what this worker asks of all.
  virtual StepOutcome step(const StepPlan& plan, const LaneNotes& wishes) = 0;
  // Somebody has written new parameters: copies of them that workers hold take over the new values.
  virtual void share_changed() = 0;
  // Scores the network on all samples, each once.
  virtual tasks::Evaluation evaluate(const tasks::ReadChunk& read, std::uint64_t samples) = 0;
  virtual report::PhaseClock& clock() = 0;  // of the worker's main thread
  // Running statistics of a stage that this worker holds, as one of its threads sees them.
  virtual compute::BufferSet& buffers(int stage, int thread) = 0;
};

}  // namespace distbelief::mesh
