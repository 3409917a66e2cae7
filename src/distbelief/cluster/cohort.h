#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "distbelief/cluster/child.h"
#include "distbelief/cluster/recovery.h"
#include "distbelief/comm/rpc/control.h"

namespace distbelief::cluster {

// Workers that were started together, and what they said last. Not thread-safe.
class Cohort {
 public:
  using Clock = std::chrono::steady_clock;
  Cohort(int id, int workers, std::unique_ptr<Child> child);
  ~Cohort();

  int id() const { return id_; }
  int workers() const { return workers_; }
  Child& child() { return *child_; }
  const std::map<int, comm::WorkerReport>& reports() const { return reports_; }

  void hear(const comm::WorkerReport& report);
  void lose(int rank, Clock::time_point now);  // rank -1: not known

  bool is_ready() const;         // all workers have built everything and wait
  bool has_handed_over() const;  // the first worker said so
  bool is_broken() const { return lost_at_.has_value(); }
  bool has_said_why() const;  // one of them could still report its failure: then they end by themselves
  Clock::time_point lost_at() const { return *lost_at_; }  // of one that is broken
  std::int64_t first_step() const;                         // where it began; -1: it has not
  std::int64_t step() const;                               // steps done by the one that is furthest; -1: none
  std::int64_t snapshot_step() const;                      // of the newest snapshot
  std::int64_t checkpoint_step() const;

  void kill_workers() const;      // those of this host, at once
  bool workers_are_gone() const;  // those of this host
  Loss loss() const;              // after the child has ended, or without its exit code

 private:
  int id_;
  int workers_;
  std::unique_ptr<Child> child_;
  std::map<int, comm::WorkerReport> reports_;  // by rank
  std::map<int, int> handles_;                 // pidfds by rank
  int lost_rank_ = -1;                         // the first; -1: none, or not known
  std::optional<Clock::time_point> lost_at_;
};

}  // namespace distbelief::cluster
