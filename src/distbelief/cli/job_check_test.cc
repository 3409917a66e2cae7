#include "distbelief/cli/job_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

namespace distbelief::cli {
namespace {

// What validate() says to the default job with these overrides; "fine" when it says nothing.
std::string verdict(const std::vector<std::string>& overrides) {
  Config config;
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  try {
    validate(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "fine";
}

TEST(Validate, AcceptsTheDefaults) {
  EXPECT_EQ(verdict({}), "fine");
  EXPECT_EQ(verdict({"train.device=cpu"}), "fine");
  EXPECT_NO_THROW(validate(default_job()));
}

TEST(Validate, RefusesNumbersOutOfRange) {
  EXPECT_EQ(verdict({"train.lr=0"}), "train.lr must be greater than 0, found 0");
  EXPECT_EQ(verdict({"train.lr=-0.5"}), "train.lr must be greater than 0, found -0.5");
  EXPECT_EQ(verdict({"train.batch_size=0"}), "train.batch_size must be 1 or more, found 0");
  EXPECT_EQ(verdict({"train.epochs=-1"}), "train.epochs must be from 0 to 1e9, found -1");
  EXPECT_EQ(verdict({"train.momentum=1"}), "train.momentum must be 0 or more and below 1, found 1");
  EXPECT_EQ(verdict({"train.beta1=1"}), "train.beta1 must be 0 or more and below 1, found 1");
  EXPECT_EQ(verdict({"train.beta2=-0.1"}), "train.beta2 must be 0 or more and below 1, found -0.1");
  EXPECT_EQ(verdict({"train.eps=0"}), "train.eps must be greater than 0, found 0");
  EXPECT_EQ(verdict({"train.weight_decay=-1"}), "train.weight_decay must be 0 or more, found -1");
  EXPECT_EQ(verdict({"train.label_smoothing=1"}),
            "train.label_smoothing must be 0 or more and below 1, found 1");
  EXPECT_EQ(verdict({"train.clip_norm=-1"}), "train.clip_norm must be 0 or more, found -1");
  EXPECT_EQ(verdict({"train.lr_step_epochs=0"}), "train.lr_step_epochs must be 1 or more, found 0");
  EXPECT_EQ(verdict({"train.lr_gamma=2"}), "train.lr_gamma must be greater than 0 and at most 1, found 2");
  EXPECT_EQ(verdict({"train.accumulate=0"}), "train.accumulate must be from 1 to 65536, found 0");
  EXPECT_EQ(verdict({"parallel.threads=0"}), "parallel.threads must be from 1 to 1024, found 0");
  EXPECT_EQ(verdict({"parallel.workers=0"}), "parallel.workers must be from 1 to 65536, found 0");
  EXPECT_EQ(verdict({"parallel.lanes=-1"}), "parallel.lanes must be from 0 to 65536, found -1");
  EXPECT_EQ(verdict({"parallel.bucket_mb=0"}),
            "parallel.bucket_mb must be greater than 0 and at most 4096, found 0");
  EXPECT_EQ(verdict({"parallel.deadline_seconds=0"}),
            "parallel.deadline_seconds must be greater than 0 and at most 1e9, found 0");
  EXPECT_EQ(verdict({"data.loader_threads=0"}), "data.loader_threads must be from 1 to 1024, found 0");
  EXPECT_EQ(verdict({"data.train_limit=-1"}), "data.train_limit must be 0 or more, found -1");
  EXPECT_EQ(verdict({"data.pad=2000"}), "data.pad must be from 0 to 1024, found 2000");
  EXPECT_EQ(verdict({"checkpoint.keep=0"}), "checkpoint.keep must be 1 or more, found 0");
  EXPECT_EQ(verdict({"checkpoint.every_seconds=-1"}),
            "checkpoint.every_seconds must be from 0 to 1e9, found -1");
  EXPECT_EQ(verdict({"report.interval_seconds=-1"}),
            "report.interval_seconds must be from 0 to 1e9, found -1");
}

TEST(Validate, ADecomposedModelHasAReplicaForEachSubNetwork) {
  const auto decomposed = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"parallel.sync=parameter_server", "parallel.mode=decomposed"});
    return verdict(more);
  };
  EXPECT_EQ(decomposed({}), "fine");
  EXPECT_EQ(decomposed({"parallel.sub_networks=3", "parallel.workers=4", "parallel.cuts=[1,2]"}), "fine");
  EXPECT_EQ(decomposed({"parallel.sub_networks=3"}),
            "each of 3 sub-networks wants a replica, found 2; set parallel.workers (or --workers) to 3 or "
            "more, or parallel.sub_networks to 2");
  EXPECT_EQ(
      decomposed({"parallel.cuts=[1,2]"}),
      "parallel.cuts names the first block of every stage or sub-network but the first; 2 of these want "
      "1 cuts, found 2");
  for (const char* refused :
       {"parallel.sub_networks=1", "parallel.warm_start=9", "parallel.push_every=2", "parallel.fetch_every=2",
        "train.accumulate=2", "parallel.data=2", "parallel.lanes=2", "parallel.pipeline=2",
        "parallel.tensor=2", "parallel.threads=2", "parallel.delay_compensation=0.1",
        "train.init=model.safetensors", "train.optimizer=lbfgs", "train.optimizer=lamb", "train.target=0.9",
        "model.name=word2vec"})
    EXPECT_NE(decomposed({refused}), "fine") << refused;
  for (const char* refused : {"parallel.sub_networks=3", "parallel.window=2"}) {
    EXPECT_NE(verdict({refused}), "fine");
    EXPECT_NE(verdict({"parallel.sync=parameter_server", refused}), "fine");
  }
}

TEST(Validate, ParameterServersGoWithSomeThingsOnly) {
  const auto served = [](std::vector<std::string> more) {
    more.insert(more.begin(), "parallel.sync=parameter_server");
    return verdict(more);
  };
  EXPECT_EQ(served({}), "fine");
  EXPECT_EQ(served({"parallel.workers=5"}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync"}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.data=2"}), "fine");
  EXPECT_EQ(served({"parallel.mode=hybrid", "parallel.data=3"}), "fine");
  for (const char* mode : {"async", "bounded", "sync", "hybrid"})
    for (const char* way : {"parallel.threads=2", "parallel.pipeline=2", "parallel.tensor=2"})
      EXPECT_EQ(served({std::string("parallel.mode=") + mode, "parallel.workers=2", way}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.workers=3", "parallel.lanes=6"}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.spare_replicas=1"}), "fine");
  EXPECT_EQ(served({"parallel.mode=bounded", "parallel.staleness=3", "parallel.staleness_aware=true"}),
            "fine");
  EXPECT_EQ(served({"parallel.push_every=2", "parallel.fetch_every=3", "parallel.delay_compensation=0.1"}),
            "fine");
  EXPECT_EQ(served({"parallel.mode=bounded", "parallel.fetch_every=2"}),
            "in mode \"bounded\" every step pushes and fetches, or parameters would be staler than "
            "parallel.staleness allows; set parallel.fetch_every = 1, or use mode \"async\"");
  EXPECT_EQ(served({"model.name=word2vec", "train.weight_decay=0.1"}),
            "rows of tables have Adagrad of their own: train.weight_decay would have no effect on those of "
            "model word2vec, which are nearly all of it; set it to 0");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.staleness_aware=true"}),
            "parallel.staleness_aware is for gradients of older parameters, which parallel.mode = \"async\" "
            "has, found \"sync\"; set that, or leave it out");
  for (const std::vector<std::string>& refused :
       {std::vector<std::string>{"parallel.mode=sync", "parallel.workers=2", "parallel.lanes=6"},
        {"parallel.mode=sync", "parallel.workers=2", "parallel.data=3"},
        {"parallel.mode=hybrid", "parallel.data=3", "parallel.lanes=2"},
        {"parallel.mode=sync", "train.clip_norm=1"},
        {"parallel.mode=sync", "parallel.push_every=2"},
        {"parallel.mode=sync", "parallel.spare_replicas=2"},
        {"parallel.mode=sync", "parallel.spare_replicas=1", "train.target=0.9"},
        {"parallel.mode=sync", "parallel.spare_replicas=1", "data.order=streams"},
        {"parallel.spare_replicas=1"},
        {"parallel.mode=bounded", "parallel.fetch_every=2"},
        {"parallel.mode=bounded", "parallel.push_every=2"},
        {"parallel.staleness=3"},
        {"parallel.mode=hybrid", "parallel.staleness=3"},
        {"parallel.mode=decomposed", "parallel.staleness=3"},
        {"parallel.mode=sync", "parallel.staleness=3"},
        {"parallel.mode=sync", "parallel.staleness_aware=true"},
        {"parallel.mode=sync", "parallel.delay_compensation=0.1"},
        {"train.optimizer=lamb"},
        {"train.target=0.9"},
        {"data.order=streams"},
        {"parallel.pipeline=2", "parallel.threads=2"},
        {"parallel.mode=sync", "parallel.workers=2", "parallel.pipeline=3"},
        {"parallel.threads=2", "parallel.lanes=1"},
        {"parallel.zero=2"},
        {"parallel.mesh=auto"},
        {"parallel.state_dir=/tmp"},
        {"model.name=word2vec", "parallel.staleness_aware=true"},
        {"model.name=word2vec", "parallel.delay_compensation=0.1"},
        {"model.name=click_through", "train.weight_decay=0.1"},
        {"model.name=click_through", "train.clip_norm=1"},
        {"model.name=word2vec", "parallel.threads=2"},
        {"model.name=word2vec", "parallel.pipeline=2"},
        {"train.optimizer=lbfgs", "parallel.mode=sandblaster", "parallel.pipeline=2"},
        {"train.optimizer=lbfgs", "parallel.mode=sandblaster", "parallel.threads=2"},
        {"elastic.auto=true"}})
    EXPECT_NE(served(refused), "fine") << refused.back();
  EXPECT_NE(verdict({"parallel.servers=2"}).find("parallel.sync"), std::string::npos);
}

