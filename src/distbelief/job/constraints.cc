#include "distbelief/job/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "distbelief/base/parallel_defaults.h"
#include "distbelief/job/constraints_lbfgs.h"
#include "distbelief/job/constraints_servers.h"

namespace distbelief::job {
namespace {

// Each rule: what is wrong with the mix, or nothing. All values are in range by then.
using MaybeFault = std::optional<Fault>;

MaybeFault an_end(const Config& config) {
  if (config.train.epochs > 0 || config.train.max_steps > 0) return std::nullopt;
  return Fault{"train.epochs",
               "train.epochs and train.max_steps are both 0, so there is nothing to train; set one of them"};
}

MaybeFault partial_weights_need_a_file(const Config& config) {
  if (!config.train.init_partial || !config.train.init.empty()) return std::nullopt;
  return Fault{"train.init_partial",
               "train.init_partial (--init-partial) goes with a file of weights; give train.init (--init "
               "FILE.safetensors) too"};
}

MaybeFault nesterov_needs_momentum(const Config& config) {
  const OptimizerConfig& optimizer = config.train.optimizer;
  if (!optimizer.nesterov || (optimizer.name == "sgd" && optimizer.momentum > 0)) return std::nullopt;
  return Fault{
      "train.nesterov",
      fmt::format("train.nesterov needs train.optimizer = \"sgd\" with train.momentum greater than 0, found "
                  "\"{}\" with momentum {}; set those, or nesterov = false",
                  optimizer.name, optimizer.momentum)};
}

MaybeFault smoothing_needs_cross_entropy(const Config& config) {
  if (config.train.label_smoothing == 0 || config.train.loss == "cross_entropy") return std::nullopt;
  return Fault{
      "train.label_smoothing",
      fmt::format(
          "train.label_smoothing works with train.loss = \"cross_entropy\" only, found \"{}\"; set it to 0",
          config.train.loss)};
}

MaybeFault min_lr_below_lr(const Config& config) {
  const TrainConfig& train = config.train;
  if (train.schedule.min_lr <= train.optimizer.lr) return std::nullopt;
  return Fault{"train.min_lr", fmt::format("train.min_lr must not exceed train.lr, found {} and {}",
                                           train.schedule.min_lr, train.optimizer.lr)};
}

MaybeFault a_discriminator_to_have_a_rate(const Config& config) {
  if (config.train.lr_discriminator == 0) return std::nullopt;
  if (config.model.name != "dcgan")
    return Fault{"train.lr_discriminator",
                 fmt::format("train.lr_discriminator is for model dcgan, found \"{}\"; leave it out",
                             config.model.name)};
  if (!has_servers(config.parallel)) return std::nullopt;
  return Fault{"train.lr_discriminator",
               "parameter servers have one learning rate for all that is pushed; leave "
               "train.lr_discriminator out, or set parallel.sync = \"allreduce\""};
}

MaybeFault stopping_needs_validation(const Config& config) {
  const TrainConfig& train = config.train;
  const bool stops = train.early_stop_patience > 0 || train.target != 0;
  if (!stops || train.validate_every > 0) return std::nullopt;
  const std::string key = train.early_stop_patience > 0 ? "train.early_stop_patience" : "train.target";
  return Fault{"train.validate_every",
               key + " needs validation during training, but train.validate_every is 0; set it to 1 or more"};
}

// Workers of a pipeline share their lanes.
std::int64_t replicas_of(const ParallelConfig& parallel) {
  if (has_servers(parallel))
    return (takes_own_steps(parallel) ? 1 : parallel.workers) * std::max<std::int64_t>(1, parallel.data);
  return std::max<std::int64_t>(1, parallel.workers / (parallel.pipeline * parallel.tensor));
}

bool is_cut(const ParallelConfig& parallel) { return parallel.pipeline > 1 || parallel.tensor > 1; }

// The key that says over how many workers a network is cut.
std::string cut_key(const ParallelConfig& parallel) {
  return parallel.pipeline > 1 ? "parallel.pipeline" : "parallel.tensor";
}

MaybeFault a_cut_network_has_one_thread(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (!is_cut(parallel) || parallel.threads == 1) return std::nullopt;
  return Fault{"parallel.threads",
               fmt::format("parallel.threads must be 1 when {} cuts the network over workers, found {} "
                           "threads and {} workers; set one of them to 1",
                           cut_key(parallel), parallel.threads,
                           parallel.pipeline > 1 ? parallel.pipeline : parallel.tensor)};
}

MaybeFault a_cut_network_does_not_scale_itself(const Config& config) {
  if (!is_cut(config.parallel) || !config.elastic.automatic) return std::nullopt;
  return Fault{"elastic.auto",
               fmt::format("elastic.auto measures workers that hold the whole network; with {} "
                           "use `distbelief scale`",
                           cut_key(config.parallel))};
}

MaybeFault sharing_out_inside_a_host_is_of_parameters(const Config& config) {
  if (!config.parallel.zero_inside_host || config.parallel.zero == 3) return std::nullopt;
  return Fault{
      "parallel.zero_inside_host",
      fmt::format("parallel.zero_inside_host shares out parameters, which is parallel.zero = 3; found {}",
                  config.parallel.zero)};
}

MaybeFault features_for_a_tensor_group(const Config& config) {
  if (!config.parallel.split_features) return std::nullopt;
  if (config.parallel.tensor == 1)
    return Fault{"parallel.split_features",
                 "parallel.split_features shares columns out over a tensor group, but parallel.tensor is 1; "
                 "raise it, or leave split_features out"};
  if (config.data.augment.empty()) return std::nullopt;
  return Fault{"data.augment",
               "data.augment moves pixels between columns, which parallel.split_features gives to "
               "different workers; leave one of them out"};
}

// Refuses keys that the planner chooses.
MaybeFault auto_chooses_the_mesh(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.mesh != "auto") return std::nullopt;
  const char* key = parallel.data > 0                                ? "parallel.data"
                    : parallel.pipeline > 1                          ? "parallel.pipeline"
                    : parallel.tensor > 1                            ? "parallel.tensor"
                    : parallel.chunks > 0                            ? "parallel.chunks"
                    : parallel.split_features                        ? "parallel.split_features"
                    : parallel.recompute                             ? "parallel.recompute"
                    : parallel.schedule != ParallelConfig{}.schedule ? "parallel.schedule"
                    : parallel.cuts.empty()                          ? nullptr
                                                                     : "parallel.cuts";
  if (key == nullptr) return std::nullopt;
  return Fault{key, fmt::format("parallel.mesh = \"auto\" chooses {} itself; leave one of them out", key)};
}

MaybeFault stages_to_schedule(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pipeline > 1 || parallel.mesh == "auto") return std::nullopt;
  const char* key = parallel.schedule != ParallelConfig{}.schedule ? "parallel.schedule"
                    : parallel.chunks > 1                          ? "parallel.chunks"
                    : parallel.recompute                           ? "parallel.recompute"
                                                                   : nullptr;
  if (key == nullptr) return std::nullopt;
  return Fault{key, fmt::format("{} is about the stages of a pipeline, but parallel.pipeline is 1; raise it, "
                                "or leave {} out",
                                key, key)};
}

