#include "distbelief/train/run_summary.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "distbelief/base/json_text.h"
#include "distbelief/comm/texts.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/run/clusters.h"
#include "distbelief/run/generated.h"
#include "distbelief/run/predictions.h"

namespace distbelief::train {
namespace {

void add_workers(report::Summary& summary, const SummarySite& site) {
  World& world = site.replica->world();
  for (const std::string& text :
       comm::exchange_texts(world.communicator(), report::to_json(site.replica->summary()).dump()))
    summary.per_worker.push_back(
        report::worker_summary_from_json(parse_json(text, "the summary of a worker")));
  for (const auto& worker : summary.per_worker)
    summary.peak_rss_bytes = std::max(summary.peak_rss_bytes, worker.peak_rss_bytes);
}

void add_progress(report::Summary& summary, const SummarySite& site) {
  const run::RunProgress& progress = *site.progress;
  summary.steps = progress.step;
  summary.epochs = progress.epoch;
  summary.samples = progress.samples;
  summary.wall_seconds = site.seconds;
  summary.samples_per_second = double(progress.samples - site.samples_before) / std::max(1e-9, site.seconds);
  if (progress.step > 0) summary.final_train_loss = progress.last_loss;
  if (!progress.evaluated) return;
  const bool classifies =
      progress.test_metrics.empty() || tasks::find_metric(progress.test_metrics, "accuracy");
  if (classifies) summary.test_accuracy = progress.test_accuracy;
  summary.test_loss = progress.test_loss;
  if (classifies) summary.best_test_accuracy = progress.best_accuracy;
  for (const tasks::Metric& metric : progress.test_metrics) summary.test_metrics[metric.name] = metric.value;
}

void add_layout(report::Summary& summary, const SummarySite& site) {
  const run::PreparedJob& job = site.replica->job();
  const ParallelConfig& parallel = job.config.parallel;
  const run::PipelinePlan& plan = site.replica->partition().plan();
  summary.lanes = parallel.lanes;
  summary.threads = parallel.threads;
  summary.data = plan.mesh.data;
  summary.pipeline = plan.mesh.pipeline;
  summary.tensor = plan.mesh.tensor;
  summary.zero = parallel.zero;
  summary.overlap = parallel.overlap;
  const std::vector<mesh::StageOutline>& stages = site.replica->partition().outline().stages;
  for (std::size_t i = 1; i < stages.size(); ++i) summary.cuts.push_back(stages[i].blocks.begin);
  if (plan.mesh.pipeline > 1) {
    summary.schedule = std::string(to_string(plan.schedule));
    summary.chunks = plan.chunks;
    summary.recompute = parallel.recompute;
  }
  for (std::size_t i = 1; i < job.sub_networks.size(); ++i)  // blocks of the model, without the heads
    summary.cuts.push_back(job.sub_networks[i].blocks.begin - int(i));
  for (const auto& parameter : site.record->outline->parameters)
    summary.parameters += element_count(parameter.shape);
}

void add_exchange(report::Summary& summary, const SummarySite& site, int hosts) {
  summary.algorithm = hosts == 1 ? "shared memory" : site.replica->job().config.parallel.algorithm;
  const auto& times = site.replica->group().sharing(0).times();
  const auto all = std::chrono::duration<double>(times.early + times.late).count();
  summary.hidden_exchange_share = all > 0 ? std::chrono::duration<double>(times.early).count() / all : 0;
}

void add_bits(report::Summary& summary, const SummarySite& site, int hosts) {
  const run::PreparedJob& job = site.replica->job();
  run::Reproducibility same_bits = run::reproducibility(job.config, hosts, site.progress->tensor);
  if (!site.progress->bits_lost.empty()) same_bits = {false, site.progress->bits_lost};
  if (job.data_has_changed)
    same_bits = {false, "the data files were changed before the run went on (data.json has their marks)"};
  summary.reproducible = same_bits.holds;
  summary.reproducible_note = same_bits.note;
}

}  // namespace

report::Summary summary_of(const SummarySite& site) {
  const World& world = site.replica->world();
  report::Summary summary;
  add_workers(summary, site);
  add_progress(summary, site);
  add_layout(summary, site);
  add_exchange(summary, site, world.hosts());
  add_bits(summary, site, world.hosts());
  summary.workers = world.size();
  summary.isa = site.isa;
  summary.libtorch_version = TORCH_VERSION;
  summary.mpi_version = world.mpi_version();
  summary.phase_seconds = site.replica->phases();
  return summary;
}

void keep_answers(const run::PreparedJob& job, model::Network& network,
                  const std::filesystem::path& run_dir) {
  run::keep_predictions(job, network, run_dir);
  run::keep_samples(job, network, run_dir);
  try {
    constexpr std::chrono::seconds kClusterTime{20};  // the other workers wait
    run::keep_clusters(job, network, run_dir, kClusterTime);
  } catch (const std::exception& error) {
    spdlog::warn("no clusters of the codes: {}", error.what());
  }
}

}  // namespace distbelief::train
