#include "distbelief/report/summary.h"

#include <nlohmann/json.hpp>

#include "distbelief/base/durable_file.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

Json value_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json results(const Summary& summary) {
  return {{"status", summary.status},
          {"steps", summary.steps},
          {"epochs", summary.epochs},
          {"samples", summary.samples},
          {"final_train_loss", value_or_null(summary.final_train_loss)},
          {"test_accuracy", value_or_null(summary.test_accuracy)},
          {"test_loss", value_or_null(summary.test_loss)},
          {"best_test_accuracy", value_or_null(summary.best_test_accuracy)},
          {"test_metrics", summary.test_metrics},
          {"parameters", summary.parameters},
          {"weights_sha256", summary.weights_sha256},
          {"reproducible", summary.reproducible},
          {"reproducible_note", summary.reproducible_note}};
}

Json costs(const Summary& summary) {
  return {{"samples_per_second", summary.samples_per_second},
          {"wall_seconds", summary.wall_seconds},
          {"step_seconds_median", summary.step_seconds_median},
          {"phase_seconds", to_json(summary.phase_seconds)},
          {"hidden_exchange_share", summary.hidden_exchange_share},
          {"peak_rss_bytes", summary.peak_rss_bytes}};
}

Json surroundings(const Summary& summary) {
  return {{"workers", summary.workers},
          {"lanes", summary.lanes},
          {"threads", summary.threads},
          {"data", summary.data},
          {"pipeline", summary.pipeline},
          {"tensor", summary.tensor},
          {"zero", summary.zero},
          {"cuts", summary.cuts},
          {"schedule", summary.schedule ? Json(*summary.schedule) : Json()},
          {"chunks", summary.chunks},
          {"recompute", summary.recompute},
          {"generations", summary.generations},
          {"recoveries", summary.recoveries},
          {"snapshot_seconds", summary.snapshot_seconds},
          {"algorithm", summary.algorithm},
          {"overlap", summary.overlap},
          {"isa", summary.isa},
          {"libtorch_version", summary.libtorch_version},
          {"mpi_version", summary.mpi_version}};
}

}  // namespace

Json to_json(const WorkerSummary& worker) {
  return {{"rank", worker.rank},
          {"pid", worker.pid},
          {"host", worker.host},
          {"lanes", worker.lanes},
          {"stages", worker.stages},
          {"parameters", worker.parameters},
          {"bytes_held", worker.bytes_held},
          {"peak_rss_bytes", worker.peak_rss_bytes},
          {"phase_seconds", to_json(worker.phase_seconds)}};
}

WorkerSummary worker_summary_from_json(const Json& value) {
  WorkerSummary worker{.rank = value.at("rank"),
                       .pid = value.at("pid"),
                       .host = value.at("host"),
                       .lanes = value.at("lanes"),
                       .stages = value.at("stages"),
                       .parameters = value.at("parameters"),
                       .bytes_held = value.at("bytes_held"),
                       .peak_rss_bytes = value.at("peak_rss_bytes"),
                       .phase_seconds = {}};
  for (std::size_t i = 0; i < kPhaseCount; ++i)
    worker.phase_seconds[i] = value.at("phase_seconds").at(std::string(to_string(static_cast<Phase>(i))));
  return worker;
}

Json to_json(const PhaseSeconds& seconds) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kPhaseCount; ++i)
    json[std::string(to_string(static_cast<Phase>(i)))] = seconds[i];
  return json;
}

Json to_json(const Summary& summary) {
  Json json = results(summary);
  json.update(costs(summary));
  json.update(surroundings(summary));
  json["per_worker"] = Json::array();
  for (const WorkerSummary& worker : summary.per_worker) json["per_worker"].push_back(to_json(worker));
  return json;
}

void write_json_atomically(const std::filesystem::path& path, const Json& value) {
  const std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string_view pieces[] = {text};
  write_atomically(path, pieces);
}

}  // namespace distbelief::report
