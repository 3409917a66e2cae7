#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/host_watch.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/recovery.h"
#include "distbelief/cluster/run_place.h"

namespace distbelief::cluster {

struct SupervisorOptions {
  LaunchOptions launch;             // without workers, hosts and command
  int workers = 1;                  // on this machine
  std::vector<HostSlots> hosts{};   // empty: this machine alone
  std::vector<HostSlots> spares{};  // used when others are lost
  HostWatch::Options watch{};       // settings for watching the hosts
  std::chrono::milliseconds silence{4000};
  std::string address{};          // of this machine, as seen by workers on other hosts; empty: detected
  std::filesystem::path certs{};  // empty: created for the run and sent to the workers
  // The command of a worker.
  struct Worker {
    int workers = 1;
    int threads = 1;
    int cohort = 1;
    std::string control;  // the supervisor's address
  };
  std::function<std::vector<std::string>(const Worker&)> worker_command;
  // Step of the newest checkpoint on the disk, -1: none; may be empty.
  std::function<std::int64_t()> newest_checkpoint{};
  std::function<bool()> holds_snapshot{};  // whether this machine's snapshots include a whole one
  std::filesystem::path run_dir;
  RunPlace place;
  RecoveryPolicy policy;
  int min = 1, max = 1;  // number of workers, if there are enough lanes
  int lanes = 0;         // 0: a user's own program without lanes and without threads of this library
  std::function<int(int)> usable = {};  // how many of these workers the job can use; empty: all
  int threads = 1;                      // per worker, at the start
  RankGroups groups{};                  // workers that should share a host
  bool whole_batch = false;             // L-BFGS
  // How long to measure each number of workers to choose the best; empty: no measurement.
  std::optional<std::chrono::duration<double>> measure_each{};
  std::chrono::milliseconds deadline{120'000};  // for a step, and for getting ready
  bool standby = false;
  bool snapshots = true;  // keep state from which the next generation continues
  bool resume = false;    // the first generation continues from a checkpoint or snapshot
};

// The environment variable that passes certificates to a worker on another host.
inline constexpr const char* kCertificatesVariable = "DISTBELIEF_CERTIFICATES";

// Starts the workers, receives their reports, and starts the next generation when a worker is lost or another
// number is wanted, until the run has ended. Reports each event in one line on standard error and records it
// in events.jsonl. Returns the exit code: 0 done, 1 failed, 2 bad job, 130 interrupted or stopped. When it
// returns, all processes are gone, and so is everything at options.place, here and on the other hosts.
int supervise(const SupervisorOptions& options, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
