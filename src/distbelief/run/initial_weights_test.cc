#include "distbelief/run/initial_weights.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/model/registry.h"
#include "distbelief/run/state_file.h"

namespace distbelief::run {
namespace {

const model::DataShape kImages{.tokens = false, .input = {3, 16, 16}, .classes = 10};

const model::ModelEntry& resnet18() { return model::find_model("resnet18"); }

// Writes a file with 16-bit weights, as other programs do, and returns the float32 values of each tensor.
std::map<std::string, torch::Tensor> write_halves(const model::Network& network, torch::ScalarType type,
                                                  const std::filesystem::path& path) {
  std::map<std::string, torch::Tensor> values;
  nlohmann::json header;
  std::string data;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const bool is_float = item.value().is_floating_point();
      const torch::Tensor tensor = item.value().detach().to(is_float ? type : torch::kLong).contiguous();
      const std::size_t begin = data.size();
      data.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
      header[item.key()] = {{"dtype", !is_float              ? "I64"
                                      : type == torch::kHalf ? "F16"
                                                             : "BF16"},
                            {"shape", tensor.sizes().vec()},
                            {"data_offsets", {begin, data.size()}}};
      values[item.key()] = tensor.to(item.value().scalar_type());
    }
  };
  add(network.named_parameters());
  add(network.named_buffers());
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  write_text(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
  return values;
}

TEST(InitialWeights, ComparisonNamesEveryDifference) {
  const ScratchFolder scratch;
  const auto made =
      model::build_model({"resnet18", {}}, {.tokens = false, .input = {3, 16, 16}, .classes = 5}, 3);
  save_model(*made, scratch.path() / "five.safetensors");
  const checkpoint::SafetensorsFile file(scratch.path() / "five.safetensors");
  std::vector<WantedTensor> wanted = tensors_of(model::model_blueprint({"resnet18", {}}, kImages), 1);
  wanted.push_back({"extra.weight", ElementType::kFloat32, {2}});
  std::erase_if(wanted, [](const WantedTensor& tensor) { return tensor.name == "bn1.bias"; });
  const WeightsComparison found = compare_weights(resnet18(), wanted, file.index());
  EXPECT_EQ(found.missing, std::vector<std::string>{"extra.weight"});
  EXPECT_EQ(found.superfluous, std::vector<std::string>{"bn1.bias"});
  ASSERT_EQ(found.different.size(), 2U);
  EXPECT_EQ(found.different[0], "fc.weight is float32 [5, 512], wanted float32 [10, 512]");
  EXPECT_EQ(found.fitting + 1 + 2, wanted.size());
}

TEST(InitialWeights, CountsOfBatchesMayBeMissing) {
  const ScratchFolder scratch;
  const auto made = model::build_model({"resnet18", {}}, kImages, 3);
  save_model(parameter_views(*made), {}, scratch.path() / "old.safetensors", {});
  const checkpoint::SafetensorsFile file(scratch.path() / "old.safetensors");
  const auto missing =
      compare_weights(resnet18(), tensors_of(model::model_blueprint({"resnet18", {}}, kImages), 1),
                      file.index())
          .missing;
  EXPECT_EQ(missing.size(), 40U) << "means and variances of 20 layers";
}

TEST(InitialWeights, WhatOnlyTrainingCarriesOnIsNeitherMissedNorTaken) {
  const ScratchFolder scratch;
  const model::ModelEntry& entry = model::find_model("lstm");
  const model::DataShape tokens{.tokens = true, .input = {6}, .classes = 9};
  const auto blueprint = [&](std::int64_t streams) {
    return model::model_blueprint({"lstm", {{"width", std::int64_t{4}}, {"streams", streams}}}, tokens);
  };
  const auto made = [](const model::Blueprint& of, std::uint64_t seed) {
    return model::Network(of, {0, int(of.size())}, seed);
  };
  TrainConfig config;
  config.init = (scratch.path() / "a.safetensors").string();
  for (const std::int64_t there : {0, 5})
    for (const std::int64_t here : {0, 5, 8}) {
      const model::Network network = made(blueprint(there), 3);
      for (const auto& buffer : network.named_buffers()) buffer.value().fill_(7);
      save_model(network, config.init);
      const model::Network begun = made(begin_with_file(entry, blueprint(here), config), 99);
      EXPECT_EQ(weights_sha256(begun), weights_sha256(network));
      for (const auto& buffer : begun.named_buffers())
        EXPECT_EQ(buffer.value().abs().sum().item<float>(), 0) << buffer.key();
    }
}

TEST(InitialWeights, BlocksBeginWithTheFileWhateverTheSeed) {
  const ScratchFolder scratch;
  const auto made = model::build_model({"resnet18", {}}, kImages, 3);
  save_model(*made, scratch.path() / "a.safetensors");
  const auto file = std::make_shared<const checkpoint::SafetensorsFile>(scratch.path() / "a.safetensors");
  const model::Blueprint blueprint =
      begin_with(resnet18(), model::model_blueprint({"resnet18", {}}, kImages), file);
  const model::Network other(blueprint, {0, int(blueprint.size())}, 99);
  EXPECT_EQ(weights_sha256(other), weights_sha256(*made));
}

TEST(InitialWeights, HalfFloatsBecomeFloat32) {
  const ScratchFolder scratch;
  const auto made = model::build_model({"resnet18", {}}, kImages, 3);
  const model::Blueprint plain = model::model_blueprint({"resnet18", {}}, kImages);
  TrainConfig config;
  config.init = (scratch.path() / "half.safetensors").string();
  config.seed = 99;
  for (const torch::ScalarType type : {torch::kHalf, torch::kBFloat16}) {
    const auto wanted = write_halves(*made, type, config.init);
    const model::Blueprint blueprint = begin_with_file(resnet18(), plain, config);
    const model::Network network(blueprint, {0, int(blueprint.size())}, 99);
    for (const auto& item : network.named_parameters())
      EXPECT_TRUE(torch::equal(item.value(), wanted.at(item.key()))) << item.key();
    for (const auto& item : network.named_buffers())
      EXPECT_TRUE(torch::equal(item.value(), wanted.at(item.key()))) << item.key();
  }
  EXPECT_THROW(checkpoint::SafetensorsFile{std::filesystem::path(config.init)}, Error)
      << "a checkpoint has none of them";
}

}  // namespace
}  // namespace distbelief::run