TEST(Validate, LbfgsMinimisesOneLossAndIsRefusedWhatChangesIt) {
  const auto lbfgs = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"train.optimizer=lbfgs", "parallel.workers=1", "parallel.lanes=1"});
    return verdict(more);
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

TEST(Validate, RefusesNamesThatDoNotExist) {
  EXPECT_EQ(
      verdict({"train.optimizer=sdg"}),
      "train.optimizer must be one of sgd, adam, adamw, adagrad, lars, lamb, lbfgs; found 'sdg'; did you "
      "mean 'sgd'?");
  EXPECT_EQ(verdict({"train.schedule=cosin"}),
            "train.schedule must be one of constant, step, cosine; found 'cosin'; did you mean 'cosine'?");
  EXPECT_EQ(verdict({"train.loss=crossentropy"}),
            "train.loss must be one of cross_entropy, nll, mse; found 'crossentropy'; did you mean "
            "'cross_entropy'?");
  EXPECT_EQ(verdict({"parallel.sync=gossip"}),
            "parallel.sync must be one of allreduce, parameter_server; found 'gossip'");
  EXPECT_EQ(
      verdict({"parallel.algorithm=rings"}),
      "parallel.algorithm must be one of auto, two_level, direct, ring, central; found 'rings'; did you mean "
      "'ring'?");
  EXPECT_EQ(verdict({"parallel.overlap=on"}),
            "parallel.overlap must be one of auto, update, reduce, off, check; found 'on'");
  EXPECT_EQ(verdict({"parallel.overlap=check"}), "fine");
  EXPECT_EQ(
      verdict({"parallel.overlap=check", "parallel.zero=2"}),
      "parallel.overlap = \"check\" watches parameters that are held whole; check with parallel.zero = 1, "
      "found 2");
  EXPECT_EQ(verdict({"report.progress=bars"}),
            "report.progress must be one of auto, bar, plain, none; found 'bars'; did you mean 'bar'?");
  EXPECT_EQ(verdict({"data.augment=[flip,crop]"}),
            "data.augment must be one of pad_crop, flip; found 'crop'");
  EXPECT_EQ(verdict({"train.device=cuda"}),
            "train.device must be cpu, found 'cuda'; leave it out (where networks compute; this version "
            "computes on the CPU)");
  EXPECT_EQ(verdict({"data.augment=[flip,flip]"}), "data.augment names 'flip' twice; once is enough");
  EXPECT_EQ(verdict({"model.name="}), "model.name must not be empty");
  EXPECT_EQ(verdict({"data.name="}), "data.name must not be empty");
}

