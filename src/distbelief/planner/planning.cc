#include "distbelief/planner/planning.h"

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/compute/optimizer.h"

namespace distbelief::planner {
namespace {

using Json = nlohmann::json;

bool keeps_sums(const Config& resolved) {
  const std::unique_ptr<compute::Optimizer> optimizer = compute::make_optimizer(resolved.train.optimizer);
  const mesh::AllreduceGroup::Options group = run::group_options(resolved);
  const mesh::LanePlan plan = mesh::plan_lanes(1, {1}, 1);
  mesh::AllreduceSharing::Options sharing;
  sharing.plan = &plan;
  sharing.optimizer = optimizer.get();
  sharing.clip_norm = group.clip_norm;
  sharing.overlap = group.overlap;
  return mesh::AllreduceSharing::keeps_sums(sharing);
}

// Sums over a group per lane, forward and backward: one after each pair of layers, one before it in backward.
int exchanges_of(const std::string& model) {
  if (model == "gpt") return 4;  // attention and feed-forward
  if (model == "resnet18" || model == "resnet34") return 2;
  return model.starts_with("resnet") ? 4 : 1;
}

// The effect of tensor parallelism on each block. Throws Error(kBadInput) if it cannot slice them.
std::vector<TensorSplit> tensor_splits(const Config& config, const model::Blueprint& blueprint,
                                       const LaneCosts& lane) {
  const std::vector<double> shares = run::sliced_shares(config, blueprint);
  std::vector<TensorSplit> splits;
  for (std::size_t i = 0; i < lane.blocks.size(); ++i) {
    const bool inner = i > 0 && i + 1 < lane.blocks.size();
    splits.push_back({.share = shares[i],
                      .exchanges = shares[i] == 0 ? 0
                                   : inner        ? exchanges_of(config.model.name)
                                                  : 1});
  }
  return splits;
}

Json to_json(const MeshLayout& layout) {
  return {{"data", layout.mesh.data},
          {"pipeline", layout.mesh.pipeline},
          {"tensor", layout.mesh.tensor},
          {"zero", layout.zero},
          {"schedule", to_string(layout.schedule)},
          {"chunks", layout.chunks},
          {"recompute", layout.recompute},
          {"lanes", layout.lanes}};
}

}  // namespace

std::int64_t given_lanes(const Config& config) { return config.parallel.lanes * config.train.accumulate; }

LayoutJob layout_job(const Config& config, const std::vector<int>& workers_per_host) {
  Config resolved = config;
  run::resolve_for_workers(resolved, std::accumulate(workers_per_host.begin(), workers_per_host.end(), 0));
  return {.workers_per_host = workers_per_host,
          .batch = config.train.batch_size,
          .threads = int(config.parallel.threads),
          .accumulate = config.train.accumulate,
          .optimizer_arrays = int(compute::make_optimizer(config.train.optimizer)->state_names().size()),
          .keeps_sums = keeps_sums(resolved),
          .overlaps = resolved.parallel.overlap != "off",
          .snapshots = config.checkpoint.snapshots,
          .bucket_bytes = run::group_options(resolved).bucket_bytes,
          .prefetch = config.data.prefetch};
}

Plan plan_job(const PlanRequest& request, const PlanMeasurement& measured) {
  PlanInput input{.job = layout_job(request.config, request.workers_per_host),
                  .machine = measured.machine,
                  .lanes = measured.lanes,
                  .given_lanes = given_lanes(request.config),
                  .recompute = request.config.parallel.recompute,
                  .zero = int(request.config.parallel.zero),
                  .memory_limit = request.memory_limit};
  input.job.validated = measured.validated;
  std::map<int, std::string> unsliceable;
  if (const int workers =
          std::accumulate(request.workers_per_host.begin(), request.workers_per_host.end(), 0);
      workers > 1) {
    const model::Blueprint blueprint = run::prepare_blueprint(request.config).blueprint;
    Config sliced = request.config;
    for (int tensor = 2; tensor <= workers; ++tensor) {
      if (workers % tensor != 0) continue;
      sliced.parallel.tensor = tensor;
      try {
        input.tensor_splits[tensor] = tensor_splits(sliced, blueprint, measured.lanes.at(0));
      } catch (const Error& error) {
        unsliceable[tensor] = error.message();
      }
    }
  }
  input.refused = [&](const MeshLayout& layout) -> std::optional<std::string> {
    if (const auto found = unsliceable.find(layout.mesh.tensor); found != unsliceable.end())
      return found->second;
    if (request.refused) return request.refused(with_layout(request.config, layout));
    return std::nullopt;
  };
  return plan_layouts(input);
}

Config with_layout(Config config, const MeshLayout& layout) {
  config.parallel.mesh = "given";
  config.parallel.workers = layout.mesh.workers();
  config.parallel.data = layout.mesh.data;
  config.parallel.pipeline = layout.mesh.pipeline;
  config.parallel.tensor = layout.mesh.tensor;
  config.parallel.zero = layout.zero;
  config.parallel.zero_inside_host = layout.zero == 3;
  config.parallel.schedule = std::string(to_string(layout.schedule));
  config.parallel.chunks = layout.mesh.pipeline > 1 ? layout.chunks : 0;
  config.parallel.recompute = layout.recompute;
  config.parallel.lanes = layout.lanes;
  config.train.accumulate = 1;  // its micro-batches are included in the lanes
  config.parallel.cuts.clear();
  return config;
}

Json to_json(const PlannedLayout& planned) {
  const WorkerBytes& bytes = planned.bytes;
  Json json = to_json(planned.layout);
  json["cuts"] = std::vector<int>(planned.cuts.ends.begin(), planned.cuts.ends.end() - 1);
  json["step_seconds"] = planned.seconds.total();
  json["compute_seconds"] = planned.seconds.compute;
  json["exchange_seconds"] = planned.seconds.exchange;
  json["idle_share"] = planned.seconds.idle;
  json["samples_per_second"] = planned.samples_per_second;
  json["worker_bytes"] = bytes.total();
  json["resident_bytes"] = bytes.total() + bytes.mapped;
  json["bytes"] = {{"base", bytes.base},           {"parameters", bytes.parameters},
                   {"state", bytes.state},         {"gradients", bytes.gradients},
                   {"sums", bytes.sums},           {"activations", bytes.activations},
                   {"messages", bytes.messages},   {"batches", bytes.batches},
                   {"snapshots", bytes.snapshots}, {"saving", bytes.saving},
                   {"start", bytes.start},         {"mapped", bytes.mapped}};
  json["note"] = planned.note;
  return json;
}

Json to_json(const LeftOut& left) {
  Json json = to_json(left.layout);
  json["reason"] = left.reason;
  if (left.bytes_needed > 0) json["worker_bytes"] = left.bytes_needed;
  return json;
}

}  // namespace distbelief::planner
