#include "distbelief/train/initial_weights.h"

#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/model/registry.h"
#include "distbelief/train/state_file.h"

namespace distbelief::train {
namespace {

const model::DataShape kImages{.tokens = false, .input = {3, 16, 16}, .classes = 10};

TEST(InitialWeights, ComparisonNamesEveryDifference) {
  const ScratchFolder scratch;
  const auto made =
      model::build_model({"resnet18", {}}, {.tokens = false, .input = {3, 16, 16}, .classes = 5}, 3);
  save_model(*made, scratch.path() / "five.safetensors");
  const checkpoint::SafetensorsFile file(scratch.path() / "five.safetensors");
  std::vector<WantedTensor> wanted = tensors_of(model::model_blueprint({"resnet18", {}}, kImages), 1);
  wanted.push_back({"extra.weight", ElementType::kFloat32, {2}});
  std::erase_if(wanted, [](const WantedTensor& tensor) { return tensor.name == "bn1.bias"; });
  const WeightsComparison found = compare_weights(wanted, file.index());
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
      compare_weights(tensors_of(model::model_blueprint({"resnet18", {}}, kImages), 1), file.index()).missing;
  EXPECT_EQ(missing.size(), 40U) << "means and variances of 20 layers";
}

TEST(InitialWeights, BlocksBeginWithTheFileWhateverTheSeed) {
  const ScratchFolder scratch;
  const auto made = model::build_model({"resnet18", {}}, kImages, 3);
  save_model(*made, scratch.path() / "a.safetensors");
  const auto file = std::make_shared<const checkpoint::SafetensorsFile>(scratch.path() / "a.safetensors");
  const model::Blueprint blueprint = begin_with(model::model_blueprint({"resnet18", {}}, kImages), file);
  const model::Network other(blueprint, {0, int(blueprint.size())}, 99);
  EXPECT_EQ(weights_sha256(other), weights_sha256(*made));
}

}  // namespace
}  // namespace distbelief::train
