#include "distbelief/model/fbnet.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/model/fbnet_search.h"
#include "distbelief/model/random.h"
#include "distbelief/model/registry.h"

namespace distbelief::model {
namespace {

const DataShape kSmallImages{.tokens = false, .input = {1, 16, 16}, .classes = 3};
const OptionMap kFrame{
    {"stem", std::int64_t{4}}, {"widths", std::vector<std::int64_t>{4, 6}}, {"depth", std::int64_t{2}}};

std::shared_ptr<Network> fbnet(const std::string& architecture) {
  OptionMap options = kFrame;
  options["architecture"] = architecture;
  return build_model({"fbnet", options}, kSmallImages, 1);
}

std::shared_ptr<Network> search_network() { return build_model({"fbnet_search", kFrame}, kSmallImages, 1); }

std::vector<FbnetLayer> small_layers() { return fbnet_layers("fbnet", kFrame, kSmallImages); }

// Latencies of the small layers' candidates: 0 for skip and 100 for all others.
std::vector<std::int64_t> even_latencies() {
  std::vector<std::int64_t> all;
  for (const FbnetLayer& layer : small_layers())
    for (const Candidate& candidate : candidates_of(layer)) all.push_back(candidate.kernel == 0 ? 0 : 100);
  return all;
}

std::string fbnet_refusal(const std::string& architecture) {
  try {
    fbnet(architecture);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "accepted";
}

TEST(Fbnet, LayersHalveTheImageWithEachFurtherWidth) {
  const std::vector<FbnetLayer> layers = small_layers();
  ASSERT_EQ(layers.size(), 4U);
  EXPECT_EQ(layers[0].height, 8);
  EXPECT_EQ(layers[2].stride, 2);
  EXPECT_EQ(layers[3].height, 4);
  EXPECT_EQ(layers[3].inputs, 6);
  EXPECT_EQ(candidates_of(layers[2]).size(), std::size_t(kMostCandidates) - 1) << "no skip past a stride";
  EXPECT_EQ(candidates_of(layers[3]).size(), std::size_t(kMostCandidates));
}

TEST(Fbnet, AnArchitectureIsReadAsItIsWritten) {
  const std::string text = "k3_e1 skip k5_e3_g2 k3_e3";
  EXPECT_EQ(architecture_text(parse_architecture(text, small_layers())), text);
  EXPECT_EQ(architecture_text(parse_architecture("", small_layers())), "k3_e3 k3_e3 k3_e3 k3_e3");
}

TEST(Fbnet, AnArchitectureThatDoesNotFitIsRefusedByLayer) {
  EXPECT_NE(fbnet_refusal("k3_e1 k3_e1 skip k3_e1").find("layer 3"), std::string::npos)
      << "changes the shape";
  EXPECT_NE(fbnet_refusal("k3_e1 k4_e1 k3_e1 k3_e1").find("k5_e3_g2"), std::string::npos);
  EXPECT_NE(fbnet_refusal("k3_e1 k3_e1").find("wants 4 layers"), std::string::npos);
  EXPECT_NE(fbnet_refusal("k3_e1 k3_e1 k3_e1 k3_e1 skip").find("found 5"), std::string::npos);
}

TEST(Fbnet, OddWidthsAndImagesTooSmallAreRefused) {
  OptionMap odd = kFrame;
  odd["widths"] = std::vector<std::int64_t>{4, 5};
  EXPECT_THROW(fbnet_layers("fbnet", odd, kSmallImages), Error);
  EXPECT_THROW(fbnet_layers("fbnet", kFrame, {.tokens = false, .input = {1, 4, 16}, .classes = 3}), Error);
}

TEST(Fbnet, ChannelsAreShuffledAcrossGroups) {
  const torch::Tensor channels = torch::arange(6, torch::kFloat32).view({1, 6, 1, 1});
  const torch::Tensor shuffled = shuffle_channels(channels, 2).flatten();
  EXPECT_TRUE(torch::equal(shuffled, torch::tensor({0, 3, 1, 4, 2, 5}, torch::kFloat32)));
}

TEST(Fbnet, GroupsHalveTheWeightsOfThePointwiseConvolutions) {
  const auto weights = [](const std::string& architecture) {
    const auto parameters = fbnet(architecture)->named_parameters();
    return parameters["layer1.conv1.weight"].numel();
  };
  EXPECT_EQ(weights("k3_e3 skip k3_e1 skip"), 4 * 12);
  EXPECT_EQ(weights("k3_e3_g2 skip k3_e1 skip"), 4 * 12 / 2);
}

TEST(FbnetSearch, WhenNotTrainingTheLikeliestCandidateStandsAlone) {
  const auto network = search_network();
  const torch::NoGradGuard no_grad;
  torch::Tensor theta = choices_of(*network);
  network->eval();
  const torch::Tensor input = torch::rand({2, 1, 16, 16});
  const torch::Tensor before = network->forward(input);
  theta[1][8] = 1.0;  // skip
  const torch::Tensor skipping = network->forward(input);
  EXPECT_FALSE(torch::equal(before, skipping));
  for (const auto& parameter : network->named_parameters())
    if (parameter.key().starts_with("weights.layer2.")) parameter.value().fill_(7.0);
  EXPECT_TRUE(torch::equal(network->forward(input), skipping)) << "layer 2 is skipped";
}

TEST(FbnetSearch, DrawsComeFromTheThreadsRandomness) {
  const auto network = search_network();
  const torch::Tensor input = torch::rand({4, 1, 16, 16});
  const auto drawn = [&](std::uint64_t seed) {
    const GeneratorScope randomness(seed);
    return network->forward(input).detach();
  };
  EXPECT_TRUE(torch::equal(drawn(1), drawn(1)));
  EXPECT_FALSE(torch::equal(drawn(1), drawn(2)));
}

TEST(FbnetSearch, LatencyIsTheMeanOverCandidatesAndFallsTowardsTheFastest) {
  const LatencyTable table = latency_table(even_latencies(), small_layers());
  EXPECT_EQ(table.most(), 400);
  const torch::Tensor theta = torch::zeros({4, kMostCandidates}).requires_grad_();
  const torch::Tensor latency = expected_latency(theta, table);
  // Three of four layers may be skipped, with the same probability as each of eight others.
  EXPECT_NEAR(latency.item<double>(), 100 + 3 * 800.0 / 9, 1e-3);
  latency.backward();
  EXPECT_LT(-theta.grad()[0][0].item<double>(), 0.0);
  EXPECT_GT(-theta.grad()[0][8].item<double>(), 0.0) << "descent makes skip likelier";
  EXPECT_EQ(latency_of(parse_architecture("k3_e1 skip k3_e1 skip", small_layers()), small_layers(), table),
            200);
}

TEST(FbnetSearch, ATableOfAnotherSizeIsRefused) {
  std::vector<std::int64_t> latencies = even_latencies();
  latencies.push_back(1);
  EXPECT_THROW(latency_table(latencies, small_layers()), Error);
  latencies.resize(5);
  EXPECT_THROW(latency_table(latencies, small_layers()), Error);
  latencies = even_latencies();
  latencies[3] = -1;
  EXPECT_THROW(latency_table(latencies, small_layers()), Error);
}

TEST(FbnetSearch, CostsAreTheMultiplyAddsOfACandidatesConvolutions) {
  // 4 channels on 8 x 8: two pointwise convolutions of 4 to 12 and back, a 3 x 3 one of each channel.
  const FbnetLayer layer{.inputs = 4, .outputs = 4, .stride = 1, .height = 8, .width = 8};
  const std::vector<Candidate> candidates = candidates_of(layer);
  const std::vector<std::int64_t> costs = count_costs({layer});
  ASSERT_EQ(costs.size(), candidates.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (candidates[i] == Candidate{.kernel = 3, .expansion = 3, .groups = 1}) {
      EXPECT_EQ(costs[i], 64 * (4 * 12 + 9 * 12 + 12 * 4));
    }
    if (candidates[i] == Candidate{.kernel = 5, .expansion = 1, .groups = 2}) {
      EXPECT_EQ(costs[i], 64 * (4 * 2 + 25 * 4 + 4 * 2));
    }
  }
  EXPECT_EQ(costs.back(), 0) << "skip";
  EXPECT_EQ(count_costs({{.inputs = 4, .outputs = 6, .stride = 2, .height = 7, .width = 7}})[0],
            49 * 4 * 4 + 16 * 9 * 4 + 16 * 4 * 6);
}

TEST(FbnetSearch, CostsAreCountedUnlessTheyAreGivenOrToBeMeasured) {
  const std::vector<FbnetLayer> layers = small_layers();
  OptionMap options = resolve_options("model 'fbnet_search'", fbnet_search_options(), kFrame);
  EXPECT_EQ(search_costs(options, layers)->rows, latency_table(count_costs(layers), layers).rows);
  options["costs"] = "measured";
  EXPECT_FALSE(search_costs(options, layers));
  options["latencies"] = even_latencies();
  EXPECT_EQ(search_costs(options, layers)->most(), 400);
  options["costs"] = "guessed";
  EXPECT_THROW(search_costs(options, layers), Error);
}

TEST(FbnetSearch, EveryCandidateIsMeasuredAndSkipTakesNoTime) {
  const std::vector<FbnetLayer> layers = small_layers();
  const LatencyTable table = latency_table(measure_latencies(layers), layers);
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (std::size_t c = 0; c < table.rows[i].size(); ++c)
      if (candidates_of(layers[i])[c].kernel == 0)
        EXPECT_EQ(table.rows[i][c], 0);
      else
        EXPECT_GT(table.rows[i][c], 0);
}

TEST(FbnetSearch, TheLikeliestArchitectureIsTheFirstOfEquals) {
  std::vector<float> theta(4 * std::size_t(kMostCandidates), 0.0F);
  theta[std::size_t(kMostCandidates) + 8] = 0.5F;
  theta[2 * std::size_t(kMostCandidates) + 8] = 9.0F;  // layer 3 has no skip
  EXPECT_EQ(architecture_text(likeliest_architecture(theta, small_layers())), "k3_e1 skip k3_e1 k3_e1");
}

TEST(FbnetSearch, CoolingEndsAtATenth) {
  const auto network = search_network();
  cool(*network, 0.5);
  EXPECT_FLOAT_EQ(network->named_buffers()["choices.temperature"].item<float>(), 2.5F);
  cool(*network, 1e-9);
  EXPECT_FLOAT_EQ(network->named_buffers()["choices.temperature"].item<float>(), 0.1F);
}

}  // namespace
}  // namespace distbelief::model
