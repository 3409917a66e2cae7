#include "distbelief/planner/block_costs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/planner/memory_meter.h"

namespace distbelief::planner {
namespace {

run::PreparedJob small_mlp() {
  Config config;
  config.model = {"mlp", {{"hidden", std::vector<std::int64_t>{32, 16}}}};
  config.data.name = "synthetic";
  config.data.options = {{"samples", std::int64_t{64}},
                         {"test_samples", std::int64_t{8}},
                         {"height", std::int64_t{8}},
                         {"width", std::int64_t{8}}};
  return run::prepare_blueprint(config);
}

TEST(MemoryMeter, CountsWhatTensorsTakeAndGiveBack) {
  const torch::Tensor before = torch::empty({5});
  const MemoryMeter meter;
  {
    const torch::Tensor tensor = torch::empty({1000});
    EXPECT_EQ(meter.held(), 4000);
  }
  EXPECT_EQ(meter.held(), 0);
  EXPECT_EQ(meter.peak(), 4000);
  meter.begin_peak();
  EXPECT_EQ(meter.peak(), 0);
}

TEST(BlockCosts, HoldTheNetworksParametersAndWhatEachBlockHandsOn) {
  const run::PreparedJob job = small_mlp();
  const LaneCosts lane = measure_lane(job, {.samples = 8});
  ASSERT_EQ(lane.blocks.size(), 3U);
  EXPECT_EQ(lane.blocks[0].parameter_bytes, (64 * 32 + 32) * sizeof(float));
  EXPECT_EQ(lane.blocks[1].parameter_bytes, (32 * 16 + 16) * sizeof(float));
  EXPECT_EQ(lane.blocks[0].output_bytes, 8 * 32 * sizeof(float));
  EXPECT_EQ(lane.blocks[1].output_bytes, 8 * 16 * sizeof(float));
  EXPECT_EQ(lane.input_bytes, 8 * (64 * sizeof(float) + sizeof(std::int64_t)));
  for (const mesh::BlockCost& block : lane.blocks) {
    EXPECT_GT(block.forward_seconds, 0);
    EXPECT_GT(block.backward_seconds, 0);
  }
}

TEST(BlockCosts, KeepActivationsOfEverySample) {
  const run::PreparedJob job = small_mlp();
  const LaneCosts few = measure_lane(job, {.samples = 8}), many = measure_lane(job, {.samples = 32});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GE(few.blocks[i].activation_bytes, few.blocks[i].output_bytes);
    EXPECT_EQ(many.blocks[i].activation_bytes, 4 * few.blocks[i].activation_bytes);
    EXPECT_GE(many.blocks[i].forward_bytes, many.blocks[i].output_bytes);
  }
  // Backward makes at least the gradients of the parameters.
  EXPECT_GE(few.blocks[0].working_bytes, few.blocks[0].parameter_bytes);
}

TEST(BlockCosts, WorkersThatMeasureTogetherMeetEquallyOften) {
  const run::PreparedJob job = small_mlp();
  int calls = 0;
  measure_lane(job, {.samples = 8, .largest_of_all = [&](double own) {
                       ++calls;
                       return own + 1;  // another worker takes a second, so the least number of runs suffices
                     }});
  EXPECT_EQ(calls, 1 + 3);
}

TEST(BlockCosts, AreReadAgainAndMeasuredAnewWhenTheFileIsDamaged) {
  const run::PreparedJob job = small_mlp();
  const ScratchFolder scratch;
  const BlockMeasurement measurement{.samples = 8, .kept_in = scratch.path() / "blocks.json"};
  const auto first = to_json(measure_blocks(job, measurement));
  EXPECT_EQ(to_json(measure_blocks(job, measurement)), first) << "times of another measurement differ";
  nlohmann::json kept = nlohmann::json::parse(read_text(measurement.kept_in));
  for (const char* damage : {"text", "missing", "cut"}) {
    nlohmann::json damaged = kept;
    auto& block = damaged["blocks"][1];
    if (damage == std::string("text")) block["forward_seconds"] = "soon";
    if (damage == std::string("missing")) block.erase("output_bytes");
    std::string text = damaged.dump();
    if (damage == std::string("cut")) text.resize(text.size() / 2);
    std::ofstream(measurement.kept_in) << text;
    EXPECT_EQ(measure_blocks(job, measurement).size(), 3U) << damage;
    EXPECT_EQ(nlohmann::json::parse(read_text(measurement.kept_in))["blocks"].size(), 3U) << damage;
  }
}

}  // namespace
}  // namespace distbelief::planner
