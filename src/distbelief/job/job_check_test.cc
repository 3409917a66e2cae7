#include "distbelief/job/job_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "distbelief/testing/job_verdict.h"

namespace distbelief::job {
namespace {

TEST(Validate, AcceptsTheDefaults) {
  EXPECT_EQ(testing::verdict({}), "fine");
  EXPECT_EQ(testing::verdict({"train.device=cpu"}), "fine");
  EXPECT_NO_THROW(validate(default_job()));
}

TEST(Validate, RefusesNumbersOutOfRange) {
  EXPECT_EQ(testing::verdict({"train.lr=0"}), "train.lr must be greater than 0, found 0");
  EXPECT_EQ(testing::verdict({"train.lr=-0.5"}), "train.lr must be greater than 0, found -0.5");
  EXPECT_EQ(testing::verdict({"train.batch_size=0"}), "train.batch_size must be 1 or more, found 0");
  EXPECT_EQ(testing::verdict({"train.epochs=-1"}), "train.epochs must be from 0 to 1e9, found -1");
  EXPECT_EQ(testing::verdict({"train.momentum=1"}), "train.momentum must be 0 or more and below 1, found 1");
  EXPECT_EQ(testing::verdict({"train.beta1=1"}), "train.beta1 must be 0 or more and below 1, found 1");
  EXPECT_EQ(testing::verdict({"train.beta2=-0.1"}), "train.beta2 must be 0 or more and below 1, found -0.1");
  EXPECT_EQ(testing::verdict({"train.eps=0"}), "train.eps must be greater than 0, found 0");
  EXPECT_EQ(testing::verdict({"train.weight_decay=-1"}), "train.weight_decay must be 0 or more, found -1");
  EXPECT_EQ(testing::verdict({"train.label_smoothing=1"}),
            "train.label_smoothing must be 0 or more and below 1, found 1");
  EXPECT_EQ(testing::verdict({"train.clip_norm=-1"}), "train.clip_norm must be 0 or more, found -1");
  EXPECT_EQ(testing::verdict({"train.lr_step_epochs=0"}), "train.lr_step_epochs must be 1 or more, found 0");
  EXPECT_EQ(testing::verdict({"train.lr_gamma=2"}),
            "train.lr_gamma must be greater than 0 and at most 1, found 2");
  EXPECT_EQ(testing::verdict({"train.accumulate=0"}), "train.accumulate must be from 1 to 65536, found 0");
  EXPECT_EQ(testing::verdict({"parallel.threads=0"}), "parallel.threads must be from 1 to 1024, found 0");
  EXPECT_EQ(testing::verdict({"parallel.workers=0"}), "parallel.workers must be from 1 to 65536, found 0");
  EXPECT_EQ(testing::verdict({"parallel.lanes=-1"}), "parallel.lanes must be from 0 to 65536, found -1");
  EXPECT_EQ(testing::verdict({"parallel.bucket_mb=0"}),
            "parallel.bucket_mb must be greater than 0 and at most 4096, found 0");
  EXPECT_EQ(testing::verdict({"parallel.deadline_seconds=0"}),
            "parallel.deadline_seconds must be greater than 0 and at most 1e9, found 0");
  EXPECT_EQ(testing::verdict({"data.loader_threads=0"}),
            "data.loader_threads must be from 1 to 1024, found 0");
  EXPECT_EQ(testing::verdict({"data.train_limit=-1"}), "data.train_limit must be 0 or more, found -1");
  EXPECT_EQ(testing::verdict({"data.pad=2000"}), "data.pad must be from 0 to 1024, found 2000");
  EXPECT_EQ(testing::verdict({"checkpoint.keep=0"}), "checkpoint.keep must be 1 or more, found 0");
  EXPECT_EQ(testing::verdict({"checkpoint.every_seconds=-1"}),
            "checkpoint.every_seconds must be from 0 to 1e9, found -1");
  EXPECT_EQ(testing::verdict({"report.interval_seconds=-1"}),
            "report.interval_seconds must be from 0 to 1e9, found -1");
}

TEST(Validate, RefusesNamesThatDoNotExist) {
  EXPECT_EQ(
      testing::verdict({"train.optimizer=sdg"}),
      "train.optimizer must be one of sgd, adam, adamw, adagrad, lars, lamb, lbfgs; found 'sdg'; did you "
      "mean 'sgd'?");
  EXPECT_EQ(testing::verdict({"train.schedule=cosin"}),
            "train.schedule must be one of constant, step, cosine; found 'cosin'; did you mean 'cosine'?");
  EXPECT_EQ(testing::verdict({"train.loss=crossentropy"}),
            "train.loss must be one of cross_entropy, nll, mse; found 'crossentropy'; did you mean "
            "'cross_entropy'?");
  EXPECT_EQ(testing::verdict({"parallel.sync=gossip"}),
            "parallel.sync must be one of allreduce, parameter_server; found 'gossip'");
  EXPECT_EQ(
      testing::verdict({"parallel.algorithm=rings"}),
      "parallel.algorithm must be one of auto, two_level, direct, ring, central; found 'rings'; did you mean "
      "'ring'?");
  EXPECT_EQ(testing::verdict({"parallel.overlap=on"}),
            "parallel.overlap must be one of auto, update, reduce, off, check; found 'on'");
  EXPECT_EQ(testing::verdict({"parallel.overlap=check"}), "fine");
  EXPECT_EQ(
      testing::verdict({"parallel.overlap=check", "parallel.zero=2"}),
      "parallel.overlap = \"check\" watches parameters that are held whole; check with parallel.zero = 1, "
      "found 2");
  EXPECT_EQ(testing::verdict({"report.progress=bars"}),
            "report.progress must be one of auto, bar, plain, none; found 'bars'; did you mean 'bar'?");
  EXPECT_EQ(testing::verdict({"data.augment=[flip,crop]"}),
            "data.augment must be one of pad_crop, flip; found 'crop'");
  EXPECT_EQ(testing::verdict({"train.device=cuda"}),
            "train.device must be cpu, found 'cuda'; leave it out (where networks compute; this version "
            "computes on the CPU)");
  EXPECT_EQ(testing::verdict({"data.augment=[flip,flip]"}),
            "data.augment names 'flip' twice; once is enough");
  EXPECT_EQ(testing::verdict({"model.name="}), "model.name must not be empty");
  EXPECT_EQ(testing::verdict({"data.name="}), "data.name must not be empty");
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

class CheckOptions : public ::testing::Test {
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
}  // namespace distbelief::job