TEST(Validate, ThePlannerChoosesTheMeshOrTheJobDoes) {
  EXPECT_EQ(verdict({"parallel.mesh=auto"}), "fine");
  for (const std::string given : {"data=2", "pipeline=2", "chunks=2", "recompute=true", "schedule=gpipe"})
    EXPECT_EQ(verdict({"parallel.mesh=auto", "parallel." + given}),
              "parallel.mesh = \"auto\" chooses parallel." + given.substr(0, given.find('=')) +
                  " itself; leave one of them out");
}

TEST(Validate, StagesAreScheduledWhereThereAreSome) {
  EXPECT_EQ(verdict({"parallel.pipeline=2", "parallel.recompute=true", "parallel.schedule=interleaved"}),
            "fine");
  for (const std::string given : {"recompute=true", "schedule=interleaved", "schedule=gpipe", "chunks=2"}) {
    const std::string key = "parallel." + given.substr(0, given.find('='));
    EXPECT_EQ(verdict({"parallel." + given}),
              key + " is about the stages of a pipeline, but parallel.pipeline is 1; raise it, or leave " +
                  key + " out");
  }
}

TEST(Validate, RefusesWhatNoJobFileCouldSay) {
  Config config;
  config.train.seed = std::uint64_t{1} << 63;
  config.train.optimizer.lr = std::numeric_limits<double>::infinity();
  config.model.options["dropout"] = std::numeric_limits<double>::infinity();
  config.data.options["path"] = std::string("x");
  const std::vector<Fault> faults = find_faults(config);
  ASSERT_EQ(faults.size(), 4u);
  EXPECT_EQ(faults[0].message,
            "train.seed must be at most 9223372036854775807, the largest integer of TOML, "
            "found 9223372036854775808");
  EXPECT_EQ(faults[1].message, "train.lr must be a finite number, found inf");
  EXPECT_EQ(faults[2].message, "model.dropout must be a finite number, found inf");
  EXPECT_EQ(faults[3].message, "data.path is a key of its own, not an option");
}

