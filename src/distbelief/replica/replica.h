#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "distbelief/mesh/lane_gather.h"
#include "distbelief/mesh/team.h"
#include "distbelief/replica/lane_feed.h"
#include "distbelief/replica/partition.h"
#include "distbelief/report/summary.h"
#include "distbelief/report/trace.h"
#include "distbelief/tasks/row_source.h"
#include "distbelief/tasks/task.h"

namespace distbelief::mesh {
class LaneRunner;
}

namespace distbelief::replica {

// A mode's decisions about a replica, taken before it is built.
struct ReplicaTerms {
  std::optional<TreeNode> lanes{};  // of the job's that it carries, a node of their tree; nothing: all
  enum class Update {
    kOptimizer,        // the replica updates its parameters
    kCollectGradient,  // it adds up its gradient, and the mode brings new parameters
  } update = Update::kOptimizer;
  LaneFeedOptions::Order feed = LaneFeedOptions::Order::kInOrder;
  int sub_network = -1;  // of a decomposed job, that the replica trains; -1: the whole model
  std::function<std::unique_ptr<tasks::Task>(std::unique_ptr<tasks::Task>)>
      around_task{};               // the job's; may be empty
  tasks::RowLink* rows = nullptr;  // tables' rows, where there are any; outlives the replica

  // A part of the job's lanes is a node of the tree over them, and stays where it is.
  bool moves_lanes() const { return update == Update::kOptimizer && !lanes; }
};

// Calls during a step; each may be empty.
struct ReplicaHooks {
  std::function<void(std::int64_t step, const data::Batch& batch)> on_batch{};  // on any lane's thread
  std::function<double(std::int64_t step)> slowness{};   // how many times as long a lane is to take
  std::function<void(std::int64_t step)> in_backward{};  // at the first gradient of each lane
};

struct ReplicaOptions {
  ReplicaTerms terms{};
  std::filesystem::path run_dir{};
  report::Trace* trace = nullptr;               // borrowed, as is the next; may be null
  std::atomic<report::Phase>* phase = nullptr;  // shows what the main thread does
};

// One model in lock-step: the workers of a world that train one network together. It knows how the network
// and the lanes lie on them, and makes a step of all: data, lanes, sum, update. Made by all workers together,
// which call the same functions in the same order; one thread. World and job outlive it.
class Replica {
 public:
  Replica(World& world, run::PreparedJob& job, ReplicaOptions options);
  ~Replica();

  // Computes one step's work on a copy and forgets it: what is made on first use is then there.
  void warm_up();
  // Readies the lanes for the step at that position, with the weights and statistics that the stages have.
  void begin(const DataPosition& at, ReplicaHooks hooks);
  mesh::StepOutcome step(const mesh::StepPlan& plan, const mesh::LaneNotes& wishes);
  // The mode has changed parameters: workers that hold copies of a weight take over its new value.
  void share_changed();
  // Sets running statistics: `write` is called for every copy of every stage here.
  void set_statistics(const std::function<void(std::size_t stage, compute::BufferSet& buffers)>& write);
  tasks::Evaluation evaluate(const tasks::ReadChunk& read);
  // Ends the waits of the other workers of the replica with this reason.
  void abort(const char* reason);

  // Moves the lanes: so many for each worker, so many threads each. False: there is no room for it, and
  // nothing has changed. The whole network must lie on each worker.
  bool carry(std::vector<std::int64_t> lanes_of_workers, std::int64_t threads, const DataPosition& at);
  std::vector<std::int64_t> lanes_of_workers() const;
  std::vector<std::int64_t> own_lanes() const;  // of this worker
  int speaker() const { return speaker_; }      // the worker of the first lane

  Partition& partition() { return partition_; }
  const Partition& partition() const { return partition_; }
  std::span<mesh::Stage> stages() { return partition_.stages(); }
  LaneFeed& feed() { return *feed_; }
  const tasks::Task& task() const { return *task_; }
  const run::PreparedJob& job() const { return job_; }
  World& world() { return world_; }
  mesh::Team& team() { return *team_; }
  mesh::AllreduceGroup& group() const { return *partition_.stages()[0].group; }
  // The group's settings for a stage, with this replica's terms.
  mesh::AllreduceGroup::Options group_settings(const mesh::Stage& stage) const;
  const ReplicaTerms& terms() const { return options_.terms; }

  report::PhaseSeconds phases() const;  // since the replica began
  report::WorkerSummary summary() const;

 private:
  class StepTrace;
  mesh::Course course() const;
  void build_groups();
  enum class Weights { kInitial, kPresent };  // what the group's parameters are to be afterwards
  std::shared_ptr<model::Network> make_network(const mesh::Stage& stage, Weights weights);
  const data::Batch& next_batch(data::Loader& loader);
  std::unique_ptr<mesh::LaneRunner> make_runner(int thread, const DataPosition& at);
  std::unique_ptr<mesh::Team> make_lane_team(const DataPosition& at);
  std::unique_ptr<mesh::Team> make_pipeline_team(const DataPosition& at);
  void build_team(const DataPosition& at);
  void rebuild(const DataPosition& at);
  bool has_room_to_rebuild();
  int carriers_on_host() const;

  World& world_;
  run::PreparedJob& job_;
  ReplicaOptions options_;
  ReplicaHooks hooks_;
  Partition partition_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<LaneFeed> feed_;
  std::vector<std::unique_ptr<StepTrace>> observers_;
  std::unique_ptr<mesh::Team> team_;
  std::vector<std::int64_t> lanes_of_workers_;  // empty: as even as can be
  int speaker_ = 0;
  std::int64_t step_ = 0;                              // that is being made
  std::optional<report::PhaseSeconds> phases_before_;  // of the teams before this one
};

}  // namespace distbelief::replica
