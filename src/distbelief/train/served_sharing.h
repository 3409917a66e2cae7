#pragma once

#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/strategy/allreduce_group.h"
#include "distbelief/train/parameter_link.h"

namespace distbelief::train {

// How a replica's worker shares a step when parameters live on servers: the replica's workers add up their
// gradients as ever, the first of them hands the sum to the servers and brings what comes back. All are on
// one host; one carrier per worker.
class ServedSharing final : public strategy::Sharing {
 public:
  struct Options {
    strategy::AllreduceGroup* group = nullptr;  // whose rule collects gradients
    World* world = nullptr;
    ParameterLink* link = nullptr;
    std::size_t lane_values = 0;
  };
  explicit ServedSharing(const Options& options);

  void begin_step(const strategy::StepPlan& plan) override;
  void begin_lane(std::int64_t lane) override { inner().begin_lane(lane); }
  std::span<float> lane_buffers() override { return inner().lane_buffers(); }
  void gradient(int parameter, const float* values) override { inner().gradient(parameter, values); }
  void end_lane() override { inner().end_lane(); }
  void end_step() override;
  std::span<const float> mean_buffers() const override { return mean_; }

 private:
  strategy::AllreduceSharing& inner() const { return options_.group->sharing(0); }
  void exchange();
  void meet();
  double loss() const;  // of this step
  std::vector<std::int32_t> forget_untouched();

  Options options_;
  strategy::StepPlan plan_;
  std::vector<std::int64_t> counts_;  // of updates, per parameter, before this step
  std::vector<float> mean_;
};

}  // namespace distbelief::train
