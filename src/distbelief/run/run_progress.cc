#include "distbelief/run/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"

namespace distbelief::run {

namespace {

// JSON has no value for non-finite numbers, but a validation may measure one.
nlohmann::json json_of(double number) {
  return std::isfinite(number) ? nlohmann::json(number) : nlohmann::json(fmt::format("{}", number));
}

double number_of(const nlohmann::json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value == "inf") return kInfinity;
  if (value == "-inf") return -kInfinity;
  if (value == "nan" || value == "-nan") return std::numeric_limits<double>::quiet_NaN();
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();  // written by earlier versions
  return value.get<double>();
}

}  // namespace

nlohmann::json to_json(const RunProgress& p) {
  nlohmann::json value = {{"step", p.step},
                          {"epoch", p.epoch},
                          {"step_in_epoch", p.step_in_epoch},
                          {"steps_per_epoch", p.steps_per_epoch},
                          {"samples", p.samples},
                          {"last_loss", p.last_loss},
                          {"epoch_loss", p.epoch_loss},
                          {"best_accuracy", json_of(p.best_accuracy)},
                          {"epochs_without_gain", p.epochs_without_gain},
                          {"evaluated", p.evaluated},
                          {"test_loss", json_of(p.test_loss)},
                          {"test_accuracy", json_of(p.test_accuracy)},
                          {"tensor", p.tensor}};
  if (!p.bits_lost.empty()) value["bits_lost"] = p.bits_lost;
  if (p.best_loss < std::numeric_limits<double>::infinity()) value["best_loss"] = p.best_loss;
  if (p.loss_of_best < std::numeric_limits<double>::infinity()) value["loss_of_best"] = p.loss_of_best;
  for (const tasks::Metric& metric : p.test_metrics)
    value["test_metrics"][metric.name] = json_of(metric.value);
  return value;
}

RunProgress run_progress_from_json(const nlohmann::json& value) try {
  RunProgress p;
  p.step = value.at("step");
  p.epoch = value.at("epoch");
  p.step_in_epoch = value.at("step_in_epoch");
  p.steps_per_epoch = value.value("steps_per_epoch", std::int64_t{0});
  p.samples = value.at("samples");
  p.last_loss = value.at("last_loss");
  p.epoch_loss = value.at("epoch_loss");
  p.best_loss = value.value("best_loss", std::numeric_limits<double>::infinity());
  p.best_accuracy = number_of(value.at("best_accuracy"));
  p.loss_of_best = value.value("loss_of_best", p.best_loss);
  p.epochs_without_gain = value.at("epochs_without_gain");
  p.evaluated = value.at("evaluated");
  p.test_loss = number_of(value.at("test_loss"));
  p.test_accuracy = number_of(value.at("test_accuracy"));
  p.tensor = value.value("tensor", std::int64_t{0});
  p.bits_lost = value.value("bits_lost", std::string());
  const nlohmann::json metrics = value.value("test_metrics", nlohmann::json::object());
  for (const auto& [name, number] : metrics.items()) p.test_metrics.push_back({name, number_of(number)});
  return p;
} catch (const nlohmann::json::exception& error) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("the checkpoint's progress cannot be read: {}", error.what()));
}

void require_same_epochs(const RunProgress& progress, std::int64_t steps_per_epoch) {
  const std::int64_t before = progress.steps_per_epoch;
  if (before == steps_per_epoch) return;
  // An earlier version did not store it, but its place in the epoch reveals most changes.
  if (before == 0 && progress.step % steps_per_epoch == progress.step_in_epoch) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("an epoch of this run has {} steps, but with the data as it is now it would have {}, and "
                  "the run's schedule and end are counted in them; begin a new run with what it has learnt: "
                  "distbelief train JOB.toml --init RUN/model.safetensors",
                  before > 0 ? std::to_string(before) : "another number of", steps_per_epoch));
}

std::string stop_reason(const TrainConfig& config, const RunProgress& progress) {
  if (!progress.evaluated) return "";
  const double* const reached = config.target_metric == tasks::kLossMetric
                                    ? &progress.test_loss
                                    : tasks::find_metric(progress.test_metrics, config.target_metric);
  if (config.target != 0 && reached && tasks::is_as_good(config.target_metric, *reached, config.target))
    return fmt::format("test {} {:.4g} reached train.target = {}", config.target_metric, *reached,
                       config.target);
  if (config.early_stop_patience > 0 && progress.epochs_without_gain >= config.early_stop_patience)
    return fmt::format("no better test loss for {} validations (train.early_stop_patience)",
                       progress.epochs_without_gain);
  return "";
}

std::string stopping_key(const TrainConfig& config, const RunProgress& progress) {
  TrainConfig patient = config;
  patient.target = 0;
  return stop_reason(patient, progress).empty() ? "train.target=0" : "train.early_stop_patience=0";
}

Verdict judge(const TrainConfig& config, const tasks::Evaluation& evaluation, RunProgress& progress) {
  Verdict verdict;
  verdict.is_best =
      std::isfinite(evaluation.loss) &&
      (progress.loss_of_best == std::numeric_limits<double>::infinity() ||  // the first that can be best
       evaluation.accuracy > progress.best_accuracy ||
       (evaluation.accuracy == progress.best_accuracy && evaluation.loss < progress.loss_of_best));
  if (verdict.is_best) progress.loss_of_best = evaluation.loss;
  const bool gained = evaluation.loss < progress.best_loss;
  progress.epochs_without_gain = gained ? 0 : progress.epochs_without_gain + 1;
  progress.best_loss = std::min(progress.best_loss, evaluation.loss);
  if (verdict.is_best) progress.best_accuracy = evaluation.accuracy;
  progress.evaluated = true;
  progress.test_loss = evaluation.loss;
  progress.test_accuracy = evaluation.accuracy;
  progress.test_metrics = evaluation.metrics;
  std::ranges::sort(progress.test_metrics, {}, &tasks::Metric::name);
  verdict.stop_reason = stop_reason(config, progress);
  return verdict;
}

}  // namespace distbelief::run
