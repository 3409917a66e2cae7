#pragma once

#include <cstdint>
#include <span>

namespace distbelief::mesh {

struct StepPlan {
  std::int64_t step = 0;  // counted from 0 over the whole run
  double lr = 0;
  std::span<const std::int64_t> lane_samples;  // of every lane of the job; 0: an empty lane
  bool fresh = false;                          // what lanes carry from step to step begins anew
};

// How the workers of a world share one step: the seam between the training loop and a strategy. Every
// carrier has its own object and calls, in this order:
//   begin_step; for each of its lanes: begin_lane, (forward), lane_buffers, (backward: gradient for
//   each parameter that has one), end_lane; end_step.
// A gradient is the lane's part of the global one: already divided by the global batch. After
// end_step() the parameters hold their new values on all carriers. Blocks; throws Error.
class Sharing {
 public:
  virtual ~Sharing() = default;
  virtual void begin_step(const StepPlan& plan) = 0;
  virtual void begin_lane(std::int64_t lane) = 0;
  // Where this lane's buffers (running statistics) go, after forward.
  virtual std::span<float> lane_buffers() = 0;
  // Where the current lane's gradient may be written before it is given; null: it is copied from wherever it
  // is.
  virtual float* gradient_place(int parameter) = 0;
  virtual void gradient(int parameter, const float* values) = 0;
  virtual void end_lane() = 0;
  virtual void end_step() = 0;
  // The mean of the lanes' buffers of the step that ended, the same on all carriers.
  virtual std::span<const float> mean_buffers() const = 0;
};

}  // namespace distbelief::mesh
