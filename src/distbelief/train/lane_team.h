#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/comm/host/signal.h"
#include "distbelief/train/lane_runner.h"

namespace distbelief::train {

// The lane runners of one worker, each on its own thread; the first runs on the caller's. A runner that
// throws sets the abort record, so that the others stop waiting for it.
class LaneTeam {
 public:
  LaneTeam(std::vector<std::unique_ptr<LaneRunner>> runners, comm::AbortRecord& abort, int rank);
  ~LaneTeam();

  LaneRunner::Outcome step(const strategy::StepPlan& plan, const LaneNotes& wishes);
  LaneRunner& first() { return *runners_[0]; }
  LaneRunner& runner(int thread) { return *runners_[std::size_t(thread)]; }

 private:
  void run(LaneRunner& runner, const std::stop_token& stop);

  std::vector<std::unique_ptr<LaneRunner>> runners_;
  comm::AbortRecord& abort_;
  int rank_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t wanted_ = 0;
  int running_ = 0;
  strategy::StepPlan plan_;
  LaneNotes wishes_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace distbelief::train
