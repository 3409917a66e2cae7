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
  std::vector<HostSlots> spares{};  // for when others are lost
  HostWatch::Options watch{};       // of the hosts
  std::chrono::milliseconds silence{4000};
  std::string address{};          // of this machine, for workers on other hosts; empty: found out
  std::filesystem::path certs{};  // empty: made for the run, and sent to the workers
  // The command of a worker.
  struct Worker {
    int workers = 1;
    int threads = 1;
    int cohort = 1;
    std::string control;  // where the supervisor listens
  };
  std::function<std::vector<std::string>(const Worker&)> worker_command;
  std::function<std::int64_t()>
      newest_checkpoint{};                 // step of the newest on the disk, -1: none; may be empty
  std::function<bool()> holds_snapshot{};  // whether the snapshots of this machine have a whole one
  std::filesystem::path run_dir;
  RunPlace place;
  RecoveryPolicy policy;
  int min = 1, max = 1;                 // workers, lanes permitting
  int lanes = 0;                        // 0: a program that has none, nor threads of ours
  std::function<int(int)> usable = {};  // how many of so many workers the job has work for; empty: all
  int threads = 1;                      // of each worker, at first
  RankGroups groups{};                  // workers that should share a host
  bool whole_batch = false;             // L-BFGS
  // How long each number of workers is measured, to find out how many pay; nothing: it is not to be found
  // out.
  std::optional<std::chrono::duration<double>> measure_each{};
  std::chrono::milliseconds deadline{120'000};  // for a step, and for getting ready
  bool standby = false;
  bool snapshots = true;  // what the next generation goes on from
  bool resume = false;    // the first generation goes on from a checkpoint or snapshot
};

// The environment variable that brings a worker on another host its certificates.
inline constexpr const char* kCertificatesVariable = "DISTBELIEF_CERTIFICATES";

// Starts the workers, listens to them, and starts the next generation of them when one is lost or another
// number is wanted, until the run has ended. What happened is said in one line each on standard error and
// recorded in events.jsonl. Gives the exit code: 0 done, 1 failed, 2 bad job, 130 interrupted or stopped. All
// processes are gone when it returns, and everything at options.place, here and on the other hosts.
int supervise(const SupervisorOptions& options, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
