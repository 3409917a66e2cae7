#include "distbelief/model/layers.h"

#include <gtest/gtest.h>

#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/model/random.h"

namespace distbelief::model {
namespace {

torch::Tensor dropped(std::uint64_t seed) {
  Dropout dropout(0.25);
  const GeneratorScope scope(seed);
  return dropout.forward(torch::ones({64, 64}));
}

torch::Tensor dropped_on_another_thread(std::uint64_t seed) {
  torch::Tensor result;
  std::jthread([&] { result = dropped(seed); }).join();
  return result;
}

TEST(GeneratorScope, IsCurrentOnlyWhileItLivesAndOnlyOnItsThread) {
  EXPECT_FALSE(current_generator());
  {
    const GeneratorScope scope(1);
    EXPECT_TRUE(current_generator());
    bool elsewhere = true;
    std::jthread([&] { elsewhere = current_generator().has_value(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(current_generator());
}

TEST(GeneratorScope, HighBitsOfTheSeedMatter) {
  EXPECT_FALSE(torch::equal(dropped(1), dropped(1 | (std::uint64_t{1} << 40))));
}

TEST(LaneSeed, LayersThatDrawFromTorchsGeneratorGetTheLanesWhateverRanBefore) {
  const auto drawn = [](std::uint64_t seed, std::atomic<Draws>& draws) {
    const GeneratorScope scope(seed);
    return with_lane_seed(draws, [] { return torch::dropout(torch::ones({64}), 0.5, true); });
  };
  std::atomic<Draws> draws{Draws::kUnknown};
  const torch::Tensor first = drawn(7, draws);
  EXPECT_EQ(draws, Draws::kYes);
  torch::rand({5});
  EXPECT_FALSE(first.equal(drawn(8, draws)));
  EXPECT_TRUE(first.equal(drawn(7, draws)));
}

TEST(LaneSeed, LayersThatDoNotDrawTakeNoTurns) {
  std::atomic<Draws> draws{Draws::kUnknown};
  with_lane_seed(draws, [] { return torch::rand({2}); });
  EXPECT_EQ(draws, Draws::kUnknown) << "nobody asks outside a lane";
  const GeneratorScope scope(1);
  with_lane_seed(draws, [] { return torch::ones({2}); });
  EXPECT_EQ(draws, Draws::kNever);
}

TEST(GeneratorScope, RefusesToNest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const GeneratorScope outer(1);
        const GeneratorScope inner(2);
      },
      "broken invariant");
}

TEST(Dropout, SameSeedGivesSameMaskOnTwoThreads) {
  EXPECT_TRUE(torch::equal(dropped_on_another_thread(7), dropped_on_another_thread(7)));
  EXPECT_TRUE(torch::equal(dropped(7), dropped_on_another_thread(7)));
}

TEST(Dropout, DifferentSeedsGiveDifferentMasks) { EXPECT_FALSE(torch::equal(dropped(7), dropped(8))); }

TEST(Dropout, DrawsAnewOnEachCallOfAScope) {
  Dropout dropout(0.5);
  const GeneratorScope scope(3);
  const torch::Tensor ones = torch::ones({64, 64});
  EXPECT_FALSE(torch::equal(dropout.forward(ones), dropout.forward(ones)));
}

TEST(Dropout, LeavesTheDefaultGeneratorAlone) {
  torch::manual_seed(5);
  const torch::Tensor expected = torch::rand({8});
  torch::manual_seed(5);
  dropped(7);
  EXPECT_TRUE(torch::equal(torch::rand({8}), expected));
}

TEST(Dropout, DrawsFromTheDefaultGeneratorOutsideAScope) {
  Dropout dropout(0.5);
  const torch::Tensor ones = torch::ones({64, 64});
  torch::manual_seed(5);
  const torch::Tensor first = dropout.forward(ones);
  EXPECT_FALSE(torch::equal(dropout.forward(ones), first));
  torch::manual_seed(5);
  EXPECT_TRUE(torch::equal(dropout.forward(ones), first));
}

TEST(Dropout, ZeroesTheGivenShareAndScalesTheRest) {
  const torch::Tensor result = dropped(11);
  const torch::Tensor kept = result.masked_select(result != 0);
  EXPECT_TRUE(torch::allclose(kept, torch::full_like(kept, 1.0 / 0.75)));
  const double share = 1.0 - static_cast<double>(kept.numel()) / static_cast<double>(result.numel());
  EXPECT_NEAR(share, 0.25, 0.03);  // more than four deviations of 4096 draws
}

TEST(Dropout, GradientPassesWhereTheValueDid) {
  Dropout dropout(0.5);
  const GeneratorScope scope(13);
  const torch::Tensor input = torch::ones({32, 32}, torch::requires_grad());
  const torch::Tensor output = dropout.forward(input);
  output.sum().backward();
  EXPECT_TRUE(torch::equal(input.grad(), output.detach()));
}

TEST(Dropout, IsTheIdentityWhenEvaluatingOrWithProbabilityZero) {
  const torch::Tensor input = torch::rand({4, 4});
  Dropout evaluating(0.5);
  evaluating.eval();
  EXPECT_TRUE(evaluating.forward(input).is_same(input));
  EXPECT_TRUE(Dropout(0.0).forward(input).is_same(input));
}

TEST(Activation, EveryNameIsKnownAndInPlaceEqualsOutOfPlace) {
  for (const std::string& name : activation_names()) {
    SCOPED_TRACE(name);
    const Activation activation = parse_activation(name);
    const torch::Tensor input = torch::linspace(-2, 2, 9);
    const torch::Tensor expected = activate(activation, input);
    EXPECT_TRUE(torch::equal(input, torch::linspace(-2, 2, 9)));
    EXPECT_TRUE(torch::equal(activate_in_place(activation, input.clone()), expected));
  }
}

TEST(Activation, HasTheValuesOfItsDefinition) {
  const torch::Tensor input = torch::tensor({-1.0, 2.0});
  const auto close = [&](const char* name, double negative, double positive) {
    return torch::allclose(activate(parse_activation(name), input), torch::tensor({negative, positive}), 0,
                           1e-6);
  };
  EXPECT_TRUE(close("relu", 0, 2));
  EXPECT_TRUE(close("leaky_relu", -0.01, 2));
  EXPECT_TRUE(close("gelu", -0.15865525, 1.95449974));
  EXPECT_TRUE(close("tanh", -0.76159416, 0.96402758));
  EXPECT_TRUE(close("silu", -0.26894142, 1.76159416));
  EXPECT_TRUE(close("elu", -0.63212056, 2));
}

TEST(Activation, UnknownNameIsRefusedWithTheNearest) {
  try {
    parse_activation("leaky_rely");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("did you mean 'leaky_relu'"), std::string::npos) << error.message();
  }
}

TEST(Activate, DoesNotOverwriteTheCallersTensor) {
  Activate layer(Activation::kRelu);
  const torch::Tensor input = torch::tensor({-1.0, 1.0});
  layer.forward(input);
  EXPECT_EQ(input[0].item<double>(), -1.0);
  const torch::Tensor leaf = torch::tensor({-1.0, 1.0}, torch::requires_grad());
  layer.forward(leaf).sum().backward();
  EXPECT_TRUE(torch::equal(leaf.grad(), torch::tensor({0.0, 1.0})));
}

TEST(Activate, GivesTheSameGradientInPlaceAsOutOfPlace) {
  for (const std::string& name : activation_names()) {
    SCOPED_TRACE(name);
    const Activation activation = parse_activation(name);
    const torch::Tensor input = torch::linspace(-2, 2, 9).requires_grad_();
    const auto plain = torch::autograd::grad({activate(activation, input * 3).sum()}, {input});
    const auto reused = torch::autograd::grad({Activate(activation).forward(input * 3).sum()}, {input});
    EXPECT_TRUE(torch::allclose(plain[0], reused[0]));
  }
}

}  // namespace
}  // namespace distbelief::model
