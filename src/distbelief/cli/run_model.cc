#include "distbelief/cli/run_model.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/data/pipeline/deferred_source.h"
#include "distbelief/data/registry.h"
#include "distbelief/job/job_file.h"
#include "distbelief/run/state_file.h"
#include "distbelief/tasks/task.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

// Refuses a model file whose weights do not match the hash in it.
void require_unchanged(const checkpoint::SafetensorsFile& file) {
  const checkpoint::Metadata& metadata = file.metadata();
  const auto wanted = metadata.find("weights_sha256");
  if (wanted == metadata.end()) return;
  const auto buffers = metadata.find("buffers");
  const std::string names = buffers == metadata.end() ? "" : "," + buffers->second + ",";
  std::vector<checkpoint::TensorView> weights;
  for (const checkpoint::TensorView& tensor : file.tensors())
    if (names.find("," + tensor.name + ",") == std::string::npos) weights.push_back(tensor);
  if (wanted->second == checkpoint::sha256_by_name(weights)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{} is damaged: its weights are not those that were saved; the checkpoints may help: "
                  "distbelief eval {} --best",
                  file.path().string(), file.path().parent_path().string()));
}

checkpoint::Loaded newest_checkpoint_of(const fs::path& run_dir) {
  auto loaded = checkpoint::Store(run_dir / "checkpoints")
                    .load_latest([](const checkpoint::Entry&, const Error& error) {
                      fmt::print(stderr, "distbelief: passed over a damaged checkpoint: {}\n", error.what());
                    });
  if (!loaded)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has neither model.safetensors nor a checkpoint", run_dir.string()));
  return std::move(*loaded);
}

checkpoint::Loaded best_checkpoint_of(const fs::path& run_dir) {
  const checkpoint::Store store(run_dir / "checkpoints");
  const auto best = store.best();
  if (!best)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no best checkpoint: no validation has marked one; without --best its last "
                    "weights are taken",
                    run_dir.string()));
  return store.load(*best);
}

}  // namespace

Config config_of_run(const fs::path& run_dir, const RunModelOptions& options) {
  const fs::path job_file = run_dir / "job.toml";
  if (!fs::exists(job_file))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not a run folder: it has no job.toml", run_dir.string()));
  Config config = job::load_job_file(job_file);
  if (!options.data_dir.empty()) config.data.path = options.data_dir;
  config.parallel.pipeline = config.parallel.tensor = 1;  // one process holds the whole network
  config.parallel.zero = 1;
  config.parallel.zero_inside_host = config.parallel.split_features = false;
  config.train.init.clear();  // its weights come from the run
  use_network_file(run_dir, config);
  return config;
}

RunWeights weights_of_run(const fs::path& run_dir, const RunModelOptions& options) {
  RunWeights weights;
  if (options.best) {
    weights.checkpoint = best_checkpoint_of(run_dir);
  } else if (fs::exists(run_dir / "model.safetensors")) {
    weights.file.emplace_back(run_dir / "model.safetensors");
    require_unchanged(weights.file[0]);
  } else {
    weights.checkpoint = newest_checkpoint_of(run_dir);
  }
  if (weights.checkpoint) weights.prefix = "model.";
  return weights;
}

std::unique_ptr<run::SavedTables> rows_of_run(const fs::path& run_dir, const run::PreparedJob& job) {
  const std::vector<comm::TableSpec> tables = tasks::make_task(job.config, job.data.train->spec())->tables();
  if (tables.empty()) return nullptr;
  const auto folder = run::find_tables(run_dir);
  if (!folder)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no rows of tables yet; they are saved with each checkpoint", run_dir.string()));
  return std::make_unique<run::SavedTables>(*folder, tables);
}

data::DataSet data_of_run(const fs::path& run_dir, const Config& config, const RunModelOptions& options) {
  const std::optional<data::KnownSet> known = data::read_known_set(run_dir);
  if (!known) return data::open_data_set(config.data);
  const auto open = [known = *known, data = config.data, run_dir, is_named = !options.data_dir.empty()] {
    data::DataSet set = data::open_data_set(data, known);
    if (!is_named && data::data_fingerprint(data, set) != known.fingerprints.back())
      fmt::print(
          stderr,
          "distbelief: the data of {} has changed since it was trained; columns, tokens and classes are "
          "read as they were then, but samples to test on may be others, also such that were trained on\n",
          run_dir.string());
    return set;
  };
  return options.data == RunData::kAtOnce ? open() : data::deferred_data_set(*known, open);
}

RunModel load_run(const fs::path& run_dir, const RunModelOptions& options) {
  const Config config = config_of_run(run_dir, options);
  RunModel run{run::prepare_trained(config, data_of_run(run_dir, config, options))};
  const RunWeights weights = weights_of_run(run_dir, options);
  run::load_tensors(*run.job.network, weights.tensors(), weights.prefix);
  return run;
}

}  // namespace distbelief::cli
