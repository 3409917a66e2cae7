#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/comm/host/signal.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/mesh/lane_runner.h"

namespace distbelief::mesh {

// A team whose workers hold whole networks. Runs each lane runner of one worker on its own thread, the first
// on the caller's. A runner that throws sets the abort record, so that the others stop waiting for it.
class LaneTeam final : public Team {
 public:
  struct Options {
    comm::AbortRecord* abort = nullptr;
    comm::Communicator* workers = nullptr;  // all workers
    const tasks::Task* task = nullptr;
    AllreduceGroup* group = nullptr;
  };
  LaneTeam(std::vector<std::unique_ptr<LaneRunner>> runners, const Options& options);
  ~LaneTeam() override;

  StepOutcome step(const StepPlan& plan, const LaneNotes& wishes) override;
  void share_changed() override {}  // all threads share the host's copy
  tasks::Evaluation evaluate(const tasks::ReadChunk& read, std::uint64_t samples) override;
  report::PhaseClock& clock() override { return runners_[0]->clock(); }
  compute::BufferSet& buffers(int stage, int thread) override;

 private:
  void run(LaneRunner& runner, const std::stop_token& stop);

  std::vector<std::unique_ptr<LaneRunner>> runners_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t wanted_ = 0;
  int running_ = 0;
  StepPlan plan_;
  LaneNotes wishes_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace distbelief::mesh
