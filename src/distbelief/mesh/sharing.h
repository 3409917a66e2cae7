#pragma once

#include <cstdint>
#include <span>

namespace distbelief::mesh {

struct StepPlan {
  std::int64_t step = 0;  // counted from 0 over the whole run
  double lr = 0;
  std::span<const std::int64_t> lane_samples;  // samples of every lane of the job; 0: an empty lane
  bool fresh = false;                          // resets the state that lanes carry from step to step
};

// How the workers of a world share one step: the interface between the training loop and a strategy.
// Every carrier has its own object and calls, in this order:
//   begin_step; for each of its lanes: begin_lane, (forward), lane_buffers, (backward: gradient for
//   each parameter that has one), end_lane; end_step.
// A gradient is the lane's part of the global gradient, already divided by the global batch size. After
// end_step() the parameters hold their new values on all carriers. Blocks; throws Error.
class Sharing {
 public:
  virtual ~Sharing() = default;
  virtual void begin_step(const StepPlan& plan) = 0;
  virtual void begin_lane(std::int64_t lane) = 0;
  // Where to write this lane's buffers (running statistics) after forward.
  virtual std::span<float> lane_buffers() = 0;
  // Buffer into which the current lane's gradient may be written before gradient(); null: gradient() copies
  // it.
  virtual float* gradient_place(int parameter) = 0;
  virtual void gradient(int parameter, const float* values) = 0;
  virtual void end_lane() = 0;
  virtual void end_step() = 0;
  // The mean of the lanes' buffers of the last step, the same on all carriers.
  virtual std::span<const float> mean_buffers() const = 0;
};

}  // namespace distbelief::mesh
