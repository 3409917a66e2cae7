#include "distbelief/job/constraints_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "distbelief/base/parallel_defaults.h"

namespace distbelief::job {
namespace {

std::optional<Fault> only_for(const char* key, const std::string& wanted, const std::string& found) {
  if (key == nullptr) return std::nullopt;
  return Fault{key, fmt::format("{} is for {}, found \"{}\"; set that, or leave it out", key, wanted, found)};
}

std::optional<Fault> only_with_servers(const ParallelConfig& parallel) {
  const ParallelConfig plain;
  const char* const key = parallel.servers != plain.servers                 ? "parallel.servers"
                          : parallel.mode != plain.mode                     ? "parallel.mode"
                          : parallel.staleness != plain.staleness           ? "parallel.staleness"
                          : parallel.fetch_every != plain.fetch_every       ? "parallel.fetch_every"
                          : parallel.push_every != plain.push_every         ? "parallel.push_every"
                          : parallel.warm_start != plain.warm_start         ? "parallel.warm_start"
                          : parallel.spare_replicas != plain.spare_replicas ? "parallel.spare_replicas"
                          : parallel.delay_compensation != 0                ? "parallel.delay_compensation"
                          : parallel.staleness_aware                        ? "parallel.staleness_aware"
                          : parallel.sub_networks != plain.sub_networks     ? "parallel.sub_networks"
                          : parallel.window != plain.window                 ? "parallel.window"
                                                                            : nullptr;
  return only_for(key, "parallel.sync = \"parameter_server\"", parallel.sync);
}

// Whose rows lie on servers (model/tables.h).
bool has_tables(const std::string& model) { return model == "click_through" || model == "word2vec"; }

std::optional<Fault> with_tables(const Config& config) {
  if (config.parallel.mode != "async" && config.parallel.mode != "bounded")
    return Fault{
        "parallel.mode",
        fmt::format("rows of tables are updated as they come, so model {} cannot have allreduce's bits; "
                    "set parallel.mode = \"async\" or \"bounded\"",
                    config.model.name)};
  if (config.parallel.push_every > 1)
    return Fault{
        "parallel.push_every",
        fmt::format("model {} pushes the rows that a step touches with each step; set parallel.push_every "
                    "= 1",
                    config.model.name)};
  if (workers_per_replica(config.parallel) * config.parallel.threads > 1)
    return Fault{"parallel.data",
                 fmt::format("the one worker of a replica of model {} gets its rows, on one thread; leave "
                             "parallel.data, pipeline, tensor and threads at 1, and set parallel.workers to "
                             "how many replicas there are",
                             config.model.name)};
  // Settings that would reach the dense parameters only.
  const std::pair<const char*, bool> dense[] = {
      {"parallel.staleness_aware", config.parallel.staleness_aware},
      {"parallel.delay_compensation", config.parallel.delay_compensation != 0},
      {"train.weight_decay", config.train.optimizer.weight_decay != 0},
      {"train.clip_norm", config.train.clip_norm != 0}};
  for (const auto& [key, is_set] : dense)
    if (is_set)
      return Fault{key,
                   fmt::format("rows of tables have Adagrad of their own: {} would have no effect on those "
                               "of model {}, which are nearly all of it; set it to {}",
                               key, config.model.name, key == dense[0].first ? "false" : "0")};
  return std::nullopt;
}

// The key of one that is set; null: none is.
const char* stopping_rule(const TrainConfig& train) {
  if (train.early_stop_patience > 0) return "train.early_stop_patience";
  return train.target != 0 ? "train.target" : nullptr;
}

// A replica that comes too late passes over steps.
std::optional<Fault> with_spares(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.spare_replicas == 0) return std::nullopt;
  if (parallel.spare_replicas >= parallel.workers)
    return Fault{"parallel.spare_replicas", fmt::format("{} spare replicas of {}: nobody would be waited for",
                                                        parallel.spare_replicas, parallel.workers)};
  if (config.data.order == "streams")
    return Fault{"data.order",
                 "replicas that are not waited for pass over steps and do not read on where they were; use "
                 "data.order = \"shuffled\", or parallel.spare_replicas = 0"};
  if (const char* const rule = stopping_rule(config.train))
    return Fault{
        rule,
        "replicas that are not waited for validate at other steps than the others and would stop at others; "
        "stopping rules want parallel.spare_replicas = 0"};
  return std::nullopt;
}

std::optional<Fault> in_every_step(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t lanes = parallel.lanes > 0 ? parallel.lanes * config.train.accumulate
                                                : default_lanes(parallel) * config.train.accumulate;
  const std::int64_t each = lanes / parallel.workers;
  if (lanes % parallel.workers != 0 || !std::has_single_bit(std::uint64_t(each)))
    return Fault{
        "parallel.lanes",
        fmt::format("servers add up whole nodes of the tree over the lanes: mode \"sync\" wants as "
                    "many lanes for each of {} replicas, 1, 2, 4 or another power of two; found {} in "
                    "all; set parallel.lanes = {}",
                    parallel.workers, lanes,
                    parallel.workers * std::int64_t(std::bit_ceil(
                                           std::uint64_t(default_lanes(parallel) / parallel.workers))))};
  if (config.train.clip_norm > 0)
    return Fault{"train.clip_norm",
                 "no server has the norm of the whole gradient: train.clip_norm does not go with mode "
                 "\"sync\"; set it to 0, or use mode \"async\", where each replica clips its own"};
  if (std::optional<Fault> fault = with_spares(config)) return fault;
  if (parallel.warm_start > 0)
    return Fault{
        "parallel.warm_start",
        "in mode \"sync\" all replicas take part in every step; leave parallel.warm_start out, or use "
        "mode \"async\""};
  if (parallel.fetch_every > 1 || parallel.push_every > 1)
    return Fault{parallel.fetch_every > 1 ? "parallel.fetch_every" : "parallel.push_every",
                 "in mode \"sync\" every step pushes and fetches; use mode \"async\""};
  return std::nullopt;
}

// The bound counts steps; what is pushed or fetched less often would be staler than it says.
std::optional<Fault> within_bound(const ParallelConfig& parallel) {
  if (parallel.mode != "bounded") return std::nullopt;
  const char* const key = parallel.fetch_every > 1  ? "parallel.fetch_every"
                          : parallel.push_every > 1 ? "parallel.push_every"
                                                    : nullptr;
  if (key == nullptr) return std::nullopt;
  return Fault{key, fmt::format("in mode \"bounded\" every step pushes and fetches, or parameters would be "
                                "staler than parallel.staleness allows; set {} = 1, or use mode \"async\"",
                                key)};
}

std::optional<Fault> at_own_pace(const Config& config) {
  if (std::optional<Fault> fault = within_bound(config.parallel)) return fault;
  if (config.parallel.spare_replicas > 0)
    return Fault{"parallel.spare_replicas",
                 "nobody waits for a slow replica unless parallel.mode = \"sync\"; leave it out"};
  if (config.data.order == "streams")
    return Fault{"data.order",
                 "replicas that take steps of their own do not read on where they were; use data.order = "
                 "\"shuffled\", or parallel.mode = \"sync\""};
  if (const char* const rule = stopping_rule(config.train))
    return Fault{
        rule,
        "all work is dealt out in advance when replicas take steps of their own; stopping rules want "
        "parallel.mode = \"sync\""};
  return std::nullopt;
}

// Keys that would have no effect.
std::optional<Fault> only_where_stale(const ParallelConfig& parallel) {
  if (parallel.mode != "bounded" && parallel.staleness != ParallelConfig().staleness)
    return only_for("parallel.staleness", "parallel.mode = \"bounded\"", parallel.mode);
  if (takes_own_steps(parallel)) return std::nullopt;
  const char* const key = parallel.delay_compensation != 0 ? "parallel.delay_compensation"
                          : parallel.staleness_aware       ? "parallel.staleness_aware"
                                                           : nullptr;
  return only_for(key, "gradients of older parameters, which parallel.mode = \"async\" has", parallel.mode);
}

std::optional<Fault> only_decomposed(const ParallelConfig& parallel) {
  const ParallelConfig plain;
  const char* const key = parallel.sub_networks != plain.sub_networks ? "parallel.sub_networks"
                          : parallel.window != plain.window           ? "parallel.window"
                                                                      : nullptr;
  return only_for(key, "parallel.mode = \"decomposed\"", parallel.mode);
}

// Each step of a sub-network is one push, one input and one output.
std::optional<Fault> in_sub_networks(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.workers < parallel.sub_networks)
    return Fault{
        "parallel.workers",
        fmt::format("each of {} sub-networks wants a replica, found {}; set parallel.workers (or "
                    "--workers) to {} or more, or parallel.sub_networks to {}",
                    parallel.sub_networks, parallel.workers, parallel.sub_networks, parallel.workers)};
  if (parallel.sub_networks < 2)
    return Fault{"parallel.sub_networks",
                 "a model that is decomposed has two sub-networks or more; use parallel.mode = \"async\" for "
                 "a whole one"};
  const std::pair<const char*, bool> alone[] = {{"parallel.push_every", parallel.push_every > 1},
                                                {"parallel.fetch_every", parallel.fetch_every > 1},
                                                {"parallel.data", parallel.data > 1},
                                                {"parallel.pipeline", parallel.pipeline > 1},
                                                {"parallel.tensor", parallel.tensor > 1},
                                                {"parallel.threads", parallel.threads > 1},
                                                {"parallel.lanes", parallel.lanes > 1},
                                                {"train.accumulate", config.train.accumulate > 1}};
  for (const auto& [key, is_set] : alone)
    if (is_set)
      return Fault{key, fmt::format("in mode \"decomposed\" a replica is one worker with one lane, and every "
                                    "step is one push, one input and one output; set {} to 1",
                                    key)};
  if (parallel.warm_start > 0)
    return Fault{"parallel.warm_start",
                 "sub-networks of a decomposed model begin together; leave parallel.warm_start out"};
  if (parallel.delay_compensation > 0)
    return Fault{"parallel.delay_compensation",
                 "the first replica of a decomposed model also fetches it whole, so that servers cannot tell "
                 "which parameters its gradients are of; leave parallel.delay_compensation out"};
  if (!config.train.init.empty())
    return Fault{"train.init",
                 "a file with weights has none for the local heads of a decomposed model; leave train.init "
                 "out"};
  return std::nullopt;
}

}  // namespace