MaybeFault cuts_for_all_stages(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.cuts.empty()) return std::nullopt;
  const std::int64_t stages =
      is_decomposed(parallel) ? parallel.sub_networks : parallel.pipeline * stages_per_worker(parallel);
  if (std::int64_t(parallel.cuts.size()) + 1 == stages) return std::nullopt;
  return Fault{"parallel.cuts",
               fmt::format("parallel.cuts names the first block of every stage or sub-network but the first; "
                           "{} of these want {} cuts, found {}",
                           stages, stages - 1, parallel.cuts.size())};
}

MaybeFault lanes_for_all_threads(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (is_cut(parallel) && parallel.lanes > 0 && parallel.lanes < replicas_of(parallel))
    return Fault{"parallel.lanes",
                 fmt::format("parallel.lanes must be 0 or at least the number of replicas, {}; "
                             "found {}",
                             replicas_of(parallel), parallel.lanes)};
  if (is_cut(parallel)) return std::nullopt;
  if (parallel.lanes == 0 || parallel.lanes >= replicas_of(parallel) * parallel.threads) return std::nullopt;
  return Fault{
      "parallel.lanes",
      fmt::format(
          "parallel.lanes must be 0 or at least workers times threads ({} x {}), so that each has one; "
          "found {}",
          replicas_of(parallel), parallel.threads, parallel.lanes)};
}

std::int64_t lanes_of(const ParallelConfig& parallel) {
  return parallel.lanes > 0 ? parallel.lanes : default_lanes(parallel);
}

MaybeFault samples_for_all_lanes(const Config& config) {
  const std::int64_t carried = lanes_of(config.parallel);
  const std::int64_t lanes = carried * config.train.accumulate;
  if (config.train.batch_size >= lanes) return std::nullopt;
  return Fault{
      "train.batch_size",
      fmt::format(
          "train.batch_size must be at least the number of lanes, {} ({} times accumulate {}), or some "
          "would never have a sample; found {}",
          lanes, carried, config.train.accumulate, config.train.batch_size)};
}

MaybeFault early_update_needs_no_norms(const Config& config) {
  if (config.parallel.overlap != "update") return std::nullopt;
  const std::string& optimizer = config.train.optimizer.name;
  std::string reason;
  if (config.train.clip_norm > 0) {
    reason = "train.clip_norm needs the norm of the whole gradient";
  } else if (optimizer == "lars" || optimizer == "lamb") {
    reason = fmt::format("train.optimizer = \"{}\" needs the norms of whole layers", optimizer);
  } else {
    return std::nullopt;
  }
  return Fault{
      "parallel.overlap",
      fmt::format("parallel.overlap = \"update\" changes weights while the backward pass still runs, but {} "
                  "first; use overlap = \"reduce\" or \"auto\"",
                  reason)};
}