TEST(Validate, NeedsAnEnd) {
  EXPECT_EQ(verdict({"train.epochs=0"}),
            "train.epochs and train.max_steps are both 0, so there is nothing to train; set one of them");
  EXPECT_EQ(verdict({"train.epochs=0", "train.max_steps=10"}), "fine");
}

TEST(Validate, PartialWeightsNeedAFile) {
  EXPECT_EQ(verdict({"train.init_partial=true"}),
            "train.init_partial (--init-partial) goes with a file of weights; give train.init (--init "
            "FILE.safetensors) too");
  EXPECT_EQ(verdict({"train.init_partial=true", "train.init=w.safetensors"}), "fine");
}

TEST(Validate, NesterovNeedsSgdWithMomentum) {
  EXPECT_EQ(verdict({"train.nesterov=true"}), "fine");
  const std::string wanted =
      "train.nesterov needs train.optimizer = \"sgd\" with train.momentum greater than 0, found ";
  EXPECT_EQ(verdict({"train.nesterov=true", "train.momentum=0"}),
            wanted + "\"sgd\" with momentum 0; set those, or nesterov = false");
  EXPECT_EQ(verdict({"train.nesterov=true", "train.optimizer=adam"}),
            wanted + "\"adam\" with momentum 0.9; set those, or nesterov = false");
}

TEST(Validate, LabelSmoothingNeedsCrossEntropy) {
  EXPECT_EQ(verdict({"train.label_smoothing=0.1"}), "fine");
  EXPECT_EQ(verdict({"train.loss=mse"}), "fine");
  EXPECT_EQ(
      verdict({"train.label_smoothing=0.1", "train.loss=mse"}),
      "train.label_smoothing works with train.loss = \"cross_entropy\" only, found \"mse\"; set it to 0");
}

TEST(Validate, ScheduleMustNotEndAboveItsRate) {
  EXPECT_EQ(verdict({"train.lr=0.1", "train.min_lr=0.1"}), "fine");
  EXPECT_EQ(verdict({"train.lr=0.1", "train.min_lr=0.2"}),
            "train.min_lr must not exceed train.lr, found 0.2 and 0.1");
}

TEST(Validate, ADiscriminatorsRateIsForOneThatWorkersUpdate) {
  EXPECT_EQ(verdict({"train.lr_discriminator=0.1", "model.name=dcgan"}), "fine");
  EXPECT_EQ(verdict({"train.lr_discriminator=0.1"}),
            "train.lr_discriminator is for model dcgan, found \"cnn\"; leave it out");
  EXPECT_NE(verdict({"train.lr_discriminator=0.1", "model.name=dcgan", "parallel.sync=parameter_server"})
                .find("parameter servers have one learning rate"),
            std::string::npos);
}

