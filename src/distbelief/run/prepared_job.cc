#include "distbelief/run/prepared_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/compute/replica.h"
#include "distbelief/data/pipeline/columns.h"
#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/model/device.h"
#include "distbelief/model/fbnet_search.h"
#include "distbelief/run/decomposition.h"
#include "distbelief/run/initial_weights.h"
#include "distbelief/run/job_fit.h"
#include "distbelief/run/run_progress.h"
#include "distbelief/tasks/task.h"

namespace distbelief::run {

namespace {

mesh::PipelineShape shape_of(const PipelinePlan& plan, std::int64_t lanes) {
  return {.pipeline = plan.mesh.pipeline, .chunks = plan.chunks, .lanes = lanes / plan.mesh.data};
}

}  // namespace

std::int64_t PreparedJob::steps_per_epoch() const {
  return std::int64_t(data::EpochPlan{data.train->size(), std::uint64_t(config.train.batch_size), 1}.steps());
}

std::int64_t PreparedJob::total_steps() const {
  if (config.train.epochs == 0) return config.train.max_steps;
  std::int64_t all = 0;
  if (__builtin_mul_overflow(steps_per_epoch(), config.train.epochs, &all))
    all = std::numeric_limits<std::int64_t>::max();  // practically unlimited
  return config.train.max_steps > 0 ? std::min(all, config.train.max_steps) : all;
}

model::TensorGroup::Input input_of(const ParallelConfig& parallel) {
  return parallel.split_features ? model::TensorGroup::Input::kSliced : model::TensorGroup::Input::kWhole;
}

// Builds every block once, as the first worker of a tensor group does.
std::vector<double> sliced_shares(const Config& config, const model::Blueprint& blueprint) {
  class Absent final : public model::TensorGroup {
   public:
    using TensorGroup::TensorGroup;
    void start_sum(const torch::Tensor&) override {}
    torch::Tensor finish_sum() override { return {}; }
  } group(0, int(config.parallel.tensor), input_of(config.parallel));
  if (config.parallel.split_features && !model::find_model(config.model.name).splits_features)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("model '{}' needs whole samples; parallel.split_features is for mlp, leave it out",
                    config.model.name),
        {.key = "parallel.split_features"});
  std::vector<double> shares;
  for (int block = 0; block < int(blueprint.size()); ++block) {
    const auto network = [&] {
      try {
        return std::make_unique<model::Network>(blueprint, model::BlockRange{block, block + 1},
                                                config.train.seed, &group);
      } catch (const Error& error) {
        const std::string& path = blueprint[std::size_t(block)].path;
        throw Error(error.code(),
                    fmt::format("block {}{}: {}", block, path.empty() ? "" : fmt::format(" ({})", path),
                                error.message()),
                    error.where());
      }
    }();
    std::int64_t all = 0, sliced = 0;
    for (const torch::Tensor& parameter : network->parameters()) {
      const model::SlicedTensor held = network->sliced(parameter);
      all += element_count(held.whole);
      sliced += held.slice.is_whole() ? 0 : element_count(held.whole);
    }
    shares.push_back(all == 0 ? 0.0 : double(sliced) / double(all));
  }
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; }))
    throw Error(ErrorCode::kBadInput,
                fmt::format("model '{}' has no layers that parallel.tensor {} can slice; use gpt, mlp or a "
                            "resnet, or parallel.pipeline",
                            config.model.name, config.parallel.tensor),
                {.key = "parallel.tensor"});
  return shares;
}

namespace {

// As model::build_model(), but for blocks that may start with given weights.
std::shared_ptr<model::Network> whole_network(const PreparedJob& job) {
  try {
    return std::make_shared<model::Network>(job.blueprint, model::BlockRange{0, int(job.blueprint.size())},
                                            job.config.train.seed);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kInternal, fmt::format("torch could not build model '{}': {}",
                                                  job.config.model.name, error.what_without_backtrace()));
  }
}

// As far as is known without the data.
std::size_t backwards_of(const Config& config) {
  const std::string& task =
      config.train.task == "auto" ? model::find_model(config.model.name).task : config.train.task;
  return task.empty() ? 1 : tasks::find_task(task).backwards;
}

data::DataSet with_samples(data::DataSet data) {
  if (data.train->size() == 0) throw Error(ErrorCode::kBadInput, "the data set has no samples to train on");
  return data;
}

}  // namespace

PreparedJob prepare_blueprint(const Config& config) {
  return prepare_blueprint(config, with_samples(data::open_data_set(config.data)));
}

