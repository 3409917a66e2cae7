#pragma once

#include <functional>
#include <memory>

#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/data/batch.h"
#include "distbelief/report/phases.h"
#include "distbelief/report/trace.h"
#include "distbelief/strategy/sharing.h"
#include "distbelief/train/task.h"

namespace distbelief::train {

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

// Runs the lanes of one carrier, step by step, on one thread: data, forward, backward, exchange. The
// network is its own; its parameters lie in the shared arena.
class LaneRunner {
 public:
  struct Options {
    std::shared_ptr<model::Network> network;
    const compute::Layout* layout = nullptr;
    float* arena = nullptr;
    const Task* task = nullptr;
    strategy::Sharing* sharing = nullptr;
    std::function<const data::Batch&()> next_batch;
    std::function<double()>
        slowness;  // for fault injection: how many times as long a lane takes; may be empty
    std::function<void()> in_backward;  // called at the first gradient of each lane; may be empty
    std::int64_t first_lane = 0;
    std::int64_t end_lane = 1;
    std::uint64_t seed = 0;
    report::Trace* trace = nullptr;
    int thread = 0;
  };
  explicit LaneRunner(Options options);

  struct Outcome {
    double loss = 0;  // over the global batch
    bool save = false;
    bool snapshot = false;
    bool stop = false;
    bool pause = false;
    bool hand_over = false;
    bool lanes = false;
  };
  // One step; `wishes` are what this worker asks of all. The same outcome on every worker.
  Outcome step(const strategy::StepPlan& plan, const LaneNotes& wishes);

  static std::size_t lane_values(const model::Network& network);

  report::PhaseClock& clock() { return clock_; }
  model::Network& network() { return *options_.network; }
  compute::BufferSet& buffers() { return buffers_; }

 private:
  void dawdle() const;
  void run_lane(std::int64_t lane, const strategy::StepPlan& plan, const LaneNotes& wishes, double items);
  void traced(const char* name, std::chrono::steady_clock::time_point begin,
              std::chrono::steady_clock::time_point end);

  Options options_;
  compute::Replica replica_;
  compute::BufferSet buffers_;
  std::vector<float> step_buffers_;  // what every lane starts from
  bool in_backward_ = false;         // this lane has had a gradient
  compute::Replica::GradientSink sink_;
  report::PhaseClock clock_;
  std::chrono::nanoseconds lane_time_{};  // of the last lane, without what was slow on purpose
};

}  // namespace distbelief::train