TEST(Validate, StoppingEarlyNeedsValidation) {
  EXPECT_EQ(verdict({"train.validate_every=0"}), "fine");
  const std::string trouble =
      " needs validation during training, but train.validate_every is 0; set it to 1 or more";
  EXPECT_EQ(verdict({"train.validate_every=0", "train.early_stop_patience=2"}),
            "train.early_stop_patience" + trouble);
  EXPECT_EQ(verdict({"train.validate_every=0", "train.target=0.9"}), "train.target" + trouble);
}

TEST(Validate, AutomaticScalingNeedsSnapshots) {
  EXPECT_EQ(verdict({"elastic.auto=true"}), "fine");
  EXPECT_EQ(verdict({"elastic.auto=true", "checkpoint.snapshots=false"}),
            "elastic.auto changes the number of workers by a hand-over, which needs checkpoint.snapshots = "
            "true; set "
            "one or the other");
}

TEST(Validate, EveryThreadNeedsALaneAndEveryLaneASample) {
  EXPECT_EQ(verdict({"parallel.workers=2", "parallel.threads=2", "parallel.lanes=4"}), "fine");
  EXPECT_EQ(
      verdict({"parallel.workers=2", "parallel.threads=2", "parallel.lanes=3"}),
      "parallel.lanes must be 0 or at least workers times threads (2 x 2), so that each has one; found 3");
  EXPECT_EQ(verdict({"parallel.workers=4", "train.batch_size=4"}), "fine");
  EXPECT_EQ(
      verdict({"parallel.workers=2", "train.accumulate=2", "train.batch_size=3"}),
      "train.batch_size must be at least the number of lanes, 4 (2 times accumulate 2), or some would never "
      "have a sample; found 3");
}

TEST(Validate, EarlyUpdateExcludesNorms) {
  EXPECT_EQ(verdict({"parallel.overlap=update"}), "fine");
  EXPECT_EQ(verdict({"parallel.overlap=reduce", "train.clip_norm=1"}), "fine");
  EXPECT_EQ(
      verdict({"parallel.overlap=update", "train.clip_norm=1"}),
      "parallel.overlap = \"update\" changes weights while the backward pass still runs, but train.clip_norm "
      "needs the norm of the whole gradient first; use overlap = \"reduce\" or \"auto\"");
  for (const std::string name : {"lars", "lamb"}) {
    EXPECT_EQ(verdict({"parallel.overlap=update", "train.optimizer=" + name}),
              "parallel.overlap = \"update\" changes weights while the backward pass still runs, but "
              "train.optimizer "
              "= \"" +
                  name + "\" needs the norms of whole layers first; use overlap = \"reduce\" or \"auto\"");
  }
}

TEST(Validate, ARingIsNotReproducible) {
  for (const std::string name : {"auto", "two_level", "direct", "central"})
    EXPECT_EQ(verdict({"parallel.algorithm=" + name, "train.reproducible=true"}), "fine");
  EXPECT_EQ(verdict({"parallel.algorithm=ring", "train.reproducible=false"}), "fine");
  EXPECT_TRUE(
      verdict({"parallel.algorithm=ring"}).starts_with("parallel.algorithm = \"ring\" adds in an order"));
}

TEST(Validate, ReportsEveryFaultAtItsPlace) {
  Job job = read_job("[train]\nlr = 0\n\nepochs = -1\n", "job.toml");
  apply_override(job, "checkpoint.keep=0");
  try {
    validate(job);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "job.toml:4: train.epochs must be from 0 to 1e9, found -1\n"
              "job.toml:2: train.lr must be greater than 0, found 0\n"
              "--set checkpoint.keep=0: checkpoint.keep must be 1 or more, found 0");
  }
}