std::optional<Fault> impossible_with_servers(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (!has_servers(parallel) && has_tables(config.model.name))
    return Fault{"parallel.sync",
                 fmt::format("the rows of model {} lie on parameter servers; set parallel.sync = "
                             "\"parameter_server\" and parallel.mode = \"async\"",
                             config.model.name)};
  if (!has_servers(parallel)) return only_with_servers(parallel);
  const std::string& rule = config.train.optimizer.name;
  if (rule == "lars" || rule == "lamb")
    return Fault{"train.optimizer",
                 fmt::format("{} needs norms of whole parameters, which no server has; servers apply sgd, "
                             "adagrad, adam and adamw",
                             rule)};
  if (parallel.zero > 1 || parallel.mesh == "auto")
    return Fault{
        parallel.zero > 1 ? "parallel.zero" : "parallel.mesh",
        "with parameter servers the state of the update rule is on the servers, and a replica's workers have "
        "its parameters together; leave parallel.zero and parallel.mesh at their defaults; parallel.data, "
        "pipeline and tensor say how many workers a replica has, parallel.workers how many replicas there "
        "are"};
  if (!parallel.state_dir.empty())
    return Fault{
        "parallel.state_dir",
        "with parameter servers the state of the update rule is on the servers, in their memory; leave "
        "parallel.state_dir out"};
  if (config.elastic.automatic || config.elastic.standby || !config.elastic.hostfile.empty() ||
      !config.elastic.discovery.empty() || !config.elastic.spares.empty())
    return Fault{"parallel.sync",
                 "elastic.auto, standby, hostfile, discovery and spares do not go with parameter servers; "
                 "leave them out"};
  if (has_tables(config.model.name))
    if (std::optional<Fault> fault = with_tables(config)) return fault;
  if (std::optional<Fault> fault =
          is_decomposed(parallel) ? in_sub_networks(config) : only_decomposed(parallel))
    return fault;
  if (std::optional<Fault> fault = only_where_stale(parallel)) return fault;
  return takes_own_steps(parallel) ? at_own_pace(config) : in_every_step(config);
}

}  // namespace distbelief::job
