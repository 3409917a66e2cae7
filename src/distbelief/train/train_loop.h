#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/modes/mode.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/fault.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/train/control.h"
#include "distbelief/train/run_keeper.h"

namespace distbelief::train {

struct TrainLoopOptions {
  std::filesystem::path run_dir;
  report::Progress::Options progress;
  const std::atomic<bool>* stop_requested = nullptr;  // set by a signal; all workers then stop at one step
  std::function<void()> when_built;                   // called before the first step; may be empty
  std::string isa;                                    // recorded in the summary
  std::string snapshots;                              // name of the memory for snapshots; empty: none
  std::vector<run::Fault> faults;
  run::Vitals* vitals = nullptr;  // borrowed; may be null, as may the next
  run::Orders* orders = nullptr;
};

// One worker's side of a run: data, lanes, sum, update, keep. It knows neither the task nor the mode. All
// workers of a replica make one and call run() together.
class TrainLoop {
 public:
  // Builds everything that does not depend on how far the run has come. `job.config` is resolved for this
  // world.
  TrainLoop(World& world, run::PreparedJob job, const modes::ModeParts& mode, TrainLoopOptions options);
  ~TrainLoop();

  // Computes one step's work and forgets it: what is made on first use is then there.
  void warm_up() { replica_->warm_up(); }

  // Trains to the end, or to where a stopping rule or a request ends it. The first worker then has written
  // model.safetensors and summary.json, unless the run goes on in another generation (status "handed
  // over"). The summary is complete on the first worker.
  report::Summary run(const RunStart& start);

 private:
  struct Run;
  void write_trace();

  World& world_;
  run::PreparedJob job_;
  TrainLoopOptions options_;
  std::unique_ptr<report::Trace> trace_;
  std::unique_ptr<replica::Replica> replica_;
  std::unique_ptr<modes::Mode> mode_;
  // Stays when run() throws: what hangs in it is not waited for before the failure has been reported.
  std::unique_ptr<Run> run_;
};

}  // namespace distbelief::train
