#include "distbelief/job/constraints_lbfgs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "distbelief/base/parallel_defaults.h"

namespace distbelief::job {
namespace {

constexpr const char* kMode = "sandblaster";

std::optional<Fault> only_with_lbfgs(const Config& config) {
  if (has_servers(config.parallel) && config.parallel.mode == kMode)
    return Fault{
        "train.optimizer",
        fmt::format("parallel.mode = \"sandblaster\" is for train.optimizer = \"lbfgs\", found \"{}\"; "
                    "set that, or use mode \"async\"",
                    config.train.optimizer.name)};
  return std::nullopt;
}

// The loss of the batch has to be the same function whenever it is asked for.
std::optional<Fault> something_random(const Config& config) {
  if (!config.data.augment.empty())
    return Fault{"data.augment",
                 "L-BFGS needs the same loss at every evaluation, which data.augment changes; "
                 "leave it out"};
  for (const auto& [name, value] : config.model.options) {
    const auto* rate = std::get_if<double>(&value);
    if (name.find("dropout") != std::string::npos && rate != nullptr && *rate > 0)
      return Fault{"model." + name,
                   fmt::format("L-BFGS needs the same loss at every evaluation, which model.{} = {} changes; "
                               "set it to 0",
                               name, *rate)};
  }
  constexpr std::array kRandom{"vae", "masked_tokens", "actor_critic",
                               "gan", "few_labels",    "architecture_search"};
  if (std::ranges::find(kRandom, config.train.task) != kRandom.end())
    return Fault{
        "train.task",
        fmt::format("L-BFGS minimises one loss that is the same at every evaluation, which the task "
                    "\"{}\" has not; use classification, regression, segmentation, autoencoder or ctc",
                    config.train.task)};
  return std::nullopt;
}

std::optional<Fault> another_way_to_train(const Config& config) {
  const TrainConfig& train = config.train;
  const ParallelConfig& parallel = config.parallel;
  if (train.max_steps > 0)
    return Fault{"train.max_steps",
                 "with L-BFGS an epoch is an evaluation of the whole batch, and none can be cut short; limit "
                 "their number with train.epochs, and leave max_steps out"};
  if (train.clip_norm > 0)
    return Fault{"train.clip_norm",
                 "a clipped gradient is not that of the loss, which L-BFGS needs; set "
                 "train.clip_norm to 0"};
  if (train.early_stop_patience > 0 || train.target != 0)
    return Fault{train.early_stop_patience > 0 ? "train.early_stop_patience" : "train.target",
                 "L-BFGS ends where the gradient is as small as train.eps; leave other stopping rules "
                 "out"};
  if (parallel.pipeline > 1 || parallel.tensor > 1 || parallel.threads > 1 || parallel.zero > 1 ||
      parallel.mesh == "auto" || config.elastic.automatic)
    return Fault{"train.optimizer",
                 "with L-BFGS every worker holds the whole network and has one thread; leave pipeline, "
                 "tensor, threads, zero, mesh and elastic.auto at their defaults"};
  return std::nullopt;
}

std::optional<Fault> another_way_to_push(const ParallelConfig& parallel) {
  if (parallel.data > 1)
    return Fault{"parallel.data",
                 fmt::format("in parallel.mode = \"sandblaster\" a replica is one worker, found "
                             "parallel.data = {}; leave it out, and raise parallel.workers",
                             parallel.data)};
  const ParallelConfig plain;
  const char* const key = parallel.staleness != plain.staleness       ? "parallel.staleness"
                          : parallel.fetch_every != plain.fetch_every ? "parallel.fetch_every"
                          : parallel.push_every != plain.push_every   ? "parallel.push_every"
                          : parallel.warm_start > 0                   ? "parallel.warm_start"
                          : parallel.spare_replicas > 0               ? "parallel.spare_replicas"
                          : parallel.delay_compensation != 0          ? "parallel.delay_compensation"
                          : parallel.staleness_aware                  ? "parallel.staleness_aware"
                                                                      : nullptr;
  if (key == nullptr) return std::nullopt;
  return Fault{key,
               fmt::format("in parallel.mode = \"sandblaster\" all gradients of an evaluation are of the "
                           "same point: {} has no meaning; leave it out",
                           key)};
}

}  // namespace

std::optional<Fault> impossible_with_lbfgs(const Config& config) {
  if (config.train.optimizer.name != "lbfgs") return only_with_lbfgs(config);
  if (has_servers(config.parallel) && config.parallel.mode != kMode)
    return Fault{"parallel.mode",
                 fmt::format("with parameter servers train.optimizer = \"lbfgs\" is parallel.mode = "
                             "\"sandblaster\", found \"{}\"; set that",
                             config.parallel.mode)};
  if (!has_servers(config.parallel) && config.parallel.sync != "allreduce")
    return Fault{
        "parallel.sync",
        fmt::format("train.optimizer = \"lbfgs\" is a way between replicas of its own and does not go "
                    "with parallel.sync = \"{}\"; leave one of them out",
                    config.parallel.sync)};
  if (auto fault = something_random(config)) return fault;
  if (auto fault = another_way_to_train(config)) return fault;
  if (has_servers(config.parallel)) return another_way_to_push(config.parallel);
  return std::nullopt;
}

}  // namespace distbelief::job