PreparedJob prepare_blueprint(const Config& config, data::DataSet data) {
  PreparedJob job;
  job.config = config;
  job.data = std::move(data);
  job.shape = tasks::shape_of(job.data.train->spec());
  job.blueprint = model::model_blueprint(config.model, job.shape);
  if (!config.train.init.empty())
    job.blueprint =
        begin_with_file(model::find_model(config.model.name), std::move(job.blueprint), config.train);
  require_fit(config, job.data);
  if (is_decomposed(config.parallel)) decompose(job);
  model::compute_on(model::device_of(config.train.device), job.blueprint);
  return job;
}

PreparedJob prepare_trained(const Config& config, data::DataSet data) {
  PreparedJob job = prepare_blueprint(config, std::move(data));
  job.network = whole_network(job);
  return job;
}

PreparedJob prepare_job(const Config& config) {
  return prepare_job(config, data::open_data_set(config.data));
}

PreparedJob prepare_job(const Config& config, data::DataSet data) {
  PreparedJob job = prepare_blueprint(config, with_samples(std::move(data)));
  if (config.parallel.pipeline > 1) require_stages(config, int(job.blueprint.size()));
  if (config.parallel.tensor > 1) sliced_shares(config, job.blueprint);  // refuses what cannot be sliced
  if (config.parallel.pipeline * config.parallel.tensor > 1 || config.parallel.zero == 3) return job;
  job.network = whole_network(job);
  if (config.train.optimizer.name == "lbfgs") require_batch_method(job);
  compute::trainable_parameters(*job.network);  // refuses parameters that the arena cannot hold
  return job;
}

void keep_own_columns(PreparedJob& job, const model::TensorGroup& group) {
  if (group.input() == model::TensorGroup::Input::kWhole) return;
  const SliceRange range = share_of(element_count(job.shape.input), group.part(), group.parts());
  for (std::unique_ptr<data::Source>* source : {&job.data.train, &job.data.test})
    *source = std::make_unique<data::Columns>(std::move(*source), std::uint64_t(range.begin),
                                              std::uint64_t(range.count));
}

mesh::NetworkOutline outline_of(const PreparedJob& job) {
  if (job.network) return mesh::outline_of(*job.network);
  const int all[] = {int(job.blueprint.size())};
  return mesh::outline_of(job.blueprint, all, job.config.train.seed);
}

PipelinePlan pipeline_plan(const Config& config, int workers) {
  const ParallelConfig& parallel = config.parallel;
  const mesh::MeshChange change =
      mesh::replan({.data = 1, .pipeline = int(parallel.pipeline), .tensor = int(parallel.tensor)}, workers);
  PipelinePlan plan;
  plan.mesh = change.mesh;
  if (plan.mesh.pipeline != parallel.pipeline || plan.mesh.tensor != parallel.tensor)
    plan.reason = change.reason;
  if (plan.mesh.pipeline == 1) return plan;
  plan.schedule = mesh::parse_pipeline_schedule(parallel.schedule);
  plan.chunks = stages_per_worker(parallel);
  try {
    if (plan.schedule == mesh::PipelineSchedule::kInterleaved && parallel.lanes % plan.mesh.data != 0)
      throw Error(ErrorCode::kBadInput, fmt::format("{} lanes cannot be dealt evenly to {} replicas",
                                                    parallel.lanes, plan.mesh.data));
    mesh::require_schedulable(plan.schedule, shape_of(plan, parallel.lanes));
  } catch (const Error& error) {
    plan.schedule = mesh::PipelineSchedule::kOneForwardOneBackward;
    plan.chunks = 1;
    plan.unschedulable = error.message();
    plan.reason = fmt::format("schedule 1f1b instead of {}: {}", parallel.schedule, error.message());
  }
  return plan;
}

void require_mesh(const Config& config, int workers) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pipeline == 1 && parallel.tensor == 1 && parallel.data == 0) return;
  const mesh::Mesh mesh = mesh::resolve_mesh(
      {.data = int(parallel.data), .pipeline = int(parallel.pipeline), .tensor = int(parallel.tensor)},
      workers);
  if (mesh.pipeline == 1) return;
  if (parallel.schedule != "interleaved" && stages_per_worker(parallel) > 1)
    throw Error(ErrorCode::kBadInput,
                fmt::format("parallel.chunks {} wants parallel.schedule = \"interleaved\", found \"{}\"; "
                            "change one of them",
                            parallel.chunks, parallel.schedule),
                {.key = "parallel.chunks"});
  // Replicas that take part in every step have equal shares of the lanes.
  Config world = config;
  if (has_servers(parallel) && !takes_own_steps(parallel)) world.parallel.lanes /= parallel.workers;
  const PipelinePlan plan = pipeline_plan(world, workers);
  if (!plan.unschedulable.empty()) throw Error(ErrorCode::kBadInput, plan.unschedulable);
}

