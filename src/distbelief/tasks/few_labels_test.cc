#include <gtest/gtest.h>

#include "distbelief/data/registry.h"
#include "distbelief/model/random.h"
#include "distbelief/tasks/altered_view.h"
#include "distbelief/tasks/task.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::tasks {
namespace {

Config few_labels_job() {
  Config config;
  config.data.name = "synthetic";
  config.data.options = {{"samples", std::int64_t{40}},
                         {"test_samples", std::int64_t{8}},
                         {"height", std::int64_t{8}},
                         {"width", std::int64_t{8}}};
  config.train.task = "few_labels";
  config.train.labelled = 0.3;
  return config;
}

class FewLabelsTask : public ::testing::Test {
 protected:
  FewLabelsTask() {
    data::BatchMaker(*data_.train, {}).eval_batch({0, data_.train->size()}, batch_);
    all_ = prepared_for_lane(*make_task(config_, data_.train->spec()), as_tensors(batch_), 1, torch::kCPU);
    config_.train.unlabelled = false;
    alone_ = make_task(config_, data_.train->spec());
  }
  Config config_ = few_labels_job();
  data::DataSet data_ = data::open_data_set(config_.data);
  std::shared_ptr<model::Network> network_ =
      model::build_model(config_.model, shape_of(data_.train->spec()), config_.train.seed);
  data::Batch batch_;
  TensorBatch all_;  // without the key
  std::unique_ptr<Task> alone_;
};

TEST_F(FewLabelsTask, LabelsAloneAreTheOnesThatCountAmongAll) {
  const torch::Tensor rows = all_.target.ge(0).nonzero().flatten();
  ASSERT_GT(rows.size(0), 0);
  ASSERT_LT(rows.size(0), 40);
  const TensorBatch some = prepared_for_lane(*alone_, as_tensors(batch_), 1, torch::kCPU);
  EXPECT_EQ(some.size, rows.size(0));
  EXPECT_TRUE(torch::equal(some.input, all_.input.index_select(0, rows)));
  EXPECT_TRUE(torch::equal(some.target, all_.target.index_select(0, rows)));
}

TEST(FewLabels, AreOfSamplesWithOneClassThatCanBeAltered) {
  Config config;
  config.train.task = "few_labels";
  const auto refused = [&](const data::SampleSpec& spec) {
    return testing::refusal([&] { make_task(config, spec); });
  };
  data::SampleSpec images;
  images.input_shape = {1, 8, 8};
  images.classes = 3;
  EXPECT_EQ(refused(images), "accepted");
  images.target_shape = {8, 8};  // one class per pixel
  EXPECT_NE(refused(images).find("one class each"), std::string::npos);
  data::SampleSpec tokens;
  tokens.input_type = ElementType::kInt64;
  tokens.input_shape = tokens.target_shape = {8};
  tokens.classes = 9;
  EXPECT_NE(refused(tokens).find("one class each"), std::string::npos);
}

TEST_F(FewLabelsTask, ALaneWithoutALabelMovesNothing) {
  TensorBatch lane = as_tensors(batch_);
  const auto unknown = std::size_t(all_.target.lt(0).nonzero()[0].item<std::int64_t>());
  lane.input = lane.input.narrow(0, std::int64_t(unknown), 1);
  lane.target = lane.target.narrow(0, std::int64_t(unknown), 1);
  lane.samples = lane.samples.subspan(unknown, 1);
  lane.size = 1;
  const torch::Tensor loss = alone_->loss_sum(*network_, prepared_for_lane(*alone_, lane, 1, torch::kCPU));
  loss.backward();
  EXPECT_EQ(loss.item<float>(), 0.0F);
  for (const torch::Tensor& parameter : network_->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST_F(FewLabelsTask, AlteredViewsBelongToTheLanesSeed) {
  const auto view = [&](std::uint64_t seed) {
    const model::GeneratorScope randomness(seed);
    return altered_view(all_.input);
  };
  const torch::Tensor one = view(1);
  EXPECT_EQ(one.sizes(), all_.input.sizes());
  EXPECT_TRUE(torch::equal(one, view(1)));
  EXPECT_FALSE(torch::equal(one, view(2)));
  EXPECT_FALSE(torch::equal(one, all_.input));
}

}  // namespace
}  // namespace distbelief::tasks
