#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// What to do when workers are lost. Pure: from what happened to what to do, and why.
namespace distbelief::cluster {

struct Loss {
  int rank = -1;           // the worker that was lost first; -1: not known
  std::string host{};      // that was lost with it; empty: none
  bool launcher = false;   // it was killed, and the workers with it
  int signal = 0;          // that ended it; 0: none, or not known
  bool silent = false;     // it did not end by itself: it showed no more life
  int exit_code = 1;       // of the launcher
  std::int64_t step = -1;  // steps that the generation had done; -1: it had not begun
  std::string reason{};    // its own words, when it had time for them
  bool by_job = false;     // the job is at fault, and would fail again

  std::string describe() const;  // "worker 1 lost (signal 9) at step 412"
};

struct RecoveryPolicy {
  int restarts = 5;  // in a row without a new step
  // Others of the job train: what could not start, or was refused when it had trained, may do so next time.
  bool runs_elsewhere = false;
};

// A job that cannot be run as it is, in whose run nobody has done a step: the run ends with exit code 2.
bool was_refused(const Loss& loss, std::int64_t steps_done);

struct RecoveryDecision {
  bool restart = false;
  std::chrono::milliseconds delay{0};
  std::string reason;
};

// `losses`: all of the run, the newest last.
RecoveryDecision decide_recovery(const RecoveryPolicy& policy, const std::vector<Loss>& losses);

}  // namespace distbelief::cluster
