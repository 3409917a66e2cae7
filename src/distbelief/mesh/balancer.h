#pragma once

#include <optional>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/mesh/rebalance.h"

namespace distbelief::mesh {

// Watches how long each worker computes, names one that is much slower than the others, and tells when the
// lanes should lie otherwise. The workers compare after a number of steps that grows with each change: one
// small exchange. A gain or a straggler must show twice in a row: a moment's disturbance moves nothing. One
// thread.
class Balancer {
 public:
  struct Options {
    std::int64_t least = 1;   // lanes that every worker that has any keeps, one for each thread
    bool moves_lanes = true;  // otherwise it only looks for a straggler
  };
  Balancer(World& world, Options options) : world_(world), options_(options) {}

  // Collective, after each step: this worker's seconds without waiting for others, and the lanes of all
  // workers. Something when they should change; the same on every worker.
  std::optional<Rebalance> after_step(double busy_seconds, const std::vector<std::int64_t>& lanes);

  // From now on lanes stay where they are. By all workers.
  void keep_lanes() { options_.moves_lanes = false; }

  // What the last comparison found, if one worker is much slower than the others. The same on every worker.
  const std::optional<Rebalance>& straggler() const { return straggler_; }

 private:
  std::vector<double> seconds_per_lane(const std::vector<std::int64_t>& lanes);
  void judge(const Rebalance& found);

  World& world_;
  Options options_;
  std::size_t window_ = 16;  // steps
  std::vector<double> busy_;
  bool seen_once_ = false;  // a gain, in the window before
  int suspect_ = -1;        // the worker that was slow in the window before
  std::optional<Rebalance> straggler_;
};

}  // namespace distbelief::mesh
