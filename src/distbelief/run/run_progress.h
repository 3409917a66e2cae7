#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "distbelief/base/config.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::run {

inline constexpr std::int64_t kTensorChanged = -1;

// How far a run has come: with the tensors, all that a resumed run needs to go on to the same bits.
struct RunProgress {
  std::int64_t step = 0;             // steps taken
  std::int64_t epoch = 0;            // of the next step
  std::int64_t step_in_epoch = 0;    // of the next step
  std::int64_t steps_per_epoch = 0;  // 0: an earlier version did not say
  std::int64_t samples = 0;
  double last_loss = 0;
  double epoch_loss = 0;                                       // sum over the epoch's steps so far
  double best_loss = std::numeric_limits<double>::infinity();  // of all validations
  double best_accuracy = 0;
  double loss_of_best = std::numeric_limits<double>::infinity();  // of the validation that is called best
  std::int64_t epochs_without_gain = 0;
  bool evaluated = false;  // whether there was a validation
  double test_loss = 0;
  double test_accuracy = 0;
  std::vector<tasks::Metric> test_metrics{};
  std::int64_t tensor =
      0;  // workers that computed each layer together, in all steps; kTensorChanged; 0: none
  std::string bits_lost{};  // why some steps were not those of one reproducible run; empty: all were

  bool operator==(const RunProgress&) const = default;
};

nlohmann::json to_json(const RunProgress& progress);
RunProgress run_progress_from_json(const nlohmann::json& value);  // throws Error(kBadInput)

// A run's schedule, order and end are counted in steps of epochs that are as long as its first. Throws
// Error(kBadInput) when the data, or what was set of it, would make them longer or shorter from now on.
void require_same_epochs(const RunProgress& progress, std::int64_t steps_per_epoch);

// What a validation means for the run. Pure.
struct Verdict {
  bool is_best = false;
  std::string stop_reason;  // empty: the run goes on
};
// Why a stopping rule ends the run after its last validation; empty: it goes on. Pure.
std::string stop_reason(const TrainConfig& config, const RunProgress& progress);
// What to set so that it does not, where it does. Pure.
std::string stopping_key(const TrainConfig& config, const RunProgress& progress);
Verdict judge(const TrainConfig& config, const tasks::Evaluation& evaluation, RunProgress& progress);

}  // namespace distbelief::run
