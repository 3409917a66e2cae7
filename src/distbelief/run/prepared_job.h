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

// A part of a decomposed model.
struct SubNetwork {
  model::BlockRange blocks;  // includes its local head
  Shape input;               // of a sample: the data, or the output of the preceding sub-network
};

// A job with open data and a model that fits it.
struct PreparedJob {
  Config config;
  data::DataSet data;
  model::DataShape shape;
  model::Blueprint blueprint;
  std::shared_ptr<model::Network> network;  // with initial weights; null when no worker holds it whole
  bool data_has_changed = false;            // since the start of the run (data.json)
  // Parts that replicas train separately (decomposition.h); empty: the whole model.
  std::vector<SubNetwork> sub_networks{};

  std::int64_t steps_per_epoch() const;
  std::int64_t total_steps() const;  // respects max_steps
};

// Opens the data and builds the model. Throws Error(kBadInput or kUnavailable).
PreparedJob prepare_job(const Config& config);
PreparedJob prepare_job(const Config& config, data::DataSet data);  // with data that is open already
// The same without the network, for callers that build its blocks one at a time.
PreparedJob prepare_blueprint(const Config& config);
PreparedJob prepare_blueprint(const Config& config, data::DataSet data);
// The network of a trained job. The data may be absent: no sample is read.
PreparedJob prepare_trained(const Config& config, data::DataSet data);

// The share of each block's parameters that parallel.tensor slices. Throws Error(kBadInput), with the layer
// and values that work, when it cannot.
std::vector<double> sliced_shares(const Config& config, const model::Blueprint& blueprint);

// How the workers of a tensor group receive a sample: whole or sliced.
model::TensorGroup::Input input_of(const ParallelConfig& parallel);
// If the input is sliced, restricts the job's data to this worker's columns.
void keep_own_columns(PreparedJob& job, const model::TensorGroup& group);

// Fills in the values that depend on the number of workers: lanes, overlap. A job's lanes then stay fixed.
void resolve_for_workers(Config& config, int workers);

// How `workers` workers hold the network, for a job that may have started with another number.
struct PipelinePlan {
  mesh::Mesh mesh;
  mesh::PipelineSchedule schedule = mesh::PipelineSchedule::kOneForwardOneBackward;
  int chunks = 1;
  std::string reason;         // why it differs from the job file; empty: it does not
  std::string unschedulable;  // why the schedule alone does not fit; empty: it does
};
PipelinePlan pipeline_plan(const Config& config, int workers);
// Throws Error(kBadInput), with values that work, when a job cannot start with this number of workers.
void require_mesh(const Config& config, int workers);

// The number of workers that a resolved job's lanes can keep busy.
std::int64_t most_workers(const ParallelConfig& parallel);
// The largest number, up to `workers`, that forms a mesh in which every copy has lanes.
int usable_workers(const Config& config, int workers);

// The contents of the whole network, without weights.
mesh::NetworkOutline outline_of(const PreparedJob& job);

// The strategy's options for a resolved job.
mesh::AllreduceGroup::Options group_options(const Config& config);
comm::Algorithm algorithm_of(const Config& config);

// The factors besides the job that determine a result's bits: "instruction set avx2, libtorch 1.13.0".
std::string build_name(const std::string& isa);

// Whether weights_sha256 is the same for any number of workers, and if not, why.
struct Reproducibility {
  bool holds = true;
  std::string note;
};
// `tensor` as in RunProgress.
Reproducibility reproducibility(const Config& config, int hosts, std::int64_t tensor);

}  // namespace distbelief::run
