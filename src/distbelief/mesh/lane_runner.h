#pragma once

#include <functional>
#include <memory>

#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/mesh/lane_gather.h"
#include "distbelief/mesh/sharing.h"
#include "distbelief/mesh/team.h"
#include "distbelief/report/phases.h"
#include "distbelief/report/trace.h"
#include "distbelief/tasks/task.h"

namespace distbelief::mesh {

// Runs the lanes of one carrier on one thread, step by step: data, forward, backward, exchange. It has its
// own network, whose parameters lie in the shared arena.
class LaneRunner {
 public:
  struct Options {
    std::shared_ptr<model::Network> network;
    const compute::Layout* layout = nullptr;
    float* arena = nullptr;
    // Loads parameters on use into an arena of its own; may be null.
    std::unique_ptr<LaneGather> gather{};
    const tasks::Task* task = nullptr;
    tasks::RowLink* rows = nullptr;  // receives gradients of rows of the task's tables; may be null
    Sharing* sharing = nullptr;
    std::function<const data::Batch&()> next_batch;
    // For fault injection: factor on the time of a lane; may be empty.
    std::function<double()> slowness;
    std::function<void()> in_backward;  // called at the first gradient of each lane; may be empty
    std::vector<std::int64_t> lanes{};  // in the order of execution
    std::uint64_t seed = 0;
    report::Trace* trace = nullptr;
    int thread = 0;
  };
  explicit LaneRunner(Options options);

  // Runs one step; `wishes` are this worker's requests. Returns the same outcome on every worker.
  StepOutcome step(const StepPlan& plan, const LaneNotes& wishes);

  report::PhaseClock& clock() { return clock_; }
  model::Network& network() { return *options_.network; }
  compute::BufferSet& buffers() { return buffers_; }
  LaneGather* gather() { return options_.gather.get(); }

 private:
  void dawdle() const;
  void run_lane(std::int64_t lane, const StepPlan& plan, const LaneNotes& wishes, double items);
  void run_backward(const tasks::TensorBatch& tensors, LaneNotes& notes, double items);
  void traced(const char* name, std::chrono::steady_clock::time_point begin,
              std::chrono::steady_clock::time_point end);

  Options options_;
  compute::Replica replica_;
  compute::BufferSet buffers_;
  tasks::RowGradients row_gradients_;
  std::vector<float> step_buffers_;       // buffers at the start of every lane
  bool in_backward_ = false;              // this lane has had a gradient
  std::vector<std::vector<bool>> moved_;  // per backward of the task, per parameter
  std::size_t backward_ = 0;              // index of the running backward
  compute::Replica::GradientSink sink_;
  compute::Replica::GradientPlace place_;
  report::PhaseClock clock_;
  std::chrono::nanoseconds lane_time_{};  // duration of the last lane without injected delay
};

}  // namespace distbelief::mesh
