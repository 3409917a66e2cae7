#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/config.h"

namespace distbelief::compute {

inline constexpr int kMaxStates = 2;

// A run of elements of one parameter with everything that belongs to it, in plain memory.
struct UpdateRange {
  float* parameters = nullptr;
  const float* gradients = nullptr;
  std::array<float*, kMaxStates> states{};
  std::size_t count = 0;
  double lr = 0;
  std::int64_t step = 1;  // how many updates this parameter has had, this one included
  double trust = 1;       // layer-wise optimizers: the ratio from norms()
};

// Sums of squares over a range: of the parameters, and of what they are held against.
struct Norms {
  double parameters = 0;
  double direction = 0;
};

// An update rule over flat slices. Stateless: the state arrays belong to the caller, zeroed at first,
// so one object serves all threads.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<std::string> state_names() const = 0;
  virtual void update(const UpdateRange& range) const = 0;
};

// A rule that scales each parameter by norms over all of it. measure() runs over every range of the
// parameter before update() runs on any, and trust() turns the sums into the ratio.
class LayerwiseOptimizer : public Optimizer {
 public:
  virtual Norms measure(const UpdateRange& range) const = 0;
  virtual double trust(const Norms& whole) const = 0;
};

// By name: sgd, adam, adamw, adagrad, lars, lamb; and lbfgs, which updates nothing here: its coordinator has
// the rule (lbfgs.h) and wants the gradient. Throws Error(kBadInput) for another.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);
const std::vector<std::string>& optimizer_names();
// Throws Error(kBadInput) for one that needs a coordinator.
void require_own_rule(const OptimizerConfig& config);
// A name for make_optimizer alone: no update, the gradient takes the parameters' place in the arena.
inline constexpr const char* kKeepGradient = "keep gradient";
// Another: no update, the gradient is collected in the one state array, for whoever applies it elsewhere.
inline constexpr const char* kCollectGradient = "collect gradient";

}  // namespace distbelief::compute
