#include "distbelief/model/describe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "distbelief/model/registry.h"

namespace distbelief::model {
namespace {

Description describe_typical(const std::string& name) {
  return describe_model({name, {}}, find_model(name).typical);
}

const LayerRow& row_named(const Description& description, const std::string& name) {
  const auto& rows = description.layers;
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const LayerRow& each) { return each.name == name; });
  if (row == rows.end()) throw std::out_of_range(name);
  return *row;
}

std::int64_t sum_of_parameters(const Description& description) {
  std::int64_t sum = 0;
  for (const LayerRow& row : description.layers) sum += row.parameters;
  return sum;
}

TEST(Describe, CnnRowsAreExact) {
  const Description cnn = describe_typical("cnn");
  std::vector<std::string> kinds;
  for (const LayerRow& row : cnn.layers) kinds.push_back(row.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"Conv2d", "max_pool2d", "relu", "Conv2d", "max_pool2d", "relu",
                                             "Linear", "relu", "Linear"}));
  const LayerRow& second = row_named(cnn, "layers.conv2");
  EXPECT_EQ(second.output, (Shape{64, 14, 14}));
  EXPECT_EQ(second.parameters, 64 * 32 * 9 + 64);
  EXPECT_EQ(second.multiply_adds, 64 * 14 * 14 * 32 * 9);
  EXPECT_EQ(second.activation_bytes, 4 * 64 * 14 * 14);
  EXPECT_EQ(row_named(cnn, "layers.fc1").multiply_adds, 3136 * 128);
  EXPECT_EQ(cnn.layers[2].output, (Shape{32, 14, 14}));
  EXPECT_EQ(cnn.layers[2].activation_bytes, 0) << "relu works in place";
  EXPECT_EQ(cnn.parameters, 421'642);
  EXPECT_EQ(cnn.multiply_adds, 32 * 784 * 9 + 64 * 196 * 288 + 3136 * 128 + 1280);
}

TEST(Describe, GptCountsItsAttentionProducts) {
  const Description gpt = describe_typical("gpt");
  const std::int64_t length = 128, width = 256;
  const std::int64_t block = length * width * width * 12 + 2 * length * length * width;
  EXPECT_EQ(gpt.multiply_adds, 4 * block + length * width * 256);
  EXPECT_EQ(gpt.parameters, 3'323'392);
  EXPECT_EQ(row_named(gpt, "blocks.3.qkv").output, (Shape{128, 768}));
}

TEST(Describe, RowsHoldEveryParameterOnce) {
  for (const char* name : {"mlp", "cnn", "resnet18", "gpt"}) {
    const Description description = describe_typical(name);
    EXPECT_EQ(sum_of_parameters(description), description.parameters) << name;
  }
  const Description tied = describe_model({"gpt", {{"tied", true}}}, find_model("gpt").typical);
  EXPECT_EQ(sum_of_parameters(tied), tied.parameters);
}

TEST(Describe, ResNetTotalsAreThePublishedOnes) {
  const Description resnet18 = describe_typical("resnet18");
  EXPECT_EQ(resnet18.parameters, 11'689'512);
  EXPECT_EQ(resnet18.multiply_adds, 1'814'073'344);
  const Description resnet152 = describe_typical("resnet152");
  EXPECT_EQ(resnet152.parameters, 60'192'808);
  EXPECT_EQ(resnet152.multiply_adds, 11'513'626'624);
}

TEST(Describe, LeavesTheNetworkAsItWas) {
  const DataShape shape{.tokens = false, .input = {3, 32, 32}, .classes = 10};
  const auto network = build_model({"resnet18", {}}, shape, 1);
  const torch::Tensor mean = network->named_buffers()["bn1.running_mean"].clone();
  const Description first = describe(*network, shape);
  EXPECT_TRUE(network->is_training());
  EXPECT_TRUE(torch::equal(network->named_buffers()["bn1.running_mean"], mean));
  EXPECT_TRUE(torch::GradMode::is_enabled());
  EXPECT_EQ(describe(*network, shape).activation_bytes, first.activation_bytes);
}

TEST(Render, AlignsColumnsAndEndsWithTotals) {
  Description description;
  description.layers = {{"conv1", "conv2d", {8, 4, 4}, 80, 1'234'567, 512}, {"", "relu", {8, 4, 4}, 0, 0, 0}};
  description.parameters = 80;
  description.multiply_adds = 1'234'567;
  description.activation_bytes = 512;
  EXPECT_EQ(render(description),
            "layer  kind    output     parameters  multiply-adds  activation bytes\n"
            "conv1  conv2d  [8, 4, 4]          80      1,234,567               512\n"
            "       relu    [8, 4, 4]           0              0                 0\n"
            "total                             80      1,234,567               512\n");
}

}  // namespace
}  // namespace distbelief::model
