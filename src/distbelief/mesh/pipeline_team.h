#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/compute/replica.h"
#include "distbelief/mesh/block_passes.h"
#include "distbelief/mesh/pipeline_schedule.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/mesh/stage_streams.h"
#include "distbelief/mesh/team.h"
#include "distbelief/report/trace.h"
#include "distbelief/tasks/task.h"

namespace distbelief::mesh {

// A team whose workers hold stages of the network (Huang et al., "GPipe", 2019; Narayanan et al.,
// "PipeDream", 2019, and "Efficient Large-Scale Language Model Training", 2021). A lane is a micro-batch: its
// activations go from stage to stage and its gradients back, in the order of the schedule. Every stage shares
// its lanes' gradients with the workers that hold the same stage, in the order of lanes, so the bits equal
// those of one process with the same lanes. When workers shard parameters (ZeRO-3), a stage holds those of a
// block only while the block runs. Used by one thread.
class PipelineTeam final : public Team {
 public:
  struct Options {
    World* world = nullptr;
    std::span<Stage> stages;  // stages of this worker, ascending; borrowed
    const NetworkOutline* outline = nullptr;
    Mesh mesh;
    PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
    int chunks = 1;                     // stages per worker
    bool recompute = false;             // recompute activations inside a stage for backward
    std::size_t array_bytes = 0;        // bytes of the largest array between two stages
    std::vector<std::int64_t> lanes{};  // lanes of this copy, in the order of execution
    const tasks::Task* task = nullptr;
    // Called on workers of the first and the last stage; a batch is valid until the next call.
    std::function<tasks::TensorBatch()> next_batch;
    std::function<void()> in_backward;  // called at the first gradient of each lane; may be empty
    double clip_norm = 0;
    std::uint64_t seed = 0;
    report::Trace* trace = nullptr;
  };
  explicit PipelineTeam(Options options);
  ~PipelineTeam() override;

  StepOutcome step(const StepPlan& plan, const LaneNotes& wishes) override;
  void share_changed() override;  // sends tied weights
  tasks::Evaluation evaluate(const tasks::ReadChunk& read, std::uint64_t samples) override;
  report::PhaseClock& clock() override { return clock_; }
  compute::BufferSet& buffers(int stage, int thread) override;

 private:
  // A lane between its forward and its backward at one stage.
  struct Flight {
    torch::Tensor input, target, output;
    std::vector<float> values;  // buffers after forward, and notes
  };
  struct Part;
  struct Step;

  void run_step(const StepPlan& plan, const LaneNotes& wishes);
  void forward(Part& part, Flight& flight, std::int64_t lane, const Step& step);
  void backward(Part& part, Flight flight, std::int64_t lane, const Step& step);
  Pass way_back(const Stage& stage) const;
  torch::Tensor run_blocks(Part& part, Flight& flight, std::int64_t lane, const Step& step);
  void take_batch(Part& part, Flight& flight, std::uint64_t seed);
  void finish();
  double squared_norm();
  torch::Tensor tied_weight(const Part& part);
  LaneNotes meet_notes();
  tasks::Score score(const tasks::ReadChunk& read, data::Range range);
  void traced(const char* name, const Part& part, std::int64_t lane,
              std::chrono::steady_clock::time_point begin);
  bool is_first(const Part& part) const;
  bool is_last(const Part& part) const;
  bool speaks_for_replicas() const { return place_.data == 0; }
  bool part_of_group_leads() const { return place_.tensor == 0; }

  Options options_;
  MeshPlace place_;
  PipelineShape shape_;
  std::vector<PipelineAction> actions_;
  std::unique_ptr<StageWays> ways_;
  std::vector<std::unique_ptr<Part>> parts_;
  report::PhaseClock clock_;
};

}  // namespace distbelief::mesh
