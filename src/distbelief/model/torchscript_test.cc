#include "distbelief/model/torchscript.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/model/dcgan.h"
#include "distbelief/model/own_model.h"
#include "distbelief/model/random.h"

namespace distbelief::model {
namespace {

const DataShape kSmall{.tokens = false, .input = {4}, .classes = 3};

// Equals torch.jit.script of a module with two parameters, a buffer and dropout.
std::filesystem::path write_script(const ScratchFolder& scratch) {
  torch::jit::Module module("Net");
  torch::jit::Module layer("Layer");
  torch::manual_seed(5);
  layer.register_parameter("weight", torch::randn({3, 4}), false);
  module.register_module("layer", layer);
  module.register_parameter("scale", torch::ones({3}), false);
  module.register_buffer("shift", torch::full({3}, 0.5));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(R"(
def forward(self, x):
    y = torch.dropout(torch.matmul(x, torch.t(self.layer.weight)), 0.5, self.training)
    return y * self.scale + self.shift
)");
  module.save((scratch.path() / "net.pt").string());
  return scratch.path() / "net.pt";
}

ModelConfig config_of(const std::filesystem::path& path) {
  return {"torchscript", {{"file", path.string()}}};
}

TEST(TorchScript, TensorsHaveTheirNamesAndValues) {
  const ScratchFolder scratch;
  const auto network = build_model(config_of(write_script(scratch)), kSmall, 1);
  const auto parameters = network->named_parameters();
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_TRUE(torch::equal(parameters["scale"], torch::ones({3})));
  EXPECT_EQ(parameters["layer.weight"].sizes().vec(), (Shape{3, 4}));
  EXPECT_EQ(network->named_buffers().keys(), std::vector<std::string>{"shift"});
}

TEST(TorchScript, MemoryOfAParameterCanBeMoved) {
  const ScratchFolder scratch;
  const auto network = build_model(config_of(write_script(scratch)), kSmall, 1);
  network->eval();
  std::vector<float> arena(3, 0.0F);
  network->named_parameters()["scale"].set_data(torch::from_blob(arena.data(), {3}));
  const torch::Tensor input = torch::ones({2, 4});
  EXPECT_TRUE(torch::equal(network->forward(input), torch::full({2, 3}, 0.5))) << "the arena's scale is 0";
  arena.assign(3, 1.0F);
  EXPECT_FALSE(torch::equal(network->forward(input), torch::full({2, 3}, 0.5)));
}

TEST(TorchScript, DropoutBelongsToTheLaneAndFollowsTheMode) {
  const ScratchFolder scratch;
  const auto network = build_model(config_of(write_script(scratch)), kSmall, 1);
  const torch::Tensor input = torch::rand({8, 4});
  const auto lane = [&](std::uint64_t seed) {
    const GeneratorScope scope(seed);
    return network->forward(input);
  };
  const torch::Tensor first = lane(3);
  torch::rand({17});  // other code may have drawn
  EXPECT_TRUE(torch::equal(first, lane(3)));
  EXPECT_FALSE(torch::equal(first, lane(4)));
  network->eval();
  EXPECT_TRUE(torch::equal(lane(3), lane(4)));
}

TEST(TorchScript, FilesThatAreNoneAreNamed) {
  const ScratchFolder scratch;
  const auto refusal = [](const ModelConfig& config) {
    try {
      build_model(config, kSmall, 1);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  write_text(scratch.path() / "bad.pt", "no zip");
  EXPECT_NE(refusal(config_of(scratch.path() / "bad.pt")).find("bad.pt as TorchScript"), std::string::npos);
  EXPECT_NE(refusal(config_of(scratch.path() / "none.pt")).find("none.pt as TorchScript"), std::string::npos);
  EXPECT_NE(refusal({"torchscript", {}}).find("option 'file'"), std::string::npos);
}

// Every network of the table with its defaults, and those whose options change the code.
std::vector<ModelConfig> traced_models() {
  std::vector<ModelConfig> all;
  for (const ModelEntry& entry : models())
    if (entry.blueprint != nullptr && entry.name != "torchscript") all.push_back({entry.name, {}});
  const std::string grouped = "k3_e3_g2 k5_e1_g2 k3_e3 skip k3_e3_g2 skip";
  all.push_back({"fbnet", {{"architecture", grouped}}});
  all.push_back({"lstm", {{"streams", std::int64_t{4}}}});
  all.push_back({"gru", {{"streams", std::int64_t{4}}}});
  all.push_back({"gpt", {{"tied", true}}});
  all.push_back({"frame_lstm", {{"layers", std::int64_t{2}}}});
  all.push_back({"actor_critic", {{"voters", std::int64_t{3}}}});
  for (const char* coder : {"autoencoder", "vae"})
    all.push_back({coder, {{"layers", std::string("convolution")}}});
  return all;
}

torch::Tensor other_batch(const torch::Tensor& example, const DataShape& shape) {
  Shape sizes = example.sizes().vec();
  sizes[0] = 7;
  return example.is_floating_point() ? torch::rand(sizes) : torch::randint(shape.classes, sizes);
}

void expect_same_names(const torch::jit::Module& script, const Network& network, const ModelEntry& entry) {
  std::set<std::string> wanted, found;
  for (const auto& item : network.named_parameters()) wanted.insert(item.key());
  for (const auto& item : network.named_buffers())
    if (!is_training_state(entry, item.key())) wanted.insert(item.key());
  for (const auto& item : script.named_parameters()) found.insert(item.name);
  for (const auto& item : script.named_buffers()) found.insert(item.name);
  EXPECT_EQ(found, wanted);
}

TEST(ToScript, TraceOfOurNetworksComputesTheSameUnderTheSameNamesForAnyBatch) {
  const torch::NoGradGuard no_grad;
  for (const ModelConfig& config : traced_models()) {
    SCOPED_TRACE(config.name);
    const ModelEntry& entry = find_model(config.name);
    const auto network = build_model(config, entry.bench, 2);
    const TraceOptions options = trace_options(config, entry.bench);
    torch::jit::Module script = to_script(*network, options);
    const torch::Tensor input = other_batch(options.example, entry.bench);
    const torch::Tensor wanted =
        options.blocks == 0 ? network->forward(input) : network->forward(kGeneratorBlock, input);
    EXPECT_TRUE(torch::allclose(script.forward({input}).toTensor(), wanted, 1e-5, 1e-6));
    expect_same_names(script, *network, entry);
  }
}

TEST(ToScript, WhatOnlyTrainingNeedsIsLeftOut) {
  const ModelConfig config{"lstm", {{"streams", std::int64_t{4}}}};
  const ModelEntry& entry = find_model("lstm");
  const auto network = build_model(config, entry.bench, 2);
  EXPECT_TRUE(network->named_buffers().contains("layers.0.state.rows"));
  EXPECT_EQ(to_script(*network, trace_options(config, entry.bench)).named_buffers().size(), 0U);
}

// Code that a trace cannot capture: it uses the batch size.
struct Sized : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.view({x.size(0), 2, 2}).sum(2); }
};

TEST(ToScript, CodeThatNamesTheSizeOfTheBatchIsRefused) {
  register_model("sized", "of this test", {},
                 [](const OptionMap&, const DataShape&) { return std::make_shared<Sized>(); });
  const auto network = build_model({"sized", {}}, kSmall, 1);
  try {
    to_script(*network, trace_options({"sized", {}}, kSmall));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("depends on the size of the batch"), std::string::npos);
  }
}

struct Mine : torch::nn::Module {
  Mine() {
    layer = register_module("layer", torch::nn::Linear(4, 3));
    scale = register_parameter("scale", torch::ones({3}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return is_training() ? layer(x) * scale : layer(x); }
  torch::nn::Linear layer{nullptr};
  torch::Tensor scale;
};

TEST(OwnModel, IsBuiltByNameAndFollowsTheMode) {
  register_model("mine", "of this test", {},
                 [](const OptionMap&, const DataShape&) { return std::make_shared<Mine>(); });
  EXPECT_THROW(register_model("mine", "", {},
                              [](const OptionMap&, const DataShape&) { return std::make_shared<Mine>(); }),
               Error);
  const auto network = build_model({"mine", {}}, kSmall, 1);
  EXPECT_EQ(network->named_parameters().size(), 3U);
  const torch::NoGradGuard no_grad;
  network->named_parameters()["scale"].fill_(2);
  const torch::Tensor trained = network->forward(torch::ones({1, 4}));
  network->eval();
  EXPECT_TRUE(torch::allclose(trained, 2 * network->forward(torch::ones({1, 4}))));
}

}  // namespace
}  // namespace distbelief::model
