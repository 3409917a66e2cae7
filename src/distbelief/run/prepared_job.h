#pragma once

#include "distbelief/base/config.h"
#include "distbelief/compute/layout.h"
#include "distbelief/data/registry.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/mesh/mesh.h"
#include "distbelief/mesh/pipeline_schedule.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/model/registry.h"

namespace distbelief::run {

// One of those that a decomposed model is cut into.
struct SubNetwork {
  model::BlockRange blocks;  // its local head included
  Shape input;               // of a sample: the data, or what the sub-network before gives
};

// A job whose data is open and whose model fits it.
struct PreparedJob {
  Config config;
  data::DataSet data;
  model::DataShape shape;
  model::Blueprint blueprint;
  std::shared_ptr<model::Network> network;  // initial weights; none when no worker is to hold it whole
  bool data_has_changed = false;            // since the run began (data.json)
  std::vector<SubNetwork> sub_networks{};   // that replicas train apart (decomposition.h); none: all of it

  std::int64_t steps_per_epoch() const;
  std::int64_t total_steps() const;  // max_steps respected
};

// Opens the data and builds the model. Throws Error(kBadInput or kUnavailable).
PreparedJob prepare_job(const Config& config);
PreparedJob prepare_job(const Config& config, data::DataSet data);  // that is open already
// The same without the network: for who makes its blocks one after another.
PreparedJob prepare_blueprint(const Config& config);
PreparedJob prepare_blueprint(const Config& config, data::DataSet data);
// The network of a job that was trained, whose data need not be there: no sample is asked for.
PreparedJob prepare_trained(const Config& config, data::DataSet data);

// How much of each block's parameters parallel.tensor slices. Throws Error(kBadInput), with the layer and
// what would do, when it cannot.
std::vector<double> sliced_shares(const Config& config, const model::Blueprint& blueprint);

// What the workers of a tensor group get of each sample.
model::TensorGroup::Input input_of(const ParallelConfig& parallel);
// Where that is a slice: the job's data are this worker's columns from now on.
void keep_own_columns(PreparedJob& job, const model::TensorGroup& group);

// Fills in what depends on the number of workers: lanes, overlap. A job's lanes are then fixed for its life.
void resolve_for_workers(Config& config, int workers);

// How so many workers hold the network, for a job that may have begun with another number of them.
struct PipelinePlan {
  mesh::Mesh mesh;
  mesh::PipelineSchedule schedule = mesh::PipelineSchedule::kOneForwardOneBackward;
  int chunks = 1;
  std::string reason;         // why it is not what the job asks for; empty: it is
  std::string unschedulable;  // why not the schedule alone
};
PipelinePlan pipeline_plan(const Config& config, int workers);
// Throws Error(kBadInput), with what would do, when so many workers cannot begin the job.
void require_mesh(const Config& config, int workers);

// How many workers a resolved job's lanes can keep busy.
std::int64_t most_workers(const ParallelConfig& parallel);
// The most of so many workers that form a mesh in which every replica has lanes.
int usable_workers(const Config& config, int workers);

// What the whole network holds, without its weights.
mesh::NetworkOutline outline_of(const PreparedJob& job);

// The strategy's options for a resolved job.
mesh::AllreduceGroup::Options group_options(const Config& config);
comm::Algorithm algorithm_of(const Config& config);

// What a result's bits depend on besides the job: "instruction set avx2, libtorch 1.13.0".
std::string build_name(const std::string& isa);

// Whether weights_sha256 is the same for any number of workers, and why not.
struct Reproducibility {
  bool holds = true;
  std::string note;
};
// `tensor`: of RunProgress.
Reproducibility reproducibility(const Config& config, int hosts, std::int64_t tensor);

}  // namespace distbelief::run
