#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>

#include "distbelief/comm/world.h"
#include "distbelief/data/pipeline/loader.h"
#include "distbelief/data/pipeline/timed_reader.h"
#include "distbelief/mesh/balancer.h"
#include "distbelief/mesh/drift.h"
#include "distbelief/mesh/lane_runner.h"
#include "distbelief/mesh/parameter_link.h"
#include "distbelief/mesh/served_replica.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/audit.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/run/fault.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/run/recorder.h"
#include "distbelief/run/snapshotter.h"
#include "distbelief/run/vitals.h"

namespace distbelief::train {

// One worker's side of a run: the loop. All workers make one and call run() together.
class Trainer {
 public:
  struct Options {
    std::filesystem::path run_dir;
    report::Progress::Options progress;
    const std::atomic<bool>* stop_requested = nullptr;  // set by a signal; all workers then stop at one step
    std::function<void()> when_built;                   // called before the first step; may be empty
    std::string isa;                                    // recorded in the summary
    std::string snapshots;                              // name of the memory for snapshots; empty: none
    std::vector<run::Fault> faults;
    run::Vitals* vitals = nullptr;  // borrowed; may be null, as may the next
    run::Orders* orders = nullptr;
    mesh::ParameterLink* link =
        nullptr;           // to the servers that have the parameters; null: the workers have them
    int sub_network = -1;  // of a decomposed job, that this worker trains; -1: the whole model
    std::function<std::unique_ptr<tasks::Task>(std::unique_ptr<tasks::Task>)>
        around_task{};  // the job's; may be empty
  };
  // What is known only when a generation's turn comes.
  struct Start {
    int generation = 1;
    int recoveries = 0;  // failures that the run has survived so far
    std::int64_t fence =
        0;                // a larger number in the run folder: another generation has taken over; 0: none can
    bool resume = false;  // go on from the newest state that is whole; a fresh run where there is none
  };
  // Builds everything that does not depend on how far the run has come. `job.config` is resolved for this
  // world.
  Trainer(World& world, run::PreparedJob job, Options options);
  ~Trainer();

  // Computes one step's work and forgets it: what is made on first use is then there.
  void warm_up();

  // Trains to the end, or to where a stopping rule or a request ends it. Rank 0 then has written
  // model.safetensors and summary.json, unless the run goes on in another generation (status "handed
  // over"). The summary is complete on rank 0.
  report::Summary run(const Start& start);

 private:
  class StepTrace;
  void open_recorder();
  void lay_out();
  std::vector<int> choose_stage_ends(int stages);
  mesh::AllreduceGroup::Options group_settings(const mesh::Stage& stage) const;
  void show(const char* state);
  void restore();
  void note_bits();
  void lose_bits(const std::string& why);
  void note_tensor();  // it decides the order of additions, so a run that changes it has bits of its own
  void begin_at(const run::RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                const std::string& build);
  void build_groups();
  void hold_whole();
  void take_own_part();
  void fetch_whole();
  tasks::Evaluation validate();
  // What is validated and saved: of a decomposed model, by who leads, all of it.
  const std::vector<mesh::Stage>& kept() const { return whole_.empty() ? stages_ : whole_; }
  const mesh::NetworkOutline& kept_outline() const { return whole_.empty() ? outline_ : whole_outline_; }
  enum class Weights { kInitial, kPresent };  // what the group's parameters are to be afterwards
  std::shared_ptr<model::Network> make_network(const mesh::Stage& stage, Weights weights);
  void build_team();
  std::unique_ptr<mesh::Team> make_pipeline_team();
  const data::Batch& next_batch(data::Loader& loader);
  data::Loader& add_loader(const mesh::Carrier& carrier);
  std::vector<std::int64_t> lanes_now() const;
  bool has_room_to_rebuild();
  bool has_new_lane_order() const;
  bool speaks() const { return world_.rank() == speaker_; }
  std::vector<int> workers_with_lanes() const;
  const char* working_state() const;
  run::LaneOrder shared_lane_order();
  void follow_lane_order();
  bool carry(std::vector<std::int64_t> lanes_of_workers, std::int64_t threads);
  void rebuild();
  void watch_balance();
  void show_straggler();
  void balance();
  std::unique_ptr<mesh::LaneRunner> make_runner(int thread);
  void prepare(const Start& start);
  void train();
  report::Summary finish(std::chrono::steady_clock::time_point begin);
  void join_servers();
  void read_statistics();  // that came from the servers
  void require_servers_for_tables() const;
  void bring_rows();
  void save_rows();
  bool has_next_step();
  std::vector<std::int64_t> deal_steps();
  void follow(std::int64_t step);
  std::int64_t samples_before(std::int64_t step) const;
  void pass_over(std::int64_t next);
  void finish_served(std::int64_t total);
  bool takes_own_steps() const { return options_.link && !options_.link->is_synchronous(); }
  bool leads() const { return options_.link == nullptr || options_.link->leads(); }
  mesh::StepOutcome one_step();
  void finish_step(const mesh::StepOutcome& outcome, std::int64_t samples, double lr);
  void end_epoch();
  void save(run::Checkpointer::Kind kind);
  bool wants_save() const;
  void note_saves();
  void note_unsaved(std::int64_t step, const std::string& reason);
  void keep(const mesh::StepOutcome& outcome, std::int64_t step_before);
  void take_snapshot();
  void pause();
  bool rest();
  void wake();
  void verify();
  mesh::ReplicaHashes replica_hashes();
  void drift_on_order();
  void show_step(double seconds, std::int64_t samples);
  mesh::LaneNotes wishes() const;
  report::PhaseSeconds phases();
  report::Summary summarise(double wall_seconds);
  std::string worker_summary();
  void keep_answers();
  void write_trace();
  void write_model(const report::Summary& summary);
  bool is_root() const { return world_.rank() == 0; }
  // The network lies on several workers.
  bool is_cut() const { return mesh_plan_.mesh.pipeline * mesh_plan_.mesh.tensor > 1; }
  void add_up_layers(const mesh::Stage& stage, std::span<double> norms);
  // Those who hold the same stages.
  World& peers() { return peers_ ? *peers_ : world_; }
  mesh::AllreduceGroup& group() const { return *stages_[0].group; }

