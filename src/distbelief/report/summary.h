#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/report/phases.h"

namespace distbelief::report {

struct WorkerSummary {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;
  std::vector<std::int64_t> lanes;
  std::vector<std::int64_t> stages;  // pipeline stages that it holds
  std::int64_t parameters = 0;       // reduced and updated by this worker
  std::uint64_t bytes_held = 0;      // training state: parameters, gradients, optimizer state
  std::uint64_t peak_rss_bytes = 0;
  PhaseSeconds phase_seconds{};
};

// The result of a run. Unknown values are empty and become null.
struct Summary {
  std::string status = "done";  // done, stopped early, interrupted, failed
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t samples = 0;
  std::optional<double> final_train_loss;
  std::optional<double> test_accuracy;  // 0 to 1
  std::optional<double> test_loss;
  std::optional<double> best_test_accuracy;
  std::map<std::string, double> test_metrics;  // the task's metrics by name
  double samples_per_second = 0.0;
  double wall_seconds = 0.0;
  double step_seconds_median = 0.0;
  std::int64_t workers = 0;
  std::int64_t lanes = 0;
  std::int64_t threads = 1;
  std::int64_t data = 1;                // copies of the network
  std::int64_t pipeline = 1;            // workers that each copy is cut over
  std::int64_t tensor = 1;              // workers that compute each layer together
  std::int64_t zero = 1;                // the copies shard: 1 state, 2 gradients too, 3 parameters too
  std::vector<std::int64_t> cuts;       // first block of every stage but the first
  std::optional<std::string> schedule;  // pipeline schedule; empty: the network is not cut by layers
  std::int64_t chunks = 1;              // stages of each worker
  bool recompute = false;               // activations were computed again for backward
  std::int64_t parameters = 0;
  std::string weights_sha256;
  std::int64_t generations = 1;
  std::int64_t recoveries = 0;
  double snapshot_seconds = 0.0;     // time for the last generation's snapshots
  std::uint64_t peak_rss_bytes = 0;  // largest of all workers
  bool reproducible = false;
  std::string reproducible_note;
  std::string algorithm;
  std::string overlap;
  double hidden_exchange_share = 0.0;  // share of the exchange that overlapped with backward
  std::string isa;
  std::string libtorch_version;
  std::string mpi_version;
  PhaseSeconds phase_seconds{};  // root worker
  std::vector<WorkerSummary> per_worker;
};

nlohmann::json to_json(const PhaseSeconds& seconds);  // {"data": 1.5, ...}
nlohmann::json to_json(const WorkerSummary& worker);
WorkerSummary worker_summary_from_json(const nlohmann::json& value);
nlohmann::json to_json(const Summary& summary);

// Throws Error(kUnavailable) with file and reason; the old file then remains.
void write_json_atomically(const std::filesystem::path& path, const nlohmann::json& value);

}  // namespace distbelief::report
