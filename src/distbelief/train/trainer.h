#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

#include "distbelief/comm/world.h"
#include "distbelief/data/loader.h"
#include "distbelief/report/summary.h"
#include "distbelief/train/checkpointer.h"
#include "distbelief/train/job.h"
#include "distbelief/train/lane_team.h"
#include "distbelief/train/recorder.h"

namespace distbelief::train {

// One worker's side of a run: the loop. All workers make one and call run() together.
class Trainer {
 public:
  struct Options {
    std::filesystem::path run_dir;
    bool resume = false;
    report::Progress::Options progress;
    const std::atomic<bool>* stop_requested = nullptr;  // set by a signal; all workers then stop at one step
    std::function<void()> when_built;                   // called before the first step; may be empty
    std::string isa;                                    // recorded in the summary
  };
  // `job.config` is resolved for this world.
  Trainer(World& world, PreparedJob job, Options options);
  ~Trainer();

  // Trains to the end, or to where a stopping rule or a request ends it. Rank 0 then has written
  // model.safetensors and summary.json. The summary is complete on rank 0.
  report::Summary run();

 private:
  class StepTrace;
  void restore();
  void build_group();
  void build_team();
  std::unique_ptr<LaneRunner> make_runner(int thread);
  void train();
  LaneRunner::Outcome one_step();
  void finish_step(const LaneRunner::Outcome& outcome, std::int64_t samples, double lr);
  void end_epoch();
  void save(Checkpointer::Kind kind);
  bool wants_save() const;
  report::PhaseSeconds phases();
  report::Summary summarise(double wall_seconds);
  std::string worker_summary();
  void write_trace();
  bool is_root() const { return world_.rank() == 0; }

  World& world_;
  PreparedJob job_;
  Options options_;
  std::unique_ptr<Task> task_;
  data::EpochPlan plan_;
  data::BatchMaker train_batches_;
  data::BatchMaker test_batches_;
  Checkpointer checkpointer_;
  RunProgress progress_;
  std::vector<std::int64_t> update_counts_;
  std::unique_ptr<report::Trace> trace_;
  std::vector<std::unique_ptr<StepTrace>> observers_;
  std::unique_ptr<strategy::AllreduceGroup> group_;
  std::vector<std::unique_ptr<data::Loader>> loaders_;
  std::unique_ptr<LaneTeam> team_;
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::int64_t> lane_samples_;
  std::chrono::steady_clock::time_point last_save_;
  std::int64_t last_saved_step_ = -1;
  std::string status_ = "done";
  bool stopped_early_ = false;  // a stopping rule took effect
  std::int64_t samples_before_ = 0;
};

}  // namespace distbelief::train
