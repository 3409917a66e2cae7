#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/recovery.h"
#include "distbelief/cluster/run_place.h"

namespace distbelief::cluster {

struct SupervisorOptions {
  LaunchOptions launch;  // its workers, and without its command
  // The command of a worker in a launch of so many.
  std::function<std::vector<std::string>(int workers, int cohort)> worker_command;
  std::filesystem::path run_dir;
  RunPlace place;
  RecoveryPolicy policy;
  int min = 1, max = 1;  // workers that scale may ask for
  bool standby = false;
  bool snapshots = true;  // what the next generation goes on from
  bool resume = false;    // the first generation goes on from a checkpoint or snapshot
};

// Starts the workers, listens to them, and starts the next generation of them when one is lost or another
// number is wanted, until the run has ended. What happened is said in one line each on standard error and
// recorded in events.jsonl. Gives the exit code: 0 done, 1 failed, 2 bad job, 130 interrupted or stopped. All
// processes are gone when it returns, and everything at options.place.
int supervise(const SupervisorOptions& options, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
