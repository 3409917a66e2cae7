#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "distbelief/base/random.h"
#include "distbelief/data/generated/generated_source.h"

// Small worlds to act in. Pure: a step is a function of state and action, all randomness is in the first
// state.
namespace distbelief::data {

inline constexpr std::size_t kObserved = 4;
struct EnvironmentState {
  std::array<float, kObserved> values{};  // all that can be seen
  float steps = 0;                        // since the episode began
};

class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::int64_t actions() const = 0;
  virtual std::int64_t most_steps() const = 0;  // of an episode, which then ends by itself
  virtual EnvironmentState first(SplitMix64& random) const = 0;
  struct Outcome {
    float reward = 0;
    bool ended = false;  // for good; not because of most_steps()
  };
  virtual Outcome step(EnvironmentState& state, std::int64_t action) const = 0;
};

// "cartpole": a pole on a cart, balanced by pushing left or right (Barto, Sutton and Anderson, 1983; 500
// steps at most, a reward of 1 for each). "grid_world": 7 x 7 fields, four directions, a goal somewhere;
// -0.02 a step, 1 at the goal, 40 steps at most. Null for another name.
std::unique_ptr<Environment> make_environment(const std::string& name);

// First states as samples: one for every episode to be tested, and for every place of a batch to begin with.
// The classes are the actions; targets are not used.
class FirstStates : public GeneratedSource {
 public:
  FirstStates(Part part, const std::string& environment, std::int64_t samples);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  std::unique_ptr<Environment> environment_;
};

}  // namespace distbelief::data
