#include "distbelief/job/constraints.h"

#include <gtest/gtest.h>

#include "distbelief/testing/job_verdict.h"

namespace distbelief::job {
namespace {

TEST(JobMixes, LbfgsMinimisesOneLossAndIsRefusedWhatChangesIt) {
  const auto lbfgs = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"train.optimizer=lbfgs", "parallel.workers=1", "parallel.lanes=1"});
    return testing::verdict(more);
  };
  const std::vector<std::string> served{"parallel.sync=parameter_server", "parallel.mode=sandblaster"};
  EXPECT_EQ(lbfgs({}), "fine");
  EXPECT_EQ(lbfgs(served), "fine");
  const std::pair<const char*, const char*> refused[] = {
      {"model.dropout=0.1", "same loss"},         {"data.augment=[\"flip\"]", "data.augment"},
      {"train.clip_norm=1.0", "train.clip_norm"}, {"train.max_steps=7", "train.epochs"},
      {"train.target=0.9", "stopping rules"},     {"train.task=few_labels", "few_labels"},
      {"parallel.pipeline=2", "whole network"}};
  for (const auto& [setting, reason] : refused)
    EXPECT_NE(lbfgs({setting}).find(reason), std::string::npos) << setting << ": " << lbfgs({setting});
  for (const char* setting : {"parallel.mode=async", "parallel.fetch_every=2", "parallel.data=2",
                              "parallel.spare_replicas=1", "train.optimizer=sgd"}) {
    std::vector<std::string> settings = served;
    settings.emplace_back(setting);
    EXPECT_NE(lbfgs(settings), "fine") << setting;
  }
}

TEST(JobMixes, ThePlannerChoosesTheMeshOrTheJobDoes) {
  EXPECT_EQ(testing::verdict({"parallel.mesh=auto"}), "fine");
  for (const std::string given : {"data=2", "pipeline=2", "chunks=2", "recompute=true", "schedule=gpipe"})
    EXPECT_EQ(testing::verdict({"parallel.mesh=auto", "parallel." + given}),
              "parallel.mesh = \"auto\" chooses parallel." + given.substr(0, given.find('=')) +
                  " itself; leave one of them out");
}

TEST(JobMixes, StagesAreScheduledWhereThereAreSome) {
  EXPECT_EQ(
      testing::verdict({"parallel.pipeline=2", "parallel.recompute=true", "parallel.schedule=interleaved"}),
      "fine");
  for (const std::string given : {"recompute=true", "schedule=interleaved", "schedule=gpipe", "chunks=2"}) {
    const std::string key = "parallel." + given.substr(0, given.find('='));
    EXPECT_EQ(testing::verdict({"parallel." + given}),
              key + " is about the stages of a pipeline, but parallel.pipeline is 1; raise it, or leave " +
                  key + " out");
  }
}

TEST(JobMixes, NeedsAnEnd) {
  EXPECT_EQ(testing::verdict({"train.epochs=0"}),
            "train.epochs and train.max_steps are both 0, so there is nothing to train; set one of them");
  EXPECT_EQ(testing::verdict({"train.epochs=0", "train.max_steps=10"}), "fine");
}

TEST(JobMixes, PartialWeightsNeedAFile) {
  EXPECT_EQ(testing::verdict({"train.init_partial=true"}),
            "train.init_partial (--init-partial) goes with a file of weights; give train.init (--init "
            "FILE.safetensors) too");
  EXPECT_EQ(testing::verdict({"train.init_partial=true", "train.init=w.safetensors"}), "fine");
}

TEST(JobMixes, NesterovNeedsSgdWithMomentum) {
  EXPECT_EQ(testing::verdict({"train.nesterov=true"}), "fine");
  const std::string wanted =
      "train.nesterov needs train.optimizer = \"sgd\" with train.momentum greater than 0, found ";
  EXPECT_EQ(testing::verdict({"train.nesterov=true", "train.momentum=0"}),
            wanted + "\"sgd\" with momentum 0; set those, or nesterov = false");
  EXPECT_EQ(testing::verdict({"train.nesterov=true", "train.optimizer=adam"}),
            wanted + "\"adam\" with momentum 0.9; set those, or nesterov = false");
}

