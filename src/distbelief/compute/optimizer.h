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

// A run of elements of one parameter with its gradients and state, in plain memory.
struct UpdateRange {
  float* parameters = nullptr;
  const float* gradients = nullptr;
  std::array<float*, kMaxStates> states{};
  std::size_t count = 0;
  double lr = 0;
  std::int64_t step = 1;  // updates of this parameter so far, this one included
  double trust = 1;       // layer-wise optimizers: the ratio from trust()
};

// Sums of squares over a range: of the parameters, and of the direction they are compared with.
struct Norms {
  double parameters = 0;
  double direction = 0;
};

// An update rule over flat slices. Stateless: the caller owns the state arrays, which start as zeros, so one
// object serves all threads.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<std::string> state_names() const = 0;
  virtual void update(const UpdateRange& range) const = 0;
};

// A rule that scales each parameter by norms over the whole parameter. measure() runs over every range of the
// parameter before update() runs on any; trust() turns the sums into the ratio.
class LayerwiseOptimizer : public Optimizer {
 public:
  virtual Norms measure(const UpdateRange& range) const = 0;
  virtual double trust(const Norms& whole) const = 0;
};

// By name: sgd, adam, adamw, adagrad, lars, lamb and lbfgs. For lbfgs the coordinator has the update rule
// (lbfgs.h), so its optimizer only passes the gradient on. Throws Error(kBadInput) for other names.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);
std::vector<std::string> optimizer_names();

struct OptimizerKind {
  std::string name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig& config);
};
// For main(): not thread-safe. Throws Error(kBadInput) when the name is taken.
void register_optimizer(OptimizerKind kind);
// Throws Error(kBadInput) for an optimizer that needs a coordinator.
void require_own_rule(const OptimizerConfig& config);
// Internal name for make_optimizer: no update; the gradient replaces the parameters in the arena.
inline constexpr const char* kKeepGradient = "keep gradient";
// Internal name: no update; the state array collects the gradient, which another process applies.
inline constexpr const char* kCollectGradient = "collect gradient";

}  // namespace distbelief::compute