class CheckOptions : public testing::Test {
 protected:
  static std::string refusal(const std::string& text, const std::string& section) {
    const std::vector<OptionSpec> specs = {{"hidden", std::vector<std::int64_t>{128}, ""},
                                           {"dropout", 0.0, ""}};
    try {
      check_options(read_job(text, "job.toml"), section, section + " 'mlp'", specs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.message();
    }
    return "fine";
  }
};

TEST(Validate, RefusesBoundsOfTheNumberOfWorkersThatContradictEachOther) {
  EXPECT_EQ(
      verdict({"elastic.min=2", "elastic.max=1", "parallel.workers=1"}),
      "elastic.min must not exceed elastic.max, found 2 and 1; lower the one or raise the other\n"
      "elastic.min must not exceed the number of workers, found 2 and 1; start more workers, or lower "
      "elastic.min\n"
      "elastic.min is 2, but 1 lanes keep at most 1 workers with 1 thread each busy; lower it, or raise "
      "parallel.lanes");
  EXPECT_EQ(verdict({"elastic.min=3", "elastic.max=3", "parallel.workers=3"}), "fine");
}

TEST(Validate, RefusesANumberOfWorkersOutsideItsBounds) {
  EXPECT_EQ(verdict({"parallel.workers=2", "parallel.lanes=4", "elastic.min=3"}),
            "elastic.min must not exceed the number of workers, found 3 and 2; start more workers, or lower "
            "elastic.min");
  EXPECT_EQ(verdict({"parallel.workers=2", "elastic.max=1"}),
            "elastic.max must be 0 or at least the number of workers, found 1 and 2; start fewer workers, or "
            "raise elastic.max");
  EXPECT_EQ(verdict({"parallel.workers=1", "parallel.lanes=3", "elastic.min=3", "elastic.hostfile=hosts"}),
            "fine")
      << "the run waits for more hosts";
  EXPECT_EQ(verdict({"parallel.workers=1", "parallel.lanes=3", "elastic.min=3", "elastic.discovery=./find"}),
            "fine");
}

TEST(Validate, RefusesBoundsThatTheLanesDoNotAllow) {
  EXPECT_EQ(
      verdict({"parallel.lanes=4", "elastic.max=5"}),
      "elastic.max is 5, but 4 lanes keep at most 4 workers with 1 thread each busy; lower it, or raise "
      "parallel.lanes");
  EXPECT_EQ(
      verdict({"parallel.lanes=4", "parallel.threads=2", "elastic.min=3", "elastic.discovery=./find"}),
      "elastic.min is 3, but 4 lanes keep at most 2 workers with 2 threads each busy; lower it, or raise "
      "parallel.lanes");
  EXPECT_EQ(
      verdict({"parallel.lanes=0", "parallel.workers=2", "elastic.max=5"}),
      "elastic.max is 5, but 2 lanes keep at most 2 workers with 1 thread each busy; lower it, or raise "
      "parallel.lanes")
      << "lanes come with the workers";
  EXPECT_EQ(verdict({"parallel.lanes=2", "train.accumulate=2", "elastic.max=4"}), "fine");
  EXPECT_EQ(verdict({"parallel.lanes=4", "elastic.max=4"}), "fine");
}

TEST_F(CheckOptions, AcceptsWhatTheOwnerUnderstands) {
  EXPECT_EQ(refusal("[model]\nhidden = [3]\ndropout = 0", "model"), "fine");
  EXPECT_EQ(refusal("[data]\nwhatever = 3", "model"), "fine") << "another section";
}

TEST_F(CheckOptions, NamesFileAndLine) {
  EXPECT_EQ(refusal("[model]\ndropout = 0.5\nhiden = [3]", "model"),
            "job.toml:3: model 'mlp' has no option 'hiden'; did you mean 'hidden'?");
  EXPECT_EQ(
      refusal("[model]\nhidden = 3", "model"),
      "job.toml:2: model 'mlp': option 'hidden' must be of type list of integers, such as [128]; found 3, of "
      "type integer");
}

TEST_F(CheckOptions, RecognisesAMisspeltKeyOfTheSection) {
  EXPECT_EQ(refusal("[data]\ntrain_limt = 3", "data"),
            "job.toml:2: unknown key 'data.train_limt'; did you mean 'data.train_limit'?");
}

TEST(ExampleJobs, AreReadAndFine) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DISTBELIEF_SOURCE_DIR "/examples/jobs")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(validate(read_job_file(entry.path()))) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(ExampleJobs, HoldTheDefaultJob) {
  EXPECT_EQ(load_job_file(DISTBELIEF_SOURCE_DIR "/examples/jobs/fashion_mnist_cnn.toml"), default_job());
}

}  // namespace
}  // namespace distbelief::cli
