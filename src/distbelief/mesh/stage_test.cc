#include "distbelief/mesh/stage.h"

#include <gtest/gtest.h>

#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/model/random.h"
#include "distbelief/model/registry.h"

namespace distbelief::mesh {
namespace {

const model::DataShape kStageImages{.tokens = false, .input = {3, 16, 16}, .classes = 10};
const model::DataShape kText{.tokens = true, .input = {12}, .classes = 32};

struct Case {
  ModelConfig model;
  model::DataShape shape;
};

std::vector<Case> cases() {
  const OptionMap gpt{
      {"layers", std::int64_t{2}}, {"width", std::int64_t{16}}, {"heads", std::int64_t{2}}, {"dropout", 0.2}};
  OptionMap tied = gpt;
  tied["tied"] = true;
  return {{{"mlp", {{"hidden", std::vector<std::int64_t>{8, 9, 7}}, {"dropout", 0.2}}}, kStageImages},
          {{"cnn", {}}, kStageImages},
          {{"resnet18", {}}, kStageImages},
          {{"gpt", gpt}, kText},
          {{"gpt", tied}, kText}};
}

std::vector<int> ends_of(int blocks, int stages) {
  std::vector<int> ends;
  for (int s = 1; s <= stages; ++s) ends.push_back(blocks * s / stages);
  return ends;
}

TEST(Stage, OutlinesOfAllCutsDescribeTheWholeNetwork) {
  for (const Case& each : cases()) {
    const model::Blueprint blueprint = model::model_blueprint(each.model, each.shape);
    const auto network = model::build_model(each.model, each.shape, 7);
    const NetworkOutline whole = outline_of(*network);
    const compute::Layout layout(whole.parameters, 1 << 20);
    for (int stages = 1; stages <= int(blueprint.size()); ++stages) {
      const NetworkOutline cut = outline_of(blueprint, ends_of(int(blueprint.size()), stages), 7);
      ASSERT_EQ(cut.parameters.size(), whole.parameters.size()) << each.model.name;
      EXPECT_EQ(cut.buffers, whole.buffers);
      std::size_t next = 0;
      for (const StageOutline& stage : cut.stages) {
        EXPECT_EQ(stage.first_parameter, next);
        next += stage.parameters.size();
        const compute::Layout own(stage.parameters, 4096);
        for (std::size_t i = 0; i < stage.parameters.size(); ++i) {
          const compute::Entry& entry = layout.entries()[stage.first_parameter + i];
          EXPECT_EQ(stage.parameters[i].name, entry.name);
          EXPECT_EQ(stage.offsets[i], entry.offset);
        }
      }
      EXPECT_EQ(next, whole.parameters.size());
    }
  }
}

// Two workers hold halves of the columns of a 2 x 4 tensor, followed by padding.
TEST(Stage, WhatIsPutIntoTheWholeArrayComesOutOfIt) {
  const StageRuns left{.local = 1, .whole = 3, .count = 2, .runs = 2, .stride = 4};
  const StageRuns right{.local = 0, .whole = 5, .count = 2, .runs = 2, .stride = 4};
  const StageRuns padding{.local = StageRuns::kNowhere, .whole = 11, .count = 3};
  const std::vector<float> first{9, 1, 2, 5, 6}, second{3, 4, 7, 8};
  std::vector<float> whole(15, 9);
  write_runs(std::vector{left, padding}, first.data(), whole.data());
  write_runs(std::vector{right}, second.data(), whole.data());
  EXPECT_EQ(whole, (std::vector<float>{9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9}));
  std::vector<float> back{9, 0, 0, 0, 0};
  copy_runs(std::vector{left}, whole.data(), back.data());
  EXPECT_EQ(back, first);
}

TEST(Stage, ATiedWeightBelongsToTheFirstStageThatHasIt) {
  const Case tied = cases().back();
  const NetworkOutline outline = outline_of(model::model_blueprint(tied.model, tied.shape), ends_of(4, 2), 7);
  EXPECT_TRUE(outline.stages[0].tied.empty());
  EXPECT_EQ(outline.stages[1].tied, std::vector<std::string>{"tok.weight"});
}

// A stage has the same weights, running statistics, randomness and results as in the whole network.
TEST(Stage, StagesComputeWhatTheWholeNetworkDoes) {
  for (const Case& each : cases()) {
    const model::Blueprint blueprint = model::model_blueprint(each.model, each.shape);
    const auto whole = model::build_model(each.model, each.shape, 7);
    Shape batch = each.shape.input;
    batch.insert(batch.begin(), 3);
    const torch::Tensor input =
        each.shape.tokens ? torch::randint(32, batch, torch::kInt64) : torch::rand(batch);
    torch::Tensor expected, found = input;
    {
      const model::GeneratorScope randomness(99);
      expected = whole->forward(input);
    }
    int begin = 0;
    for (const int end : ends_of(int(blueprint.size()), 3)) {
      const model::GeneratorScope randomness(99);
      model::Network stage(blueprint, {begin, end}, 7);
      found = stage.forward(found.detach());
      for (const auto& parameter : stage.named_parameters())
        EXPECT_TRUE(torch::equal(parameter.value(), whole->named_parameters()[parameter.key()]))
            << each.model.name << " " << parameter.key();
      for (const auto& buffer : stage.named_buffers())
        EXPECT_TRUE(torch::equal(buffer.value(), whole->named_buffers()[buffer.key()])) << buffer.key();
      begin = end;
    }
    EXPECT_TRUE(torch::equal(found, expected)) << each.model.name;
  }
}

}  // namespace
}  // namespace distbelief::mesh
