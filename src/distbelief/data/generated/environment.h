#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "distbelief/base/random.h"
#include "distbelief/data/generated/generated_source.h"

// Small environments for reinforcement learning. They are pure: a step is a function of state and action, and
// all randomness is in the first state.
namespace distbelief::data {

inline constexpr std::size_t kObserved = 4;
struct EnvironmentState {
  std::array<float, kObserved> values{};  // all that the agent observes
  float steps = 0;                        // since the episode began
};

class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::int64_t actions() const = 0;
  virtual std::int64_t most_steps() const = 0;  // length limit of an episode
  virtual EnvironmentState first(SplitMix64& random) const = 0;
  struct Outcome {
    float reward = 0;
    bool ended = false;  // by a terminal state, not by most_steps()
  };
  virtual Outcome step(EnvironmentState& state, std::int64_t action) const = 0;
};

// "cartpole": balance a pole on a cart by pushing it left or right (Barto, Sutton and Anderson, 1983); reward
// 1 per step, at most 500 steps. "grid_world": reach a goal on a 7 x 7 grid in four directions; reward -0.02
// per step and 1 at the goal, at most 40 steps. Null for another name.
std::unique_ptr<Environment> make_environment(const std::string& name);

// First states as samples: one per test episode, and one per batch place to start training episodes. The
// classes are the actions; targets are unused.
class FirstStates : public GeneratedSource {
 public:
  FirstStates(Part part, const std::string& environment, std::int64_t samples);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  std::unique_ptr<Environment> environment_;
};

}  // namespace distbelief::data
