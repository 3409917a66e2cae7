#include "distbelief/run/clusters.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/state_file.h"
#include "distbelief/tasks/task.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::run {
namespace {

using Json = nlohmann::json;

// Prepares samples as validation does, so that the clusters are those whose purity it reports.
std::vector<double> test_codes(const PreparedJob& job, model::Network& network, std::int64_t width,
                               std::chrono::duration<double> most_time) {
  const torch::NoGradGuard no_grad;
  const data::Source& test = *job.data.test;
  const data::BatchMaker maker(test, {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  std::vector<double> codes;
  data::Batch batch;
  const auto end = std::chrono::steady_clock::now() + most_time;
  network.eval();
  for (std::uint64_t first = 0; first < test.size(); first += tasks::kEvaluationChunk) {
    if (std::chrono::steady_clock::now() > end) {
      network.train();
      throw Error(
          ErrorCode::kUnavailable,
          fmt::format("the codes of {} test samples take longer than {:.0f} s; to wait for them: distbelief "
                      "report RUN --score",
                      test.size(), most_time.count()));
    }
    maker.eval_batch({first, std::min(test.size(), first + tasks::kEvaluationChunk)}, batch);
    const torch::Tensor output =
        network.forward(model::on_device(tasks::as_tensors(batch).input, network.device()));
    const model::HostValues<double> rows(
        output.narrow(1, element_count(job.shape.input), width).to(torch::kFloat64));
    codes.insert(codes.end(), rows.begin(), rows.end());
  }
  network.train();
  return codes;
}

Json clusters_json(const tasks::Clusters& found, std::size_t width) {
  std::vector<std::int64_t> sizes(found.centres.size() / width);
  for (const int group : found.groups) ++sizes[std::size_t(group)];
  Json centres = Json::array();
  for (std::size_t at = 0; at < found.centres.size(); at += width)
    centres.push_back(std::vector<double>(found.centres.begin() + std::ptrdiff_t(at),
                                          found.centres.begin() + std::ptrdiff_t(at + width)));
  return {{"centres", centres}, {"samples", sizes}};
}

}  // namespace

bool keep_clusters(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir,
                   std::chrono::duration<double> most_time) {
  const data::SampleSpec& spec = job.data.test->spec();
  const std::string task = tasks::task_name(job.config, spec);
  if (task != "autoencoder" && task != "vae") return false;
  const OptionMap options = model::resolved_options(job.config.model);
  const std::size_t groups = tasks::cluster_count(options, spec);
  if (groups == 0 || job.data.test->size() == 0) return false;
  const auto width = option<std::int64_t>(options, "code");
  const std::vector<double> codes = test_codes(job, network, width, most_time);
  Json found = clusters_json(tasks::k_means(codes, {.width = std::size_t(width), .groups = groups}),
                             std::size_t(width));
  found["weights_sha256"] = weights_sha256(network);
  report::write_json_atomically(run_dir / "clusters.json", found);
  return true;
}

}  // namespace distbelief::run
