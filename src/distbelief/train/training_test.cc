// Training pieces that need torch but only one process.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/comm/self_communicator.h"
#include "distbelief/data/pipeline/timed_reader.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/run/run_progress.h"
#include "distbelief/run/state_file.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::train {
namespace {

Config small_job() {
  Config config;
  config.model = {"mlp", {}};
  config.data.name = "synthetic";
  config.data.options = {{"samples", std::int64_t{100}}, {"test_samples", std::int64_t{300}}};
  return config;
}

class ModelFile : public ::testing::Test {
 protected:
  ModelFile()
      : path_(std::filesystem::temp_directory_path() / ("distbelief-model-" + std::to_string(getpid()))) {}
  ~ModelFile() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(ModelFile, BringsBackWeightsAndBuffers) {
  const model::DataShape shape{.tokens = false, .input = {3, 32, 32}, .classes = 10};
  const auto first = model::build_model({"resnet18", {}}, shape, 1);
  const auto second = model::build_model({"resnet18", {}}, shape, 2);
  first->named_buffers()["bn1.running_mean"].fill_(0.5);
  ASSERT_NE(run::weights_sha256(*first), run::weights_sha256(*second));
  run::save_model(*first, path_);
  run::load_model(*second, path_);
  EXPECT_EQ(run::weights_sha256(*first), run::weights_sha256(*second));
  EXPECT_EQ(second->named_buffers()["bn1.running_mean"][0].item<float>(), 0.5F);
}

TEST_F(ModelFile, OfAnotherModelIsRefusedWithTheTensorAndChangesNothing) {
  const model::DataShape shape{.tokens = false, .input = {1, 28, 28}, .classes = 10};
  const auto small = model::build_model({"mlp", {}}, shape, 1);
  const auto large = model::build_model({"mlp", {{"hidden", std::vector<std::int64_t>{64}}}}, shape, 1);
  run::save_model(*large, path_);
  const std::string before = run::weights_sha256(*small);
  try {
    run::load_model(*small, path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("fc1"), std::string::npos) << error.what();
  }
  EXPECT_EQ(run::weights_sha256(*small), before);
}

TEST(Evaluate, CountsEverySampleOnce) {
  const run::PreparedJob job = run::prepare_job(small_job());
  const data::BatchMaker maker(*job.data.test, {.seed = 1});
  const auto task = tasks::make_task(job.config, job.data.test->spec());
  comm::SelfCommunicator alone;
  data::TimedReader reader(maker, {});
  const auto read = [&](data::Range range) -> const data::Batch& { return reader.read(range, 0); };
  const tasks::Evaluation result = tasks::evaluate(*job.network, *task, read, job.data.test->size(), alone);
  EXPECT_EQ(result.items, 300);
  data::Batch all;
  maker.eval_batch({0, 300}, all);
  job.network->eval();
  const tasks::Score whole = task->score(*job.network, tasks::as_tensors(all));
  EXPECT_NEAR(result.accuracy, whole.counts[0] / 300, 1e-12);
  EXPECT_NEAR(result.loss, whole.sums[0] / 300, 1e-4);
}

// The words of summary.json about the bits.
TEST(Job, IsReproducibleUnlessOrderOrTimeDecide) {
  Config ring = small_job();
  ring.parallel.algorithm = "ring";
  EXPECT_TRUE(run::reproducibility(ring, 1, 1).holds);
  EXPECT_FALSE(run::reproducibility(ring, 2, 1).holds);
  Config served = small_job();
  served.parallel.sync = "parameter_server";
  for (const auto& [mode, same] :
       {std::pair("sync", true), std::pair("async", false), std::pair("bounded", false)}) {
    served.parallel.mode = mode;
    EXPECT_EQ(run::reproducibility(served, 1, 1).holds, same) << mode;
  }
  served.parallel.mode = "sync";
  served.parallel.spare_replicas = 1;
  EXPECT_FALSE(run::reproducibility(served, 1, 1).holds);
  EXPECT_TRUE(run::reproducibility(small_job(), 2, 2).holds);
  Config search = small_job();
  search.model = {"fbnet_search", {{"costs", std::string("measured")}}};
  EXPECT_NE(run::reproducibility(search, 1, 1).note.find("model.latencies"), std::string::npos);
  EXPECT_FALSE(run::reproducibility(small_job(), 1, run::kTensorChanged).holds);
}

TEST(Job, LanesFollowWorkersThreadsAndAccumulationUnlessGiven) {
  Config config;
  config.parallel.threads = 2;
  config.train.accumulate = 3;
  run::resolve_for_workers(config, 2);
  EXPECT_EQ(config.parallel.lanes, 12);
  run::resolve_for_workers(config, 4);  // a job's lanes do not change when its workers do
  EXPECT_EQ(config.parallel.lanes, 12);
}

TEST(Job, OverlapWaitsForNormsWhereTheyAreNeeded) {
  Config plain, clipped;
  clipped.train.clip_norm = 1;
  run::resolve_for_workers(plain, 2);
  run::resolve_for_workers(clipped, 2);
  EXPECT_EQ(plain.parallel.overlap, "update");
  EXPECT_EQ(clipped.parallel.overlap, "reduce");
}

TEST(Job, TwoLevelsAreDirectBetweenHosts) {
  for (const std::string name : {"auto", "two_level", "direct"}) {
    Config config;
    config.parallel.algorithm = name;
    run::resolve_for_workers(config, 4);
    EXPECT_EQ(config.parallel.algorithm, name == "auto" ? "direct" : name);
    EXPECT_EQ(run::algorithm_of(config), comm::Algorithm::kDirect) << name;
  }
}

TEST(Job, WithoutEpochsRunsToMaxSteps) {
  Config config = small_job();
  config.train.epochs = 0;
  config.train.max_steps = 77;
  EXPECT_EQ(run::prepare_job(config).total_steps(), 77);
}

}  // namespace
}  // namespace distbelief::train
