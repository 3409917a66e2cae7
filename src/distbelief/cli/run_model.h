#pragma once

#include <filesystem>
#include <string>

#include "distbelief/checkpoint/store.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/run/saved_tables.h"

// The model of a run folder, for commands that use it in one process.
namespace distbelief::cli {

// When the data of a run is opened: at once, or when a sample is asked for, if ever.
enum class RunData { kAtOnce, kWhenAsked };

struct RunModelOptions {
  std::string data_dir{};  // where the data is; empty: where the run had it
  bool best = false;       // the best checkpoint instead of the last weights
  RunData data = RunData::kAtOnce;
};

// The job of a run folder, for one process that holds all of the network. Throws Error(kBadInput) when it is
// none.
Config config_of_run(const std::filesystem::path& run_dir, const RunModelOptions& options);

// Where a run's weights are: model.safetensors, or a checkpoint when it has none yet or the best is wanted.
// Verified: what was changed since it was saved is refused. Owns the mappings behind the tensors.
struct RunWeights {
  std::vector<checkpoint::SafetensorsFile> file{};  // one, or none
  std::optional<checkpoint::Loaded> checkpoint{};
  std::string prefix{};  // of the model's tensors

  const checkpoint::TensorIndex& tensors() const {
    return checkpoint ? checkpoint->tensors : file[0].index();
  }
};
RunWeights weights_of_run(const std::filesystem::path& run_dir, const RunModelOptions& options);

// The data of that job, as the run knows it (data.json), and a word on stderr when its files are others now.
// What an earlier version left knows nothing: its data is opened at once, and learnt from.
data::DataSet data_of_run(const std::filesystem::path& run_dir, const Config& config,
                          const RunModelOptions& options);

// Data, network and weights together.
struct RunModel {
  run::PreparedJob job;
};
// The rows of its tables, as last saved; null: it has none.
std::unique_ptr<run::SavedTables> rows_of_run(const std::filesystem::path& run_dir,
                                              const run::PreparedJob& job);
RunModel load_run(const std::filesystem::path& run_dir, const RunModelOptions& options);

}  // namespace distbelief::cli