  World& world_;
  run::PreparedJob job_;
  Options options_;
  Start start_;
  run::PipelinePlan mesh_plan_;
  std::optional<World> peers_;
  std::deque<World>
      further_peers_;  // the same workers again, for each further stage: their exchanges run at once
  std::optional<World> tensor_world_;  // those who hold slices of the same stages for the same lanes
  std::unique_ptr<model::TensorGroup> tensor_group_;
  mesh::NetworkOutline outline_;
  std::size_t array_bytes_ = 0;  // of the largest array between two stages
  std::unique_ptr<tasks::Task> task_;
  data::EpochPlan plan_;
  std::optional<data::BatchMaker> train_batches_;
  std::optional<data::BatchMaker> test_batches_;
  std::optional<data::TimedReader> test_reader_;
  run::Checkpointer checkpointer_;
  std::optional<run::Faults> faults_;
  std::unique_ptr<run::Snapshotter> snapshotter_;
  std::unique_ptr<run::AuditLog> audit_;
  std::unique_ptr<mesh::Balancer> balancer_;           // of several workers
  std::vector<std::int64_t> lanes_of_workers_;         // empty: as even as can be
  int speaker_ = 0;                                    // the worker of the first lane
  std::int64_t lane_order_ = 0;                        // the last that was followed
  double busy_seconds_ = 0;                            // of the last step
  int named_straggler_ = -1;                           // the worker that was last reported as slow
  std::optional<report::PhaseSeconds> phases_before_;  // of the teams before this one
  run::RunProgress progress_;
  std::unique_ptr<report::Trace> trace_;
  std::vector<std::unique_ptr<StepTrace>> observers_;
  std::vector<mesh::Stage> stages_;  // that this worker holds
  mesh::NetworkOutline whole_outline_;
  std::vector<mesh::Stage> whole_;  // of a decomposed model, where this replica leads
  std::vector<float> whole_statistics_;
  std::vector<std::unique_ptr<data::Loader>> loaders_;
  std::unique_ptr<mesh::Team> team_;
  std::unique_ptr<mesh::ServedReplica> served_;  // when parameters live on servers
  std::unique_ptr<run::Recorder> recorder_;
  std::vector<std::int64_t> lane_samples_;
  std::chrono::steady_clock::time_point last_save_;
  std::int64_t last_saved_step_ = -1;
  std::string status_ = "done";
  bool stopped_early_ = false;        // a stopping rule took effect
  std::int64_t validated_epoch_ = 0;  // of a replica that takes steps of its own
  std::int64_t passed_over_ = 0;      // steps that the others did not wait for it in
  bool carries_ = false;              // its last step left states of lanes to go on from
  bool all_steps_done_ = false;       // by all such replicas, in fewer steps or as many as there could be
  bool is_cut_short_ = false;         // a wait for the next step was broken off
  std::int64_t samples_before_ = 0;
};

}  // namespace distbelief::train
