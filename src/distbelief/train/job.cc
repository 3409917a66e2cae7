#include "distbelief/train/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/compute/replica.h"
#include "distbelief/data/sampling.h"

namespace distbelief::train {

model::DataShape shape_of(const data::SampleSpec& spec) {
  return {
      .tokens = spec.input_type == ElementType::kInt64, .input = spec.input_shape, .classes = spec.classes};
}

std::int64_t PreparedJob::steps_per_epoch() const {
  return std::int64_t(data::EpochPlan{data.train->size(), std::uint64_t(config.train.batch_size), 1}.steps());
}

std::int64_t PreparedJob::total_steps() const {
  if (config.train.epochs == 0) return config.train.max_steps;
  const std::int64_t all = steps_per_epoch() * config.train.epochs;
  return config.train.max_steps > 0 ? std::min(all, config.train.max_steps) : all;
}

PreparedJob prepare_job(const Config& config) {
  PreparedJob job;
  job.config = config;
  job.data = data::open_data_set(config.data);
  if (job.data.train->size() == 0)
    throw Error(ErrorCode::kBadInput, "the data set has no samples to train on");
  job.shape = shape_of(job.data.train->spec());
  job.network = model::build_model(config.model, job.shape, config.train.seed);
  compute::trainable_parameters(*job.network);  // refuses what the arena cannot hold
  return job;
}

void resolve_for_workers(Config& config, int workers) {
  config.parallel.workers = workers;
  if (config.parallel.lanes == 0) config.parallel.lanes = workers * config.parallel.threads;
  config.parallel.lanes *= config.train.accumulate;  // a micro-batch is a lane
  config.train.accumulate = 1;
  if (config.parallel.overlap == "auto") {
    const bool needs_norms = config.train.clip_norm > 0 || config.train.optimizer.name == "lars" ||
                             config.train.optimizer.name == "lamb";
    config.parallel.overlap = needs_norms ? "reduce" : "update";
  }
  if (config.parallel.algorithm == "auto") config.parallel.algorithm = "direct";
}

strategy::AllreduceGroup::Options group_options(const Config& config) {
  using strategy::Overlap;
  strategy::AllreduceGroup::Options options;
  options.lanes = config.parallel.lanes;
  options.threads = int(config.parallel.threads);
  options.optimizer = config.train.optimizer;
  options.clip_norm = config.train.clip_norm;
  options.overlap = config.parallel.overlap == "update"   ? Overlap::kUpdate
                    : config.parallel.overlap == "reduce" ? Overlap::kReduce
                                                          : Overlap::kOff;
  options.bucket_bytes = std::size_t(config.parallel.bucket_mb * 1024 * 1024);
  return options;
}

comm::Algorithm algorithm_of(const Config& config) {
  if (config.parallel.algorithm == "ring") return comm::Algorithm::kRing;
  if (config.parallel.algorithm == "central") return comm::Algorithm::kCentral;
  return comm::Algorithm::kDirect;
}

std::string build_name(const std::string& isa) {
  return fmt::format("instruction set {}, libtorch {}", isa, TORCH_VERSION);
}

Reproducibility reproducibility(const Config& config, int hosts) {
  if (config.parallel.algorithm == "ring" && hosts > 1)
    return {false, "parallel.algorithm = \"ring\" adds in ring order, which depends on the number of hosts"};
  return {
      true,
      "same bits for any number of workers and hosts with these lanes, this instruction set and libtorch"};
}

}  // namespace distbelief::train
