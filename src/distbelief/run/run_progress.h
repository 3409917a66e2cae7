#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "distbelief/base/config.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::run {

inline constexpr std::int64_t kTensorChanged = -1;

// The progress of a run. Together with the tensors, everything that a resumed run needs to reach the same
// bits.
struct RunProgress {
  std::int64_t step = 0;             // steps taken
  std::int64_t epoch = 0;            // of the next step
  std::int64_t step_in_epoch = 0;    // of the next step
  std::int64_t steps_per_epoch = 0;  // 0: written by an earlier version
  std::int64_t samples = 0;
  double last_loss = 0;
  double epoch_loss = 0;                                       // sum over the epoch's steps so far
  double best_loss = std::numeric_limits<double>::infinity();  // over all validations
  double best_accuracy = 0;
  // Loss of the validation that counts as best.
  double loss_of_best = std::numeric_limits<double>::infinity();
  std::int64_t epochs_without_gain = 0;
  bool evaluated = false;  // there was a validation
  double test_loss = 0;
  double test_accuracy = 0;
  std::vector<tasks::Metric> test_metrics{};
  // Size of the tensor group in all steps so far; kTensorChanged if it changed; 0: no steps.
  std::int64_t tensor = 0;
  std::string bits_lost{};  // why some steps are not reproducible; empty: all are

  bool operator==(const RunProgress&) const = default;
};

nlohmann::json to_json(const RunProgress& progress);
RunProgress run_progress_from_json(const nlohmann::json& value);  // throws Error(kBadInput)

// A run counts its schedule, order and end in steps of epochs with the length of its first one. Throws
// Error(kBadInput) when changed data or settings would give epochs another length.
void require_same_epochs(const RunProgress& progress, std::int64_t steps_per_epoch);

// The consequences of a validation for the run. Pure.
struct Verdict {
  bool is_best = false;
  std::string stop_reason;  // empty: the run continues
};
// The reason why a stopping rule ends the run after its last validation; empty: it continues. Pure.
std::string stop_reason(const TrainConfig& config, const RunProgress& progress);
// The setting that would keep that rule from ending the run. Pure.
std::string stopping_key(const TrainConfig& config, const RunProgress& progress);
Verdict judge(const TrainConfig& config, const tasks::Evaluation& evaluation, RunProgress& progress);

}  // namespace distbelief::run
