#pragma once

#include <optional>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/mesh/rebalance.h"

namespace distbelief::mesh {

// Compares how long the workers compute, names a worker that is much slower than the others, and proposes a
// new distribution of lanes. The workers compare after a number of steps that grows with each change, with
// one small exchange. A gain or a straggler counts only when two comparisons in a row show it, so that a
// short disturbance moves no lanes. Used by one thread.
class Balancer {
 public:
  struct Options {
    std::int64_t least = 1;   // lanes that a worker keeps if it has any: one per thread
    bool moves_lanes = true;  // false: only looks for a straggler
  };
  Balancer(World& world, Options options) : world_(world), options_(options) {}

  // Collective, after each step. Takes this worker's busy seconds (without waits for others) and the lanes of
  // all workers. Returns a new distribution when lanes should move, the same on every worker.
  std::optional<Rebalance> after_step(double busy_seconds, const std::vector<std::int64_t>& lanes);

  // Stops moving lanes. All workers call it.
  void keep_lanes() { options_.moves_lanes = false; }

  // The worker that the last comparison found much slower than the others, if any. The same on every worker.
  const std::optional<Rebalance>& straggler() const { return straggler_; }

 private:
  std::vector<double> seconds_per_lane(const std::vector<std::int64_t>& lanes);
  void judge(const Rebalance& found);

  World& world_;
  Options options_;
  std::size_t window_ = 16;  // steps
  std::vector<double> busy_;
  bool seen_once_ = false;  // the previous window showed a gain
  int suspect_ = -1;        // the worker that was slow in the previous window
  std::optional<Rebalance> straggler_;
};

}  // namespace distbelief::mesh