TEST(JobMixes, LabelSmoothingNeedsCrossEntropy) {
  EXPECT_EQ(testing::verdict({"train.label_smoothing=0.1"}), "fine");
  EXPECT_EQ(testing::verdict({"train.loss=mse"}), "fine");
  EXPECT_EQ(
      testing::verdict({"train.label_smoothing=0.1", "train.loss=mse"}),
      "train.label_smoothing works with train.loss = \"cross_entropy\" only, found \"mse\"; set it to 0");
}

TEST(JobMixes, ScheduleMustNotEndAboveItsRate) {
  EXPECT_EQ(testing::verdict({"train.lr=0.1", "train.min_lr=0.1"}), "fine");
  EXPECT_EQ(testing::verdict({"train.lr=0.1", "train.min_lr=0.2"}),
            "train.min_lr must not exceed train.lr, found 0.2 and 0.1");
}

TEST(JobMixes, ADiscriminatorsRateIsForOneThatWorkersUpdate) {
  EXPECT_EQ(testing::verdict({"train.lr_discriminator=0.1", "model.name=dcgan"}), "fine");
  EXPECT_EQ(testing::verdict({"train.lr_discriminator=0.1"}),
            "train.lr_discriminator is for model dcgan, found \"cnn\"; leave it out");
  EXPECT_NE(
      testing::verdict({"train.lr_discriminator=0.1", "model.name=dcgan", "parallel.sync=parameter_server"})
          .find("parameter servers have one learning rate"),
      std::string::npos);
}

TEST(JobMixes, StoppingEarlyNeedsValidation) {
  EXPECT_EQ(testing::verdict({"train.validate_every=0"}), "fine");
  const std::string trouble =
      " needs validation during training, but train.validate_every is 0; set it to 1 or more";
  EXPECT_EQ(testing::verdict({"train.validate_every=0", "train.early_stop_patience=2"}),
            "train.early_stop_patience" + trouble);
  EXPECT_EQ(testing::verdict({"train.validate_every=0", "train.target=0.9"}), "train.target" + trouble);
}

TEST(JobMixes, AutomaticScalingNeedsSnapshots) {
  EXPECT_EQ(testing::verdict({"elastic.auto=true"}), "fine");
  EXPECT_EQ(testing::verdict({"elastic.auto=true", "checkpoint.snapshots=false"}),
            "elastic.auto changes the number of workers by a hand-over, which needs checkpoint.snapshots = "
            "true; set "
            "one or the other");
}

TEST(JobMixes, EveryThreadNeedsALaneAndEveryLaneASample) {
  EXPECT_EQ(testing::verdict({"parallel.workers=2", "parallel.threads=2", "parallel.lanes=4"}), "fine");
  EXPECT_EQ(
      testing::verdict({"parallel.workers=2", "parallel.threads=2", "parallel.lanes=3"}),
      "parallel.lanes must be 0 or at least workers times threads (2 x 2), so that each has one; found 3");
  EXPECT_EQ(testing::verdict({"parallel.workers=4", "train.batch_size=4"}), "fine");
  EXPECT_EQ(
      testing::verdict({"parallel.workers=2", "train.accumulate=2", "train.batch_size=3"}),
      "train.batch_size must be at least the number of lanes, 4 (2 times accumulate 2), or some would never "
      "have a sample; found 3");
}

TEST(JobMixes, EarlyUpdateExcludesNorms) {
  EXPECT_EQ(testing::verdict({"parallel.overlap=update"}), "fine");
  EXPECT_EQ(testing::verdict({"parallel.overlap=reduce", "train.clip_norm=1"}), "fine");
  EXPECT_EQ(
      testing::verdict({"parallel.overlap=update", "train.clip_norm=1"}),
      "parallel.overlap = \"update\" changes weights while the backward pass still runs, but train.clip_norm "
      "needs the norm of the whole gradient first; use overlap = \"reduce\" or \"auto\"");
  for (const std::string name : {"lars", "lamb"}) {
    EXPECT_EQ(testing::verdict({"parallel.overlap=update", "train.optimizer=" + name}),
              "parallel.overlap = \"update\" changes weights while the backward pass still runs, but "
              "train.optimizer "
              "= \"" +
                  name + "\" needs the norms of whole layers first; use overlap = \"reduce\" or \"auto\"");
  }
}

