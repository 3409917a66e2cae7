#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "distbelief/mesh/balancer.h"
#include "distbelief/replica/replica.h"
#include "distbelief/run/recorder.h"
#include "distbelief/train/control.h"

namespace distbelief::train {

struct LaneMovesOptions {
  bool rebalances = true;             // lanes go from slow workers to fast ones by themselves
  std::string state_dir{};            // of the optimizer's state, for messages
  run::Recorder* recorder = nullptr;  // of the first worker; null for others; borrowed
};

// Says between steps which worker carries which lanes: finds stragglers, moves lanes from slow workers to
// fast ones, and follows orders to rest workers or to change threads. By all workers together.
class LaneMoves {
 public:
  LaneMoves(replica::Replica& replica, Control& control, LaneMovesOptions options);

  // Whether this worker has an order that all are to follow. Only the speaker's wish counts: workers get
  // their orders at different times.
  bool has_order() const;
  // `busy_seconds`: of this worker's last step, without waiting for others.
  void after_step(double busy_seconds, const run::RunProgress& progress);
  void follow_order(const run::RunProgress& progress);

 private:
  void watch();
  void show_straggler(const run::RunProgress& progress);
  run::LaneOrder shared_order();
  bool carry(const std::vector<std::int64_t>& lanes, std::int64_t threads, const run::RunProgress& progress);
  void event(const std::string& kind, nlohmann::json details) const;

  replica::Replica& replica_;
  Control& control_;
  LaneMovesOptions options_;
  std::unique_ptr<mesh::Balancer> balancer_;  // of several workers; null: lanes stay where they are
  std::int64_t order_ = 0;                    // the last that was followed
  int named_straggler_ = -1;                  // the worker that was last reported as slow
};

}  // namespace distbelief::train
