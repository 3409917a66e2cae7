#include "distbelief/run/decomposition.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/model/local_head.h"
#include "distbelief/modes/servers/sub_network_task.h"

namespace distbelief::modes {
namespace {

Config decomposed(const std::string& model, std::int64_t sub_networks) {
  Config config;
  config.model.name = model;
  config.data.name = "synthetic";
  config.data.options = {
      {"samples", std::int64_t{8}}, {"height", std::int64_t{8}}, {"width", std::int64_t{8}}};
  config.train.batch_size = 4;
  config.parallel.sync = "parameter_server";
  config.parallel.mode = "decomposed";
  config.parallel.sub_networks = sub_networks;
  return config;
}

std::string refusal_of(const Config& config) {
  try {
    run::prepare_blueprint(config);
  } catch (const Error& error) {
    return error.message();
  }
  return "fine";
}

TEST(Decomposition, HeadsStandAtTheEndOfAllSubNetworksButTheLast) {
  const run::PreparedJob job = run::prepare_job(decomposed("cnn", 3));  // four blocks
  ASSERT_EQ(job.sub_networks.size(), 3U);
  EXPECT_EQ(job.sub_networks[0].blocks, (model::BlockRange{0, 2}));
  EXPECT_EQ(job.sub_networks[1].blocks, (model::BlockRange{2, 4}));
  EXPECT_EQ(job.sub_networks[2].blocks, (model::BlockRange{4, 6}));
  EXPECT_EQ(job.sub_networks[0].input, job.data.train->spec().input_shape);
  EXPECT_EQ(job.sub_networks[1].input, (Shape{32, 4, 4}));
  EXPECT_EQ(job.sub_networks[2].input, (Shape{64, 2, 2}));
  EXPECT_TRUE(job.network->named_parameters().contains("layers.local_head0.weight"));
  EXPECT_TRUE(job.network->named_parameters().contains("layers.local_head1.bias"));
  EXPECT_FALSE(job.network->named_parameters().contains("layers.local_head2.bias"));
}

TEST(Decomposition, CutsCanBeGiven) {
  Config config = decomposed("cnn", 2);
  config.parallel.cuts = {1};
  const run::PreparedJob job = run::prepare_blueprint(config);
  EXPECT_EQ(job.sub_networks[0].blocks, (model::BlockRange{0, 2}));
  EXPECT_EQ(job.sub_networks[1].blocks, (model::BlockRange{2, 5}));
}

// So that each is a stretch of the whole arena, which the leader fetches them to.
TEST(Decomposition, SubNetworksLieInTheWholeArenaOneBesideTheOther) {
  for (const char* model : {"mlp", "cnn", "resnet18"}) {
    Config config = decomposed(model, 3);
    config.model.options = {};
    for (const auto& [name, value] : {std::pair{"channels", 3}, {"height", 32}, {"width", 32}})
      config.data.options[name] = std::int64_t{value};
    if (model == std::string("mlp")) config.model.options["hidden"] = std::vector<std::int64_t>{8, 8};
    const run::PreparedJob job = run::prepare_job(config);
    const compute::Layout whole(mesh::outline_of(*job.network).parameters, 1);
    const std::vector<run::SubNetworkPlace> places = run::places_of_sub_networks(job);
    std::size_t parameter = 0, size = 0, statistics = 0;
    for (const run::SubNetworkPlace& place : places) {
      for (const compute::Entry& entry : place.layout.entries()) {
        const compute::Entry& same = whole.entries()[parameter++];
        EXPECT_EQ(entry.name, same.name);
        EXPECT_EQ(entry.offset + place.offset, same.offset) << entry.name;
      }
      size += place.layout.size();
      EXPECT_EQ(place.first_statistic, statistics);
      statistics += place.statistics;
    }
    EXPECT_EQ(statistics, compute::BufferSet(*job.network).size());
    EXPECT_EQ(parameter, whole.entries().size());
    EXPECT_EQ(size, whole.size());
    EXPECT_EQ(places[0].input_bytes, 0U);
    EXPECT_GT(places[1].input_bytes, 0U);
  }
}

TEST(Decomposition, SubNetworksOneAfterAnotherPredictWhatTheWholeModelDoes) {
  const run::PreparedJob job = run::prepare_job(decomposed("cnn", 3));
  const torch::NoGradGuard no_grad;
  torch::Tensor passed = torch::randn({4, 1, 8, 8});
  job.network->eval();
  const torch::Tensor expected = job.network->forward(passed);
  for (const run::SubNetwork& one : job.sub_networks) {
    model::Network network(job.blueprint, one.blocks, job.config.train.seed);
    network.eval();
    passed = network.forward(passed);
  }
  EXPECT_TRUE(passed.equal(expected));
}

// No gradient comes from the sub-networks after it: its head's loss moves all that it has.
TEST(Decomposition, ASubNetworkTrainsByItsOwnHeadAndHandsItsOutputOn) {
  const run::PreparedJob job = run::prepare_blueprint(decomposed("cnn", 3));
  SubNetworkTraffic traffic;
  const run::SubNetwork& second = job.sub_networks[1];
  const auto task = make_sub_network_task(tasks::make_task(job.config, job.data.train->spec()),
                                          {.traffic = &traffic, .input = second.input});
  const torch::Tensor input = torch::randn({4, 32, 4, 4});
  traffic.input.assign(reinterpret_cast<const std::byte*>(input.data_ptr<float>()),
                       reinterpret_cast<const std::byte*>(input.data_ptr<float>() + input.numel()));
  model::Network network(job.blueprint, second.blocks, job.config.train.seed);
  const tasks::TensorBatch batch = task->prepared(
      {.input = torch::zeros({4, 1, 8, 8}), .target = torch::zeros({4}, torch::kInt64), .size = 4});
  EXPECT_TRUE(batch.input.equal(input));
  task->loss_sum(network, batch, 0).backward();
  for (const auto& parameter : network.named_parameters())
    EXPECT_GT(parameter.value().grad().abs().sum().item<float>(), 0) << parameter.key();
  EXPECT_EQ(traffic.output.sizes(), (std::vector<std::int64_t>{4, 64, 2, 2}));
  EXPECT_FALSE(traffic.output.requires_grad());
}

TEST(Decomposition, RefusesWhatCannotBeCut) {
  EXPECT_EQ(refusal_of(decomposed("cnn", 4)), "fine");
  EXPECT_NE(refusal_of(decomposed("cnn", 5)).find("4 at most"), std::string::npos);
  Config other = decomposed("autoencoder", 2);
  EXPECT_NE(refusal_of(other).find("classification"), std::string::npos) << refusal_of(other);
}

}  // namespace
}  // namespace distbelief::modes
