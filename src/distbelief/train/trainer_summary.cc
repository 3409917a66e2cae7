#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "distbelief/base/host_name.h"
#include "distbelief/base/json_text.h"
#include "distbelief/comm/texts.h"
#include "distbelief/report/memory.h"
#include "distbelief/run/clusters.h"
#include "distbelief/run/generated.h"
#include "distbelief/run/own_tensors.h"
#include "distbelief/run/patience.h"
#include "distbelief/run/predictions.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/trainer.h"

// How a run is reported at its end: the part of Trainer that only looks.
namespace distbelief::train {
// The clock's view, with the strategy's own work during backward taken out of it.
report::PhaseSeconds Trainer::phases() {
  using report::Phase;
  const auto at = [](Phase phase) { return std::size_t(phase); };
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  report::PhaseSeconds result = team_->clock().seconds();
  std::chrono::nanoseconds early{}, late{}, updating{};
  for (const mesh::Stage& stage : stages_) {
    early += stage.group->sharing(0).times().early;
    late += stage.group->sharing(0).times().late;
    updating += stage.group->sharing(0).times().updating;
  }
  const double waited = std::max(0.0, result[at(Phase::kExchange)] - seconds(late));  // for other stages
  result[at(Phase::kBackward)] -= seconds(early);
  result[at(Phase::kUpdate)] = seconds(updating);
  result[at(Phase::kExchange)] = waited + std::max(0.0, seconds(early + late - updating));
  for (std::size_t i = 0; phases_before_ && i < result.size(); ++i) result[i] += (*phases_before_)[i];
  return result;
}

std::string Trainer::worker_summary() {
  std::vector<std::int64_t> lanes;
  for (int t = 0; t < group().threads(); ++t)
    lanes.insert(lanes.end(), group().carrier(t).lanes.begin(), group().carrier(t).lanes.end());
  std::vector<std::int64_t> stages;
  std::size_t parameters = 0, bytes = 0;
  for (const mesh::Stage& stage : stages_) {
    stages.push_back(stage.index);
    parameters += stage.group->parameters_held();
    bytes += stage.group->bytes_held();
    if (stage.group->shares_out_parameters())
      bytes += std::size_t(stage.group->threads()) * sizeof(float) *
               compute::GatheredArena::most_held(mesh::block_spans(*stage.network, stage.group->layout()));
  }
  const report::WorkerSummary worker{.rank = world_.rank(),
                                     .pid = getpid(),
                                     .host = host_name(),
                                     .lanes = lanes,
                                     .stages = stages,
                                     .parameters = std::int64_t(parameters),
                                     .bytes_held = bytes,
                                     .peak_rss_bytes = report::peak_rss_bytes(),
                                     .phase_seconds = phases()};
  return report::to_json(worker).dump();
}

report::Summary Trainer::summarise(double wall_seconds) {
  const std::vector<std::string> workers = comm::exchange_texts(world_.communicator(), worker_summary());
  report::Summary summary;
  for (const std::string& text : workers)
    summary.per_worker.push_back(
        report::worker_summary_from_json(parse_json(text, "the summary of a worker")));
  summary.status = status_;
  summary.steps = progress_.step;
  summary.epochs = progress_.epoch;
  summary.samples = progress_.samples;
  if (progress_.step > 0) summary.final_train_loss = progress_.last_loss;
  if (progress_.evaluated) {
    const bool classifies =
        progress_.test_metrics.empty() || tasks::find_metric(progress_.test_metrics, "accuracy");
    if (classifies) summary.test_accuracy = progress_.test_accuracy;
    summary.test_loss = progress_.test_loss;
    if (classifies) summary.best_test_accuracy = progress_.best_accuracy;
    for (const tasks::Metric& metric : progress_.test_metrics)
      summary.test_metrics[metric.name] = metric.value;
  }
  summary.wall_seconds = wall_seconds;
  summary.samples_per_second = double(progress_.samples - samples_before_) / std::max(1e-9, wall_seconds);
  summary.step_seconds_median = recorder_ ? recorder_->step_seconds_median() : 0;
  summary.workers = world_.size();
  summary.lanes = job_.config.parallel.lanes;
  summary.threads = job_.config.parallel.threads;
  summary.data = mesh_plan_.mesh.data;
  summary.pipeline = mesh_plan_.mesh.pipeline;
  summary.tensor = mesh_plan_.mesh.tensor;
  summary.zero = job_.config.parallel.zero;
  for (std::size_t i = 1; i < outline_.stages.size(); ++i)
    summary.cuts.push_back(outline_.stages[i].blocks.begin);
  if (mesh_plan_.mesh.pipeline > 1) {
    summary.schedule = std::string(to_string(mesh_plan_.schedule));
    summary.chunks = mesh_plan_.chunks;
    summary.recompute = job_.config.parallel.recompute;
  }
  for (std::size_t i = 1; i < job_.sub_networks.size(); ++i)  // blocks of the model, without the heads
    summary.cuts.push_back(job_.sub_networks[i].blocks.begin - int(i));
  for (const auto& parameter : kept_outline().parameters)
    summary.parameters += element_count(parameter.shape);
  if (is_root() && checkpointer_.parts() == 1)
    summary.weights_sha256 = checkpoint::sha256_by_name(run::weight_views(kept()[0]));
  else if (leads() && status_ != "handed over" && checkpointer_.parts() > 1)
    run::do_patiently(world_, [&] {  // it is read from the disk
      if (is_root()) summary.weights_sha256 = checkpointer_.weights_sha256(progress_.step);
    });
  for (const auto& worker : summary.per_worker)
    summary.peak_rss_bytes = std::max(summary.peak_rss_bytes, worker.peak_rss_bytes);
  run::Reproducibility same_bits = run::reproducibility(job_.config, world_.hosts(), progress_.tensor);
  if (!progress_.bits_lost.empty()) same_bits = {false, progress_.bits_lost};
  if (job_.data_has_changed)
    same_bits = {false, "the data files were changed before the run went on (data.json has their marks)"};
  summary.reproducible = same_bits.holds;
  summary.reproducible_note = same_bits.note;
  summary.algorithm = world_.hosts() == 1 ? "shared memory" : job_.config.parallel.algorithm;
  summary.overlap = job_.config.parallel.overlap;
  const auto& times = group().sharing(0).times();
  const auto all = std::chrono::duration<double>(times.early + times.late).count();
  summary.hidden_exchange_share = all > 0 ? std::chrono::duration<double>(times.early).count() / all : 0;
  summary.generations = start_.generation;
  summary.recoveries = start_.recoveries;
  if (snapshotter_) summary.snapshot_seconds = snapshotter_->seconds();
  summary.isa = options_.isa;
  summary.libtorch_version = TORCH_VERSION;
  summary.mpi_version = world_.mpi_version();
  summary.phase_seconds = phases();
  return summary;
}

void Trainer::keep_answers() {
  model::Network& network = *kept()[0].network;
  run::keep_predictions(job_, network, options_.run_dir);
  run::keep_samples(job_, network, options_.run_dir);
  try {
    constexpr std::chrono::seconds kClusterTime{20};  // the other workers wait
    run::keep_clusters(job_, network, options_.run_dir, kClusterTime);
  } catch (const std::exception& error) {
    spdlog::warn("no clusters of the codes: {}", error.what());
  }
}

// Last, and no reason to lose what was trained.
void Trainer::write_trace() {
  if (!trace_) return;
  const std::vector<std::string> all = comm::exchange_texts(world_.communicator(), trace_->json());
  if (!is_root()) return;
  try {
    report::Trace::write_merged(job_.config.report.trace, all);
  } catch (const Error& error) {
    spdlog::warn("no trace: {}", error.what());
    fmt::print(stderr, "distbelief: the run is whole, but its trace is not there: {}\n", error.what());
  }
}

}  // namespace distbelief::train
