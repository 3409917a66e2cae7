#include "distbelief/cli/finished_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/run/run_progress.h"

namespace distbelief::cli {

namespace fs = std::filesystem;

std::int64_t saved_step(const fs::path& run_dir) {
  const auto loaded = checkpoint::Store(run_dir / "checkpoints").load_latest([](const auto&, const Error&) {
  });  // is_finished() has reported the damaged ones
  return loaded ? run::run_progress_from_json(loaded->progress().at("run")).step : 0;
}

bool is_finished(const fs::path& run_dir, const Config& config, const StartNeeds& needs, Saved saved) {
  const auto loaded = checkpoint::Store(run_dir / "checkpoints")
                          .load_latest([](const checkpoint::Entry& entry, const Error& error) {
                            fmt::print(stderr, "distbelief: checkpoint {} is damaged and passed over: {}\n",
                                       entry.folder.string(), error.message());
                          });
  if (!loaded && has_snapshots(run_dir)) {
    if (saved == Saved::kSnapshotsToo) return false;
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{0} has no whole checkpoint, only snapshots that its workers left, which are not "
                    "read under mpirun and srun; go on with: distbelief resume {0}",
                    run_dir.string()));
  }
  if (!loaded)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no whole checkpoint to resume from: the run ended before its first; train "
                    "again{}",
                    run_dir.string(),
                    former_run(run_dir) == FormerRun::kNothing ? "" : ", with another --run-dir"));
  const run::RunProgress progress = run::run_progress_from_json(loaded->progress().at("run"));
  run::require_same_epochs(progress, needs.steps_per_epoch);
  const std::int64_t total_steps = needs.total_steps;
  const std::string reason = run::stop_reason(config.train, progress);
  if (reason.empty() && progress.step < total_steps) return false;
  const nlohmann::json summary = read_summary(run_dir);
  if (!summary.is_object() || summary.value("steps", std::int64_t{-1}) != progress.step)
    return false;  // its end was not recorded
  fmt::print("{} is finished: {} of {} steps{}; to train on: distbelief resume {} --set {}\n",
             run_dir.string(), progress.step, total_steps, reason.empty() ? "" : ", " + reason,
             run_dir.string(),
             !reason.empty()                         ? run::stopping_key(config.train, progress)
             : config.train.max_steps == total_steps ? "train.max_steps=N"
                                                     : "train.epochs=N");
  return true;
}

}  // namespace distbelief::cli
