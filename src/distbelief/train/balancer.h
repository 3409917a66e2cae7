#pragma once

#include <optional>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/strategy/rebalance.h"

namespace distbelief::train {

// Watches how long each worker computes and tells when the lanes should lie otherwise. The workers compare
// after a number of steps that grows with each change, and a gain must show twice in a row: a moment's
// disturbance moves nothing. One thread.
class Balancer {
 public:
  // `least`: lanes that every worker keeps, one for each of its threads.
  Balancer(World& world, std::int64_t least) : world_(world), least_(least) {}

  // Collective, after each step: this worker's seconds without waiting for others, and the lanes of all
  // workers. Something when they should change; the same on every worker.
  std::optional<strategy::Rebalance> after_step(double busy_seconds, const std::vector<std::int64_t>& lanes);

  // What the last comparison found, if one worker was much slower than the others.
  const std::optional<strategy::Rebalance>& straggler() const { return straggler_; }

 private:
  std::vector<double> seconds_per_lane(const std::vector<std::int64_t>& lanes);

  World& world_;
  std::int64_t least_;
  std::size_t window_ = 16;  // steps
  std::vector<double> busy_;
  bool seen_once_ = false;  // a gain, in the window before
  std::optional<strategy::Rebalance> straggler_;
};

}  // namespace distbelief::train