// Gradients that pass through a window are not whole when a bucket is.
MaybeFault checks_whole_gradients(const Config& config) {
  if (config.parallel.overlap != "check" || config.parallel.zero == 1) return std::nullopt;
  return Fault{"parallel.overlap",
               fmt::format("parallel.overlap = \"check\" watches parameters that are held whole; check with "
                           "parallel.zero = 1, found {}",
                           config.parallel.zero)};
}

MaybeFault ring_is_not_reproducible(const Config& config) {
  if (!config.train.reproducible || config.parallel.algorithm != "ring") return std::nullopt;
  return Fault{"parallel.algorithm",
               "parallel.algorithm = \"ring\" adds in an order that depends on the number of hosts, which "
               "train.reproducible = true rules out; use algorithm = \"direct\" (it moves the same bytes) or "
               "reproducible = false"};
}

MaybeFault scaling_needs_snapshots(const Config& config) {
  if (!config.elastic.automatic || config.checkpoint.snapshots) return std::nullopt;
  return Fault{
      "elastic.auto",
      "elastic.auto changes the number of workers by a hand-over, which needs checkpoint.snapshots = "
      "true; set one or the other"};
}

MaybeFault min_below_max(const Config& config) {
  const ElasticConfig& elastic = config.elastic;
  if (elastic.max == 0 || elastic.min <= elastic.max) return std::nullopt;
  return Fault{"elastic.min",
               fmt::format("elastic.min must not exceed elastic.max, found {} and {}; lower the one or raise "
                           "the other",
                           elastic.min, elastic.max)};
}

// Hosts of a file or a command come and go: the run waits until there are enough.
MaybeFault workers_within_bounds(const Config& config) {
  const ElasticConfig& elastic = config.elastic;
  const std::int64_t workers = config.parallel.workers;
  const bool finds_hosts = !elastic.hostfile.empty() || !elastic.discovery.empty();
  if (workers < elastic.min && !finds_hosts)
    return Fault{"elastic.min",
                 fmt::format("elastic.min must not exceed the number of workers, found {} and {}; start more "
                             "workers, or lower elastic.min",
                             elastic.min, workers)};
  if (elastic.max > 0 && workers > elastic.max)
    return Fault{
        "elastic.max",
        fmt::format("elastic.max must be 0 or at least the number of workers, found {} and {}; start "
                    "fewer workers, or raise elastic.max",
                    elastic.max, workers)};
  return std::nullopt;
}

// Lanes stay as they are for the job's life, those that came with the first workers too.
MaybeFault lanes_for_elastic_bounds(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t lanes = lanes_of(parallel) * config.train.accumulate;
  if (takes_own_steps(parallel)) return std::nullopt;  // any number of replicas finds work
  const std::int64_t most = lanes / parallel.threads * parallel.pipeline * parallel.tensor;
  for (const auto& [key, bound] :
       {std::pair{"elastic.min", config.elastic.min}, std::pair{"elastic.max", config.elastic.max}})
    if (bound > most)
      return Fault{key,
                   fmt::format("{} is {}, but {} lanes keep at most {} workers with {} thread{} each "
                               "busy; lower it, or raise parallel.lanes",
                               key, bound, lanes, most, parallel.threads, parallel.threads == 1 ? "" : "s")};
  return std::nullopt;
}

}  // namespace

std::vector<Fault> impossible_mixes(const Config& config) {
  std::vector<Fault> faults;
  for (auto rule : {an_end,
                    auto_chooses_the_mesh,
                    sharing_out_inside_a_host_is_of_parameters,
                    partial_weights_need_a_file,
                    nesterov_needs_momentum,
                    smoothing_needs_cross_entropy,
                    min_lr_below_lr,
                    a_discriminator_to_have_a_rate,
                    stopping_needs_validation,
                    a_cut_network_has_one_thread,
                    a_cut_network_does_not_scale_itself,
                    features_for_a_tensor_group,
                    stages_to_schedule,
                    cuts_for_all_stages,
                    lanes_for_all_threads,
                    samples_for_all_lanes,
                    early_update_needs_no_norms,
                    checks_whole_gradients,
                    ring_is_not_reproducible,
                    scaling_needs_snapshots,
                    min_below_max,
                    workers_within_bounds,
                    lanes_for_elastic_bounds}) {
    if (auto fault = rule(config)) faults.push_back(*std::move(fault));
  }
  if (auto fault = impossible_with_servers(config)) faults.push_back(*std::move(fault));
  if (auto fault = impossible_with_lbfgs(config)) faults.push_back(*std::move(fault));
  return faults;
}

}  // namespace distbelief::job
