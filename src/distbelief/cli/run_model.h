#pragma once

#include <filesystem>
#include <string>

#include "distbelief/checkpoint/store.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/run/saved_tables.h"

// The model of a run folder, for commands that use it in one process.
namespace distbelief::cli {

// When to open the run's data: at once, or when the first sample is read.
enum class RunData { kAtOnce, kWhenAsked };

struct RunModelOptions {
  std::string data_dir{};  // empty: where the run had it
  bool best = false;       // use the best checkpoint instead of the last weights
  RunData data = RunData::kAtOnce;
};

// The job of a run folder, for one process that holds the whole network. Throws Error(kBadInput) when it is
// no run folder.
Config config_of_run(const std::filesystem::path& run_dir, const RunModelOptions& options);

// A run's weights: from model.safetensors, or from a checkpoint when that file does not exist yet or the best
// is wanted. Verified: files that changed since they were saved are refused. Owns the mappings behind the
// tensors.
struct RunWeights {
  std::vector<checkpoint::SafetensorsFile> file{};  // one or none
  std::optional<checkpoint::Loaded> checkpoint{};
  std::string prefix{};  // prefix of the model's tensors

  const checkpoint::TensorIndex& tensors() const {
    return checkpoint ? checkpoint->tensors : file[0].index();
  }
};
RunWeights weights_of_run(const std::filesystem::path& run_dir, const RunModelOptions& options);

// The data of that job, according to the run's manifest (data.json); prints on stderr if its files have
// changed. A run of an earlier version has no manifest: its data is opened and preprocessing fitted at once.
data::DataSet data_of_run(const std::filesystem::path& run_dir, const Config& config,
                          const RunModelOptions& options);

// Data, network and weights together.
struct RunModel {
  run::PreparedJob job;
};
// The rows of its tables, as last saved; null if it has none.
std::unique_ptr<run::SavedTables> rows_of_run(const std::filesystem::path& run_dir,
                                              const run::PreparedJob& job);
RunModel load_run(const std::filesystem::path& run_dir, const RunModelOptions& options);

}  // namespace distbelief::cli