TEST(JobMixes, ARingIsNotReproducible) {
  for (const std::string name : {"auto", "two_level", "direct", "central"})
    EXPECT_EQ(testing::verdict({"parallel.algorithm=" + name, "train.reproducible=true"}), "fine");
  EXPECT_EQ(testing::verdict({"parallel.algorithm=ring", "train.reproducible=false"}), "fine");
  EXPECT_TRUE(testing::verdict({"parallel.algorithm=ring"})
                  .starts_with("parallel.algorithm = \"ring\" adds in an order"));
}

TEST(JobMixes, RefusesBoundsOfTheNumberOfWorkersThatContradictEachOther) {
  EXPECT_EQ(
      testing::verdict({"elastic.min=2", "elastic.max=1", "parallel.workers=1"}),
      "elastic.min must not exceed elastic.max, found 2 and 1; lower the one or raise the other\n"
      "elastic.min must not exceed the number of workers, found 2 and 1; start more workers, or lower "
      "elastic.min\n"
      "elastic.min is 2, but 1 lanes keep at most 1 workers with 1 thread each busy; lower it, or raise "
      "parallel.lanes");
  EXPECT_EQ(testing::verdict({"elastic.min=3", "elastic.max=3", "parallel.workers=3"}), "fine");
}

TEST(JobMixes, RefusesANumberOfWorkersOutsideItsBounds) {
  EXPECT_EQ(testing::verdict({"parallel.workers=2", "parallel.lanes=4", "elastic.min=3"}),
            "elastic.min must not exceed the number of workers, found 3 and 2; start more workers, or lower "
            "elastic.min");
  EXPECT_EQ(testing::verdict({"parallel.workers=2", "elastic.max=1"}),
            "elastic.max must be 0 or at least the number of workers, found 1 and 2; start fewer workers, or "
            "raise elastic.max");
  EXPECT_EQ(
      testing::verdict({"parallel.workers=1", "parallel.lanes=3", "elastic.min=3", "elastic.hostfile=hosts"}),
      "fine")
      << "the run waits for more hosts";
  EXPECT_EQ(testing::verdict(
                {"parallel.workers=1", "parallel.lanes=3", "elastic.min=3", "elastic.discovery=./find"}),
            "fine");
}

TEST(JobMixes, RefusesBoundsThatTheLanesDoNotAllow) {
  EXPECT_EQ(
      testing::verdict({"parallel.lanes=4", "elastic.max=5"}),
      "elastic.max is 5, but 4 lanes keep at most 4 workers with 1 thread each busy; lower it, or raise "
      "parallel.lanes");
  EXPECT_EQ(
      testing::verdict(
          {"parallel.lanes=4", "parallel.threads=2", "elastic.min=3", "elastic.discovery=./find"}),
      "elastic.min is 3, but 4 lanes keep at most 2 workers with 2 threads each busy; lower it, or raise "
      "parallel.lanes");
  EXPECT_EQ(
      testing::verdict({"parallel.lanes=0", "parallel.workers=2", "elastic.max=5"}),
      "elastic.max is 5, but 2 lanes keep at most 2 workers with 1 thread each busy; lower it, or raise "
      "parallel.lanes")
      << "lanes come with the workers";
  EXPECT_EQ(testing::verdict({"parallel.lanes=2", "train.accumulate=2", "elastic.max=4"}), "fine");
  EXPECT_EQ(testing::verdict({"parallel.lanes=4", "elastic.max=4"}), "fine");
}

}  // namespace
}  // namespace distbelief::job
