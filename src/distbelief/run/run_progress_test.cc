#include "distbelief/run/run_progress.h"

#include <gtest/gtest.h>

#include <cmath>

#include "distbelief/base/error.h"

namespace distbelief::run {
namespace {

tasks::Evaluation scored(double loss, double accuracy) {
  return {.loss = loss, .accuracy = accuracy, .items = 100, .metrics = {{"accuracy", accuracy}}};
}

TEST(RunProgress, SurvivesJson) {
  RunProgress progress;
  progress.step = 12;
  progress.epoch = 3;
  progress.samples = 1'000'000'000'000;
  progress.last_loss = 0.1;
  EXPECT_EQ(run_progress_from_json(to_json(progress)), progress);
  progress.best_loss = 0.25;
  progress.loss_of_best = 0.5;
  progress.best_accuracy = 0.75;
  progress.epochs_without_gain = 2;
  progress.evaluated = true;
  progress.bits_lost = "it was resumed with another libtorch";
  EXPECT_EQ(run_progress_from_json(to_json(progress)), progress);
}

TEST(RunProgress, KeepsWhatIsNotFinite) {
  RunProgress progress;
  progress.evaluated = true;
  progress.test_loss = std::numeric_limits<double>::quiet_NaN();
  progress.test_metrics = {{"perplexity", std::numeric_limits<double>::infinity()}};
  const RunProgress read = run_progress_from_json(nlohmann::json::parse(to_json(progress).dump()));
  EXPECT_TRUE(std::isnan(read.test_loss));
  EXPECT_EQ(read.test_metrics, progress.test_metrics);
  nlohmann::json of_earlier_version = to_json(progress);
  of_earlier_version["test_loss"] = nullptr;
  EXPECT_TRUE(std::isnan(run_progress_from_json(of_earlier_version).test_loss));
}

TEST(RunProgress, EpochsStayAsLongAsTheyWere) {
  RunProgress progress;
  progress.step = 25;
  progress.epoch = 2;
  progress.step_in_epoch = 5;
  for (const std::int64_t noted : {10, 0}) {
    progress.steps_per_epoch = noted;
    EXPECT_NO_THROW(require_same_epochs(progress, 10));
    for (const std::int64_t others : {4, 9, 11, 50})
      EXPECT_THROW(require_same_epochs(progress, others), Error);
  }
}

TEST(RunProgress, RefusesJsonWithoutItsKeys) {
  EXPECT_THROW(run_progress_from_json({{"step", 1}}), Error);
  EXPECT_THROW(run_progress_from_json({{"step", "one"}}), Error);
}

TEST(Judge, CallsTheFirstAndEachBetterOneBest) {
  RunProgress progress;
  EXPECT_TRUE(judge({}, scored(1.0, 0.5), progress).is_best);
  EXPECT_FALSE(judge({}, scored(0.9, 0.4), progress).is_best);
  EXPECT_TRUE(judge({}, scored(0.8, 0.5), progress).is_best);  // same accuracy, smaller loss
  EXPECT_TRUE(judge({}, scored(2.0, 0.6), progress).is_best);
  EXPECT_TRUE(judge({}, scored(1.5, 0.6), progress).is_best);  // same accuracy, smaller loss than that one
  EXPECT_FALSE(judge({}, scored(1.6, 0.6), progress).is_best);
  EXPECT_DOUBLE_EQ(progress.best_accuracy, 0.6);
}

TEST(Judge, CallsNothingBestThatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RunProgress progress;
  EXPECT_FALSE(judge({}, scored(nan, 0.9), progress).is_best);
  EXPECT_TRUE(judge({}, scored(2.0, 0.1), progress).is_best);  // the first that can be best
  EXPECT_FALSE(judge({}, scored(nan, 0.9), progress).is_best);
  EXPECT_DOUBLE_EQ(progress.best_accuracy, 0.1);
  EXPECT_EQ(progress.epochs_without_gain, 1);
}

TEST(Judge, StopsAtTheTarget) {
  TrainConfig config;
  config.target = 0.9;
  RunProgress progress;
  EXPECT_TRUE(judge(config, scored(1.0, 0.89), progress).stop_reason.empty());
  EXPECT_NE(judge(config, scored(1.0, 0.9), progress).stop_reason.find("train.target"), std::string::npos);
  EXPECT_EQ(stopping_key(config, progress), "train.target=0");
}

TEST(Judge, KnowsOfWhichMetricsLowerIsBetter) {
  const auto stops = [](const char* metric, double value) {
    TrainConfig config;
    config.target = 0.5;
    config.target_metric = metric;
    RunProgress progress;
    return !judge(config, {.loss = 0.7, .items = 100, .metrics = {{"rmse", value}, {"mean_return", value}}},
                  progress)
                .stop_reason.empty();
  };
  EXPECT_TRUE(stops("rmse", 0.4));
  EXPECT_FALSE(stops("rmse", 0.6));
  EXPECT_FALSE(stops("mean_return", 0.4));
  EXPECT_TRUE(stops("mean_return", 0.6));
  EXPECT_FALSE(stops("loss", 0.4));
  EXPECT_FALSE(stops("accuracy", 0.6));  // has no such metric
}

TEST(Judge, StopsAfterValidationsWithoutABetterLoss) {
  TrainConfig config;
  config.early_stop_patience = 2;
  RunProgress progress;
  EXPECT_TRUE(judge(config, scored(1.0, 0.5), progress).stop_reason.empty());
  EXPECT_TRUE(judge(config, scored(1.1, 0.6), progress).stop_reason.empty());
  EXPECT_TRUE(judge(config, scored(0.9, 0.6), progress).stop_reason.empty());  // the count restarts
  EXPECT_TRUE(judge(config, scored(0.9, 0.6), progress).stop_reason.empty());
  const RunProgress resumed = run_progress_from_json(to_json(progress));
  for (RunProgress after : {progress, resumed}) {  // the count survives a resume
    EXPECT_FALSE(judge(config, scored(1.0, 0.6), after).stop_reason.empty());
    EXPECT_EQ(stopping_key(config, after), "train.early_stop_patience=0");
  }
}

}  // namespace
}  // namespace distbelief::run
