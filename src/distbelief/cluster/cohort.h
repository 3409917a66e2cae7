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

// A cold disk loads the libraries in tens of seconds, however impatient workers are with each other.
inline constexpr std::chrono::seconds kShortestStart{60};
// Between two looks: who looks did not run meanwhile, so that silence says nothing.
inline constexpr std::chrono::milliseconds kOwnAbsence{1000};

// A worker in `status`.
nlohmann::json shown(int rank, const comm::WorkerReport& report);

// Workers that were started together, and what they said last. Not thread-safe.
class Cohort {
 public:
  using Clock = std::chrono::steady_clock;
  Cohort(int id, Placement placement, int threads, std::unique_ptr<Child> child);
  ~Cohort();

  int id() const { return id_; }
  int workers() const { return placement_.workers; }
  const Placement& placement() const { return placement_; }
  int threads() const { return threads_; }  // of each, when they were started
  Clock::time_point since() const { return since_; }
  Child& child() { return *child_; }
  const std::map<int, comm::WorkerReport>& reports() const { return reports_; }

  void hear(const comm::WorkerReport& report, Clock::time_point now);
  void lose(int rank, Clock::time_point now);         // rank -1: not known
  void part_with(int rank) { parted_.insert(rank); }  // it has hung up
  // A host that does not answer any more: its workers are not waited for.
  void give_up(const std::string& host, const std::string& why, Clock::time_point now);
  void give_up(int rank, const std::string& why, Clock::time_point now);  // a worker that hangs

  bool is_ready() const;         // all workers have built everything and wait
  std::string late() const;      // who is not ready: "worker 0 (starting), worker 2 on b (not heard of)"
  bool has_handed_over() const;  // the first worker said so
  bool has_ended_well() const;   // it said how training ended: what it did is on the disk
  bool is_complete() const;      // it said that all steps were done, or a stopping rule took effect
  bool has_forgotten(const std::string& host) const;  // the host keeps nothing of the run
  bool is_broken() const { return lost_at_.has_value(); }
  bool has_said_why() const;  // one of them could still report its failure: then they end by themselves
  Clock::time_point lost_at() const { return *lost_at_; }  // of one that is broken
  std::int64_t first_step() const;                         // where it began; -1: it has not
  std::int64_t step() const;                               // steps done by the one that is furthest; -1: none
  std::int64_t snapshot_step() const;                      // of the newest snapshot
  std::int64_t checkpoint_step() const;

  // Hosts all of whose workers were there and have been silent for so long.
  std::vector<std::string> silent_hosts(Clock::time_point now, Clock::duration silence) const;
  // The worker that has shown neither a new step nor a new phase for so long while it trains, or nothing at
  // all in any state, if one has: of those one that is not heard of, else one that is not waiting for others.
  std::optional<int> stuck(Clock::time_point now, Clock::duration deadline) const;
  // How long nothing was heard of a worker; of one that never was: 0.
  Clock::duration unheard(int rank, Clock::time_point now) const;
  // How long a worker may say nothing at all.
  struct Patience {
    Clock::duration silence;     // of one that was heard of
    Clock::duration first_word;  // of one that was not, since it was started
  };
  struct Silence {
    int rank = 0;
    Clock::duration since{};
  };
  // The first worker that has said nothing for longer, if one has.
  std::optional<Silence> silent(Clock::time_point now, const Patience& patience) const;
  // We ourselves did not get to run: nobody is to blame for silence in that time.
  void excuse(Clock::duration absence, Clock::time_point now);
  // A worker there was told to go, and not just by a launcher that cleans up.
  bool is_leaving(const std::string& host, Clock::time_point now) const;

  void kill_workers() const;      // those of this machine that were heard of, at once
  void kill_all();                // the launcher with all that it has started on this machine, at once
  bool workers_are_gone() const;  // as far as can be known
  Loss loss() const;              // after the child has ended, or without its exit code

 private:
  struct Times {
    Clock::time_point heard;
    Clock::time_point moved;                     // when step, phase or state were last new
    std::optional<Clock::time_point> leaving{};  // since it says so
  };
  int id_;
  Placement placement_;
  int threads_;
  std::unique_ptr<Child> child_;
  Clock::time_point since_ = Clock::now();
  std::map<int, comm::WorkerReport> reports_;  // by rank
  std::map<int, Times> times_;                 // by rank
  std::map<int, int> handles_;                 // pidfds by rank, of workers on this machine
  std::set<int> parted_;                       // ranks that have hung up or are not waited for
  std::string lost_host_;                      // the first that was given up
  std::string why_;                            // it, or a worker, was given up
  int lost_rank_ = -1;                         // the first; -1: none, or not known
  std::optional<Clock::time_point> lost_at_;
};

}  // namespace distbelief::cluster