void resolve_for_workers(Config& config, int workers) {
  config.parallel.workers = workers;
  if (config.parallel.lanes == 0) config.parallel.lanes = default_lanes(config.parallel);
  config.parallel.lanes *= config.train.accumulate;  // a micro-batch is a lane
  config.train.accumulate = 1;
  if (config.parallel.overlap == "auto") {
    const bool needs_norms = config.train.clip_norm > 0 || config.train.optimizer.name == "lars" ||
                             config.train.optimizer.name == "lamb" || backwards_of(config) > 1;
    config.parallel.overlap = needs_norms ? "reduce" : "update";
  }
  if (config.parallel.algorithm == "auto") config.parallel.algorithm = "direct";
}

std::int64_t most_workers(const ParallelConfig& parallel) {
  return parallel.lanes / parallel.threads * parallel.pipeline * parallel.tensor;
}

int usable_workers(const Config& config, int workers) {
  const ParallelConfig& parallel = config.parallel;
  while (workers > 1 && pipeline_plan(config, workers).mesh.data * parallel.threads > parallel.lanes)
    --workers;
  return workers;
}

mesh::AllreduceGroup::Options group_options(const Config& config) {
  using mesh::Overlap;
  mesh::AllreduceGroup::Options options;
  options.lanes = config.parallel.lanes;
  options.threads = int(config.parallel.threads);
  options.zero = int(config.parallel.zero);
  options.zero_inside_host = config.parallel.zero_inside_host;
  options.state_dir = config.parallel.state_dir;
  options.optimizer = config.train.optimizer;
  options.clip_norm = config.train.clip_norm;
  options.overlap = config.parallel.overlap == "update"   ? Overlap::kUpdate
                    : config.parallel.overlap == "reduce" ? Overlap::kReduce
                    : config.parallel.overlap == "check"  ? Overlap::kCheck
                                                          : Overlap::kOff;
  options.bucket_bytes = std::size_t(config.parallel.bucket_mb * 1024 * 1024);
  return options;
}

comm::Algorithm algorithm_of(const Config& config) {
  if (config.parallel.algorithm == "ring") return comm::Algorithm::kRing;
  if (config.parallel.algorithm == "central") return comm::Algorithm::kCentral;
  return comm::Algorithm::kDirect;  // also for two_level: shared memory inside a host is always used
}

std::string build_name(const std::string& isa) {
  return fmt::format("instruction set {}, libtorch {}", isa, TORCH_VERSION);
}

Reproducibility reproducibility(const Config& config, int hosts, std::int64_t tensor) {
  if (config.parallel.algorithm == "ring" && hosts > 1)
    return {false, "parallel.algorithm = \"ring\" adds in ring order, which depends on the number of hosts"};
  const ParallelConfig& parallel = config.parallel;
  const bool at_own_pace =
      parallel.mode == "async" || parallel.mode == "bounded" || parallel.mode == "hybrid";
  if (has_servers(parallel) && at_own_pace)
    return {false, fmt::format("parallel.mode = \"{}\" applies each gradient when it comes, so what it was "
                               "computed from, and the result, depend on time",
                               parallel.mode)};
  if (has_servers(parallel) && parallel.mode == "sync" && parallel.spare_replicas > 0)
    return {false, "which replicas a step waits for (parallel.spare_replicas) depends on time"};
  if (has_servers(parallel) && parallel.mode == "decomposed" && parallel.workers > parallel.sub_networks)
    return {false, "replicas of one sub-network go each at its own pace, so the result depends on time"};
  if (tensor == kTensorChanged)
    return {false,
            "the width of tensor groups changed while the run went on, and with it the order of additions"};
  if (tensor > 1)
    return {true,
            fmt::format("same bits for any data and pipeline with parallel.tensor {}, these lanes, this "
                        "instruction set and libtorch; another tensor adds in another order",
                        tensor)};
  const auto costs = config.model.options.find("costs");
  const bool is_measured =
      costs != config.model.options.end() && costs->second == OptionValue(model::kMeasuredCosts);
  return {true,
          fmt::format("same bits for any number of workers and hosts with these lanes, this instruction set "
                      "and libtorch{}",
                      is_measured ? ", and the model.latencies that job.toml has; measured again they "
                                    "differ"
                                  : "")};
}

}  // namespace distbelief::run
