#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace distbelief::run {

// A fault to inject, for tests and demonstrations: KIND:key=value,...
//   kill         SIGKILL                     stop   SIGSTOP: alive, but silent
//   throw        an error                    slow   from then on every step takes factor times as long
//   corrupt-snapshot   flips a bit of the newest snapshot and dies
//   disk-full    checkpoints fail, for `steps` steps
//   drift        flips a bit of its host's parameters, or on one host of its own buffers
// Keys: rank (of the worker; with parameter servers counted over the workers of all replicas; 0), step (0),
// generation (1; 0: every one), point (step), factor (3), steps (1). Points: step (before it), mid-bucket
// (in backward), mid-snapshot, mid-rename, mid-restart.
struct Fault {
  std::string kind;
  int rank = 0;
  std::int64_t step = 0;
  int generation = 1;
  std::string point = "step";
  double factor = 3;
  std::int64_t steps = 1;
};

// Throws Error(kBadInput) that names the mistake and the valid values.
Fault parse_fault(const std::string& text);
// The same, but also refuses a fault of a worker that the run never has: it starts with `first` workers and
// may grow to `most`.
struct WorkerCounts {
  std::int64_t first = 1;
  std::int64_t most = 1;
};
Fault parse_fault(const std::string& text, const WorkerCounts& workers);

// The faults of one worker. The training thread calls pass(); any thread may call disk_is_full().
class Faults {
 public:
  Faults(std::vector<Fault> faults, int rank, int generation);

  // Dies, stops or throws if a fault is set for this point and step.
  void pass(std::string_view point, std::int64_t step);
  bool wants_corrupt_snapshot(std::int64_t step) const;
  bool disk_is_full(std::int64_t step) const;
  bool drifts(std::int64_t step) const;      // after this many steps
  double slowness(std::int64_t step) const;  // factor on a step's time; 1: no delay

 private:
  std::vector<Fault> faults_;  // of this worker and generation
};

}  // namespace distbelief::run
