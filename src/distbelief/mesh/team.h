#pragma once

#include "distbelief/compute/buffers.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/mesh/sharing.h"
#include "distbelief/model/lane_place.h"
#include "distbelief/model/random.h"
#include "distbelief/report/phases.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::mesh {

// Values that every lane hands to all workers besides its gradients; the workers see the mean over lanes.
struct LaneNotes {
  float loss = 0;       // the lane's part of the global loss
  float save = 0;       // a worker asks for a checkpoint
  float snapshot = 0;   // ... a snapshot
  float stop = 0;       // ... to stop
  float pause = 0;      // ... to pause
  float hand_over = 0;  // ... to let the next generation take over
  float lanes = 0;      // ... to move lanes
};
inline constexpr std::size_t kNoteFloats = sizeof(LaneNotes) / sizeof(float);

// The result of a step, the same on every worker.
struct StepOutcome {
  double loss = 0;  // of the global batch
  bool save = false;
  bool snapshot = false;
  bool stop = false;
  bool pause = false;
  bool hand_over = false;
  bool lanes = false;
};
// Converts the mean of the notes over `filled_lanes` lanes that had samples.
StepOutcome outcome_of(const LaneNotes& mean, std::int64_t filled_lanes);

// The samples of a step, and the lanes that have some.
struct StepSize {
  std::int64_t samples = 0;
  std::int64_t filled_lanes = 0;
};
StepSize size_of(const StepPlan& plan);

// The random seed of a lane in a step.
std::uint64_t lane_seed(std::uint64_t seed, std::int64_t step, std::int64_t lane);

// RAII scope for a lane's forward on its thread: sets the lane's randomness and its place in the step.
class LaneContext {
 public:
  LaneContext(std::uint64_t seed, const StepPlan& plan, std::int64_t lane);

 private:
  model::GeneratorScope randomness_;
  model::LanePlaceScope place_;
};

// Floats that each lane hands to all workers: the network's buffers and the notes.
std::size_t lane_values(const torch::nn::Module& network);

// One worker's part in every step. All workers call the same functions in the same order.
class Team {
 public:
  virtual ~Team() = default;
  // Runs one step. `wishes` are this worker's requests.
  virtual StepOutcome step(const StepPlan& plan, const LaneNotes& wishes) = 0;
  // Call after parameters were written from outside: workers refresh their copies.
  virtual void share_changed() = 0;
  // Scores the network on all samples, each once.
  virtual tasks::Evaluation evaluate(const tasks::ReadChunk& read, std::uint64_t samples) = 0;
  virtual report::PhaseClock& clock() = 0;  // the worker's main thread's clock
  // Running statistics of a stage on this worker, as seen by one of its threads.
  virtual compute::BufferSet& buffers(int stage, int thread) = 0;
};

}  // namespace distbelief::mesh
