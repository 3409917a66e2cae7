#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "distbelief/base/config.h"
#include "distbelief/comm/rpc/control.h"
#include "distbelief/comm/world.h"
#include "distbelief/report/progress.h"
#include "distbelief/run/fault.h"

namespace distbelief::process {

// A process of a run, from start to end.
struct WorkerOptions {
  Config config;
  std::filesystem::path run_dir;
  bool resume = false;
  std::string snapshots;  // name of the memory for snapshots; empty: none
  std::vector<run::Fault> faults;
  std::optional<comm::ControlAddress> control;  // of the supervisor, where there is one
  int cohort = 1;                               // which of its launches this worker belongs to
  // With parameter servers: which replica this is, of how many, and where the servers are, in their order.
  int replica = 0;
  int replicas = 1;
  std::vector<comm::ControlAddress> servers{};
  std::string served_job = "job";  // by which the servers know the run
  std::int64_t first_step = 0;     // that a resumed run goes on with there
  report::Progress::Options progress;
  const std::atomic<bool>* stop_requested = nullptr;
  const std::atomic<bool>* leaving = nullptr;  // set when this host is about to go; may be null
  std::string isa;
  std::function<void()> when_built;  // called once everything is in place, before the first step
};

// Joins the world, runs `body` and leaves. What it throws is shown with its rank, once per host, told to
// the other workers, and ends them all with the error's exit code. Gives body's own exit code.
int run_in_world(const World::Options& options, const std::function<int(World&)>& body);

// Trains; gives the exit code: 0, or 130 when a request stopped it. With a supervisor it builds everything,
// waits for its turn, and ends with 0 too when the turn never comes or the next generation has taken over.
int run_worker(const WorkerOptions& options);
// The same in a world that it has joined already.
int run_worker(World& world, const WorkerOptions& options);

World::Options world_options(const Config& config);

// Throws Error(kBadInput) when the job is for another number of workers.
void require_workers(const World& world, const Config& config);

// Throws Error(kBadInput) when workers disagree on something that decides the result's bits: the
// instruction set, libtorch's version. Collective.
void require_same_build(World& world, const std::string& isa);

}  // namespace distbelief::process
