#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "distbelief/data/pipeline/timed_reader.h"
#include "distbelief/modes/mode.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/run/fault.h"
#include "distbelief/run/recorder.h"
#include "distbelief/run/run_progress.h"
#include "distbelief/run/snapshotter.h"
#include "distbelief/train/control.h"

namespace distbelief::train {

// Facts that are known only when a generation's turn comes.
struct RunStart {
  int generation = 1;
  int recoveries = 0;      // failures that the run has survived so far
  std::int64_t fence = 0;  // a larger number in the run folder: another generation took over; 0: none can
  bool resume = false;     // go on from the newest state that is whole; a fresh run where there is none
};

struct RunKeeperOptions {
  std::filesystem::path run_dir;
  report::Progress::Options progress;
  std::string isa;        // recorded in the summary
  std::string snapshots;  // name of the memory for snapshots; empty: none
  RunStart start{};
  run::Faults* faults = nullptr;  // of this worker; borrowed; null: none are ordered
};

// Keeps a run: restores it, counts its steps and epochs, validates, takes snapshots, saves, and
// leaves the results. By all workers of a replica together, on the main thread; writing is the first
// worker's.
class RunKeeper {
 public:
  RunKeeper(replica::Replica& replica, modes::Mode& mode, Control& control, RunKeeperOptions options);
  ~RunKeeper();

  // Reads the newest state, or begins anew, and says what the replica brings to the others.
  modes::Entry restore();
  // The replica has taken part and goes on there. Opens the records: the first step may come.
  void open(const modes::Reached& reached);

  const run::RunProgress& progress() const { return progress_; }
  bool is_over() const { return stopped_early_ || is_complete_; }
  run::Recorder* recorder() { return recorder_.get(); }  // the first worker's; null on others
  void void_snapshots();
  bool sends_snapshots() const { return snapshotter_ && snapshotter_->is_sent(); }
  // The loop's wishes: a checkpoint, a snapshot. Only the speaker's count.
  void add_wishes(mesh::LaneNotes& wishes) const;

  // A step of so many samples is done.
  void note_step(const modes::Settled& settled, std::int64_t samples, double lr);
  // The run is there now.
  void move_to(const modes::Reached& reached);
  // Validates the epoch that has ended there, if one has.
  void close_epochs(const modes::Reached& reached);
  // Takes the snapshots and checkpoints that are due after the steps since `before`.
  void keep(const mesh::StepOutcome& outcome, std::int64_t before);
  // The next generation goes on from here.
  void hand_over();
  // The run stops here, to be resumed.
  void interrupt();
  // All steps are done, or a stopping rule took effect.
  void finish(const modes::Finished& finished);
  // Waits until all is written, and leaves the results. The summary is complete on the first worker.
  report::Summary close();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_root() const;
  std::optional<std::int64_t> restore_state();
  void begin_at(const run::RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                const std::string& build);
  void note_bits();
  void lose_bits(const std::string& why);
  void end_epoch();
  tasks::Evaluation validate();
  void take_snapshot();
  void save(run::Checkpointer::Kind kind);
  void save_here();
  void note_saves();
  void note_unsaved(std::int64_t step, const std::string& reason);
  report::Summary summarise();
  void write_results(const report::Summary& summary);

  replica::Replica& replica_;
  modes::Mode& mode_;
  Control& control_;
  RunKeeperOptions options_;
  const run::PreparedJob& job_;
  const Clock::time_point begun_ = Clock::now();
  run::Checkpointer checkpointer_;
  std::unique_ptr<run::Snapshotter> snapshotter_;  // null: this run takes none
  data::BatchMaker test_batches_;
  data::TimedReader test_reader_;
  std::unique_ptr<run::Recorder> recorder_;
  run::RunProgress progress_;
  std::int64_t samples_before_ = 0;
  std::int64_t validated_epoch_ = 0;
  Clock::time_point last_save_ = Clock::now();
  std::int64_t last_saved_step_ = -1;
  std::string status_ = "done";
  bool stopped_early_ = false;  // a stopping rule took effect
  bool is_complete_ = false;    // all steps are done
};

}  // namespace distbelief::train
