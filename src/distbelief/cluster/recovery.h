#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// Decides how to react to lost workers. Pure: takes the losses, returns a decision and the reason.
namespace distbelief::cluster {

struct Loss {
  int rank = -1;           // the worker that was lost first; -1: unknown
  std::string host{};      // host that was lost with it; empty: none
  bool launcher = false;   // the launcher was killed, and the workers with it
  int signal = 0;          // signal that ended it; 0: none or unknown
  bool silent = false;     // it did not end by itself but stopped responding
  int exit_code = 1;       // of the launcher
  std::int64_t step = -1;  // steps that the generation had done; -1: it had not begun
  std::string reason{};    // its own report, if it could send one
  bool by_job = false;     // the job is at fault, and would fail again

  std::string describe() const;  // "worker 1 lost (signal 9) at step 412"
};

struct RecoveryPolicy {
  int restarts = 5;  // consecutive restarts without a new step
  // Other processes of the job train, so one that could not start, or was refused after it had trained, may
  // succeed next time.
  bool runs_elsewhere = false;
};

// Whether the job itself was refused before any step of its run: the run ends with exit code 2.
bool was_refused(const Loss& loss, std::int64_t steps_done);

struct RecoveryDecision {
  bool restart = false;
  std::chrono::milliseconds delay{0};
  std::string reason;
};

// `losses`: all losses of the run, the newest last.
RecoveryDecision decide_recovery(const RecoveryPolicy& policy, const std::vector<Loss>& losses);

}  // namespace distbelief::cluster
