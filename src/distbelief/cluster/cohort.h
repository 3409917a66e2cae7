#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "distbelief/cluster/child.h"
#include "distbelief/cluster/hosts.h"
#include "distbelief/cluster/recovery.h"
#include "distbelief/comm/rpc/control.h"

namespace distbelief::cluster {

// Loading the libraries from a cold disk takes tens of seconds, even if workers have short deadlines.
inline constexpr std::chrono::seconds kShortestStart{60};
// A longer time between two polls means that the supervisor itself did not run, so silence proves nothing.
inline constexpr std::chrono::milliseconds kOwnAbsence{1000};

// A worker in the output of `status`.
nlohmann::json shown(int rank, const comm::WorkerReport& report);

// Workers that were started together, with their last reports. Not thread-safe.
class Cohort {
 public:
  using Clock = std::chrono::steady_clock;
  Cohort(int id, Placement placement, int threads, std::unique_ptr<Child> child);
  ~Cohort();

  int id() const { return id_; }
  int workers() const { return placement_.workers; }
  const Placement& placement() const { return placement_; }
  int threads() const { return threads_; }  // per worker at the start
  Clock::time_point since() const { return since_; }
  Child& child() { return *child_; }
  const std::map<int, comm::WorkerReport>& reports() const { return reports_; }

  void hear(const comm::WorkerReport& report, Clock::time_point now);
  void lose(int rank, Clock::time_point now);         // rank -1: unknown
  void part_with(int rank) { parted_.insert(rank); }  // it has closed its connection
  // The host does not answer any more; stop waiting for its workers.
  void give_up(const std::string& host, const std::string& why, Clock::time_point now);
  void give_up(int rank, const std::string& why, Clock::time_point now);  // a worker that hangs

  bool is_ready() const;  // all workers are set up and wait
  // Workers that are not ready: "worker 0 (starting), worker 2 on b (not heard of)".
  std::string late() const;
  bool has_handed_over() const;  // as reported by the first worker
  bool has_ended_well() const;   // it reported how training ended: its result is on the disk
  bool is_complete() const;  // it reported that all steps were done, or that a stopping rule ended the run
  bool has_forgotten(const std::string& host) const;  // the host keeps nothing of the run
  bool is_broken() const { return lost_at_.has_value(); }
  bool has_said_why() const;  // one of them could report its failure, so all end by themselves
  Clock::time_point lost_at() const { return *lost_at_; }  // requires is_broken()
  std::int64_t first_step() const;                         // its first step; -1: not started yet
  std::int64_t step() const;                               // of the most advanced worker; -1: none
  std::int64_t snapshot_step() const;                      // of the newest snapshot
  std::int64_t checkpoint_step() const;

  // Hosts whose workers have all connected and then been silent for this long.
  std::vector<std::string> silent_hosts(Clock::time_point now, Clock::duration silence) const;
  // A worker that has shown no new step or phase for `deadline` in training, or sent no report in any state.
  // Prefers a worker without reports, then one that is not waiting for others.
  std::optional<int> stuck(Clock::time_point now, Clock::duration deadline) const;
  // Time since a worker's last report; 0 if there was none.
  Clock::duration unheard(int rank, Clock::time_point now) const;
  // The limits on a worker's silence.
  struct Patience {
    Clock::duration silence;     // after its first report
    Clock::duration first_word;  // from its start to its first report
  };
  struct Silence {
    int rank = 0;
    Clock::duration since{};
  };
  // The first worker whose silence exceeds these limits, if any.
  std::optional<Silence> silent(Clock::time_point now, const Patience& patience) const;
  // Ignores a silence in which the supervisor itself did not run.
  void excuse(Clock::duration absence, Clock::time_point now);
  // Whether a worker there was told to leave, and not just by a launcher that cleans up.
  bool is_leaving(const std::string& host, Clock::time_point now) const;

  void kill_workers() const;      // known ones on this machine, immediately
  void kill_all();                // the launcher and all its descendants on this machine, immediately
  bool workers_are_gone() const;  // as far as is known
  Loss loss() const;              // call after the child has ended; or without its exit code

 private:
  struct Times {
    Clock::time_point heard;
    Clock::time_point moved;                     // last change of step, phase or state
    std::optional<Clock::time_point> leaving{};  // since it reported that
  };
  int id_;
  Placement placement_;
  int threads_;
  std::unique_ptr<Child> child_;
  Clock::time_point since_ = Clock::now();
  std::map<int, comm::WorkerReport> reports_;  // per rank
  std::map<int, Times> times_;                 // per rank
  std::map<int, int> handles_;                 // pidfds per rank, of workers on this machine
  std::set<int> parted_;                       // ranks that have closed their connection or are given up
  std::string lost_host_;                      // the first that was given up
  std::string why_;                            // why it or a worker was given up
  int lost_rank_ = -1;                         // the first; -1: none or unknown
  std::optional<Clock::time_point> lost_at_;
};

}  // namespace distbelief::cluster
