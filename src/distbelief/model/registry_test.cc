#include "distbelief/model/registry.h"

#include <gtest/gtest.h>

#include <cmath>

#include "distbelief/base/error.h"

namespace distbelief::model {
namespace {

const DataShape kDigits{.tokens = false, .input = {1, 28, 28}, .classes = 10};
const DataShape kCifar{.tokens = false, .input = {3, 32, 32}, .classes = 10};
const DataShape kImageNet{.tokens = false, .input = {3, 224, 224}, .classes = 1000};
const DataShape kText{.tokens = true, .input = {128}, .classes = 256};

using List = std::vector<std::int64_t>;

std::shared_ptr<Network> build(const std::string& name, const DataShape& shape, OptionMap options = {}) {
  return build_model(ModelConfig{name, std::move(options)}, shape, 1);
}

std::int64_t parameter_count(const Network& network) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : network.parameters()) count += parameter.numel();
  return count;
}

std::int64_t parameters_of(const std::string& name, const DataShape& shape, OptionMap options = {}) {
  return parameter_count(*build(name, shape, std::move(options)));
}

// The message of the kBadInput that building must throw.
std::string refusal(const std::string& name, const DataShape& shape, OptionMap options = {}) {
  try {
    build(name, shape, std::move(options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "accepted";
}

Shape output_shape(const std::string& name, const DataShape& shape, OptionMap options = {}) {
  Shape batch = shape.input;
  batch.insert(batch.begin(), 2);
  const torch::NoGradGuard no_grad;
  const torch::Tensor input = torch::zeros(batch, shape.tokens ? torch::kInt64 : torch::kFloat32);
  return build(name, shape, std::move(options))->forward(input).sizes().vec();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Registry, ReferenceModelsHaveTheirParameterCounts) {
  EXPECT_EQ(parameters_of("mlp", kDigits), 101'770);
  EXPECT_EQ(parameters_of("mlp", kDigits, {{"hidden", List(4, 2048)}}), 14'217'226);
  EXPECT_EQ(parameters_of("cnn", kDigits), 421'642);
  EXPECT_EQ(parameters_of("resnet18", kCifar), 11'173'962);
  EXPECT_EQ(parameters_of("gpt", kText), 3'323'392);
}

TEST(Registry, ResNetsHaveTheParameterCountsOfTorchvision) {
  EXPECT_EQ(parameters_of("resnet34", kImageNet), 21'797'672);
  EXPECT_EQ(parameters_of("resnet50", kImageNet), 25'557'032);
  EXPECT_EQ(parameters_of("resnet101", kImageNet), 44'549'160);
}

TEST(Registry, ResNetNamesAreThoseOfTorchvision) {
  const auto network = build("resnet50", kCifar);
  const auto parameters = network->named_parameters();
  for (const char* name :
       {"conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer1.0.bn3.bias",
        "layer1.0.downsample.0.weight", "layer1.0.downsample.1.bias", "layer2.3.conv2.weight",
        "layer3.5.conv3.weight", "layer4.2.bn3.weight", "fc.weight", "fc.bias"}) {
    EXPECT_NE(parameters.find(name), nullptr) << name;
  }
  EXPECT_EQ(parameters.size(), 161U);
  const auto buffers = network->named_buffers();
  for (const char* name : {"bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked",
                           "layer4.0.downsample.1.running_var"}) {
    EXPECT_NE(buffers.find(name), nullptr) << name;
  }
  EXPECT_EQ(buffers.size(), 3U * 53U);
  EXPECT_EQ(build("resnet18", kCifar)->named_parameters().find("layer1.0.downsample.0.weight"), nullptr);
}

TEST(Registry, ResNetInitialisesAsTorchvision) {
  const auto network = build("resnet18", kCifar);
  const auto parameters = network->named_parameters();
  EXPECT_TRUE(torch::equal(parameters["layer1.0.bn2.weight"], torch::ones({64})));
  EXPECT_TRUE(torch::equal(parameters["layer1.0.bn2.bias"], torch::zeros({64})));
  const double deviation = std::sqrt(2.0 / (9 * 512));
  EXPECT_NEAR(parameters["layer4.0.conv1.weight"].std().item<double>(), deviation, 0.01 * deviation);
}

TEST(Registry, GptNamesAreThoseOfTheReferenceInForwardOrder) {
  const auto network = build("gpt", kText, {{"layers", std::int64_t{1}}});
  const auto named = network->named_parameters();
  const std::vector<std::string> expected = {"tok.weight",
                                             "pos.weight",
                                             "blocks.0.ln1.weight",
                                             "blocks.0.ln1.bias",
                                             "blocks.0.qkv.weight",
                                             "blocks.0.qkv.bias",
                                             "blocks.0.proj.weight",
                                             "blocks.0.proj.bias",
                                             "blocks.0.ln2.weight",
                                             "blocks.0.ln2.bias",
                                             "blocks.0.fc1.weight",
                                             "blocks.0.fc1.bias",
                                             "blocks.0.fc2.weight",
                                             "blocks.0.fc2.bias",
                                             "ln.weight",
                                             "ln.bias",
                                             "head.weight"};
  EXPECT_EQ(named.keys(), expected);
  EXPECT_EQ(network->named_buffers().size(), 0U);
}

TEST(Registry, OutputsAreLogitsPerSampleOrPosition) {
  EXPECT_EQ(output_shape("mlp", kDigits), (Shape{2, 10}));
  EXPECT_EQ(output_shape("mlp", kDigits, {{"hidden", List{}}}), (Shape{2, 10}));
  EXPECT_EQ(output_shape("mlp", {.tokens = false, .input = {7}, .classes = 3}), (Shape{2, 3})) << "features";
  EXPECT_EQ(output_shape("cnn", kDigits), (Shape{2, 10}));
  EXPECT_EQ(
      output_shape("cnn", {.tokens = false, .input = {3, 9, 33}, .classes = 7}, {{"activation", "silu"}}),
      (Shape{2, 7}));
  EXPECT_EQ(output_shape("resnet18", kDigits), (Shape{2, 10}));
  EXPECT_EQ(output_shape("resnet50", {.tokens = false, .input = {3, 64, 64}, .classes = 5}), (Shape{2, 5}));
  EXPECT_EQ(output_shape("gpt", {.tokens = true, .input = {16}, .classes = 50}), (Shape{32, 50}));
  EXPECT_EQ(output_shape("bert", {.tokens = true, .input = {16}, .classes = 50}), (Shape{32, 50}));
  EXPECT_EQ(output_shape("lstm", {.tokens = true, .input = {16}, .classes = 50}), (Shape{32, 50}));
  EXPECT_EQ(output_shape("gru", {.tokens = true, .input = {16}, .classes = 50}), (Shape{32, 50}));
  EXPECT_EQ(output_shape("lenet", kDigits), (Shape{2, 10}));
  EXPECT_EQ(output_shape("wide_resnet", kCifar), (Shape{2, 10}));
  EXPECT_EQ(output_shape("unet", {.tokens = false, .input = {1, 16, 24}, .classes = 4}),
            (Shape{2, 4, 16, 24}));
  EXPECT_EQ(output_shape("wide_and_deep", {.tokens = false, .input = {7}, .values = 3}), (Shape{2, 3}));
  EXPECT_EQ(output_shape("mlp", {.tokens = false, .input = {7}, .values = 3}), (Shape{2, 3}));
  EXPECT_EQ(output_shape("dcgan", kDigits), (Shape{2, 1}));
}

TEST(Registry, AutoencodersGiveTheReconstructionAndThenTheCode) {
  EXPECT_EQ(output_shape("autoencoder", kDigits), (Shape{2, 28 * 28 + 16}));
  EXPECT_EQ(output_shape("vae", kDigits, {{"code", std::int64_t{5}}}), (Shape{2, 28 * 28 + 2 * 5}));
  const DataShape odd{.tokens = false, .input = {3, 13, 18}, .classes = 2};
  EXPECT_EQ(output_shape("autoencoder", odd, {{"layers", "convolution"}, {"hidden", List{4, 8, 8}}}),
            (Shape{2, 3 * 13 * 18 + 16}));
}

TEST(Registry, LeNetHasTheParametersOfThePaperWithFullConnections) {
  EXPECT_EQ(parameters_of("lenet", kDigits), 61'706);
}

TEST(Registry, WideResNetCountsItsConvolutionsAsThePaperDoes) {
  EXPECT_EQ(parameters_of("wide_resnet", kCifar, {{"depth", std::int64_t{16}}, {"factor", std::int64_t{8}}}),
            10'961'370);
  EXPECT_TRUE(contains(refusal("wide_resnet", kCifar, {{"depth", std::int64_t{17}}}), "6 n + 4"));
}

TEST(Registry, EveryModelGivesEachParameterAGradient) {
  const DataShape image{.tokens = false, .input = {3, 16, 16}, .classes = 3};
  const DataShape text{.tokens = true, .input = {8}, .classes = 11};
  const DataShape table{.tokens = false, .input = {12}, .classes = 0, .values = 2};
  for (const ModelEntry& entry : models()) {
    if (entry.name == "resnet101" || entry.name == "resnet152")
      continue;                                 // resnet50's blocks, only more of them
    if (entry.name == "torchscript") continue;  // has no network of its own
    SCOPED_TRACE(entry.name);
    const DataShape& shape = entry.typical.input.size() == 3   ? image
                             : entry.typical.input.size() == 2 ? entry.typical
                             : entry.typical.tokens            ? text
                                                               : table;
    OptionMap options;
    for (const OptionSpec& option : entry.options)
      if (option.name == "dropout") options["dropout"] = 0.1;
    const auto network = build(entry.name, shape, options);
    Shape batch = shape.input;
    batch.insert(batch.begin(), 2);
    const torch::Tensor input = shape.tokens ? torch::randint(11, batch) : torch::rand(batch);
    if (entry.name == "tree_lstm") input.select(2, 1).copy_(torch::arange(1, batch[1] + 1));  // parents
    network->forward(input).square().sum().backward();
    for (const auto& parameter : network->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0.0) << parameter.key();
    }
  }
}

TEST(Registry, RefusesTreesWithMoreNamesThanTheModelHasTokens) {
  const DataShape trees{.tokens = true, .input = {7, 2}, .classes = 2, .input_tokens = 65};
  EXPECT_TRUE(contains(refusal("tree_lstm", trees, {{"tokens", std::int64_t{64}}}),
                       "model.tokens must be 65 or more"));
  EXPECT_EQ(refusal("tree_lstm", trees, {{"tokens", std::int64_t{65}}}), "accepted");
}

TEST(Registry, SameSeedGivesSameWeightsAndAnotherSeedOthers) {
  const ModelConfig config{"cnn", {}};
  const auto first = build_model(config, kDigits, 3)->parameters();
  const auto again = build_model(config, kDigits, 3)->parameters();
  const auto other = build_model(config, kDigits, 4)->parameters();
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(torch::equal(first[i], again[i]));
    EXPECT_FALSE(torch::equal(first[i], other[i]));
  }
}

TEST(Registry, GptDoesNotLookAhead) {
  const auto network = build("gpt", {.tokens = true, .input = {8}, .classes = 20});
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::arange(8).unsqueeze(0);
  torch::Tensor changed = tokens.clone();
  changed[0][5] = 19;
  const torch::Tensor before = network->forward(tokens), after = network->forward(changed);
  EXPECT_TRUE(torch::equal(before.narrow(0, 0, 5), after.narrow(0, 0, 5)));
  for (int position = 5; position < 8; ++position)
    EXPECT_FALSE(torch::equal(before[position], after[position]));
}

TEST(Registry, GptTakesSamplesShorterThanItsContext) {
  const auto network =
      build("gpt", {.tokens = true, .input = {8}, .classes = 20}, {{"context", std::int64_t{12}}});
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::arange(12).unsqueeze(0);
  const torch::Tensor whole = network->forward(tokens), start = network->forward(tokens.narrow(1, 0, 5));
  EXPECT_TRUE(torch::allclose(whole.narrow(0, 0, 5), start, 1e-4, 1e-5));
}

TEST(Registry, TransformersHaveTheActivationOfTheirOption) {
  const DataShape text{.tokens = true, .input = {8}, .classes = 20};
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::arange(8).unsqueeze(0);
  for (const char* name : {"gpt", "bert"}) {
    const torch::Tensor usual = build(name, text)->forward(tokens);
    EXPECT_TRUE(torch::equal(build(name, text, {{"activation", "gelu"}})->forward(tokens), usual)) << name;
    EXPECT_FALSE(torch::allclose(build(name, text, {{"activation", "relu"}})->forward(tokens), usual))
        << name;
    EXPECT_TRUE(contains(refusal(name, text, {{"activation", "gleu"}}), "did you mean 'gelu'")) << name;
  }
}

TEST(Registry, TiedGptUsesTheTokenEmbeddingAsItsHead) {
  const auto network = build("gpt", kText, {{"tied", true}});
  EXPECT_EQ(parameter_count(*network), 3'323'392 - 256 * 256);
  EXPECT_EQ(network->named_parameters().find("head.weight"), nullptr);
}

TEST(Registry, StemFollowsTheImageUnlessNamed) {
  const auto kernel = [](const DataShape& shape, OptionMap options) {
    return build("resnet18", shape, std::move(options))->named_parameters()["conv1.weight"].size(2);
  };
  EXPECT_EQ(kernel(kCifar, {}), 3);
  EXPECT_EQ(kernel({.tokens = false, .input = {3, 64, 64}, .classes = 10}, {}), 7);
  EXPECT_EQ(kernel({.tokens = false, .input = {3, 63, 64}, .classes = 10}, {}), 3);
  EXPECT_EQ(kernel(kImageNet, {{"stem", "cifar"}}), 3);
  EXPECT_EQ(kernel({.tokens = false, .input = {3, 33, 33}, .classes = 10}, {{"stem", "imagenet"}}), 7);
}

TEST(Registry, DataOfTheWrongKindIsRefusedWithWhatWouldFit) {
  EXPECT_TRUE(contains(refusal("gpt", kDigits), "wants tokens [length]"));
  for (const char* name : {"mlp", "cnn", "resnet18"}) {
    EXPECT_TRUE(contains(refusal(name, kText), "wants images [channels, height, width]")) << name;
  }
  const DataShape table = {.tokens = false, .input = {6}, .values = 1};
  EXPECT_TRUE(contains(refusal("cnn", table),
                       "found features [6] with a value to predict; choose data of images, or a model for "
                       "features such as mlp"));
  EXPECT_TRUE(
      contains(refusal("wide_and_deep", kDigits), "found images [1, 28, 28] with 10 classes; choose"));
  EXPECT_TRUE(contains(refusal("mlp", {.tokens = false, .input = {2}}), "with nothing to predict"));
}

TEST(Registry, ImagesTooSmallAreRefused) {
  EXPECT_TRUE(contains(refusal("cnn", {.tokens = false, .input = {1, 3, 28}, .classes = 10}), "[1, 3, 28]"));
  EXPECT_TRUE(contains(refusal("cnn", kDigits, {{"channels", List(5, 8)}}), "fewer channels"));
  EXPECT_TRUE(
      contains(refusal("resnet18", {.tokens = false, .input = {3, 8, 8}, .classes = 10}), "larger images"));
  EXPECT_TRUE(contains(refusal("resnet18", kCifar, {{"stem", "imagenet"}}), "stem = \"cifar\""));
}

TEST(Registry, OptionsOutOfRangeAreRefusedByName) {
  EXPECT_TRUE(contains(refusal("mlp", kDigits, {{"hidden", List{128, 0}}}), "'hidden'"));
  EXPECT_TRUE(contains(refusal("cnn", kDigits, {{"hidden", std::int64_t{0}}}), "'hidden'"));
  EXPECT_TRUE(contains(refusal("cnn", kDigits, {{"dropout", 1.0}}), "'dropout'"));
  EXPECT_TRUE(contains(refusal("gpt", kText, {{"heads", std::int64_t{7}}}), "multiple of 'heads'"));
  EXPECT_TRUE(contains(refusal("gpt", kText, {{"context", std::int64_t{64}}}), "128"));
  EXPECT_TRUE(contains(refusal("resnet18", kCifar, {{"activation", "sigmoid"}}), "leaky_relu"));
  EXPECT_TRUE(contains(refusal("resnet18", kCifar, {{"stem", "cifra"}}), "did you mean 'cifar'"));
}

TEST(Registry, UnknownModelOrOptionIsRefusedWithTheNearest) {
  EXPECT_TRUE(contains(refusal("resnet81", kCifar), "did you mean 'resnet"));
  EXPECT_TRUE(contains(refusal("mlp", kDigits, {{"hiden", List{1}}}), "hidden"));
}

TEST(Registry, WhatTorchCannotBuildIsAnError) {
  const OptionMap options = {{"hidden", List{std::int64_t{1} << 60}}};
  EXPECT_THROW(build("mlp", kDigits, options), Error);
}

}  // namespace
}  // namespace distbelief::model
