#include "distbelief/model/tree_lstm.h"

#include <gtest/gtest.h>

#include "distbelief/model/registry.h"

namespace distbelief::model {
namespace {

constexpr std::int64_t kNames = 9;

struct NodeState {
  torch::Tensor output, cell;
};
using Tree = std::vector<std::pair<std::int64_t, std::int64_t>>;  // token and parent, the root last

std::shared_ptr<Network> tree_network(std::int64_t nodes) {
  return build_model({"tree_lstm", {{"width", std::int64_t{6}}, {"tokens", std::int64_t{kNames}}}},
                     {.tokens = true, .input = {nodes, 2}, .classes = 2}, 3);
}

// Pads shorter trees with empty nodes at the front.
torch::Tensor batch_of(const std::vector<Tree>& trees, std::int64_t nodes) {
  torch::Tensor batch = torch::zeros({std::int64_t(trees.size()), nodes, 2}, torch::kInt64);
  batch.select(2, 1).fill_(-1);
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const std::int64_t empty = nodes - std::int64_t(trees[i].size());
    for (std::size_t node = 0; node < trees[i].size(); ++node) {
      const auto [token, parent] = trees[i][node];
      batch[std::int64_t(i)][empty + std::int64_t(node)][0] = token;
      batch[std::int64_t(i)][empty + std::int64_t(node)][1] = parent < 0 ? -1 : empty + parent;
    }
  }
  return batch;
}

// Equations 2 to 8 of Tai et al., 2015, one node at a time.
NodeState state_of(const Tree& tree, std::size_t node, Network& network) {
  const auto weights = network.named_parameters();
  const torch::Tensor seen =
      torch::mv(weights["own.weight"], weights["tok.weight"][tree[node].first]) + weights["own.bias"];
  const std::vector<torch::Tensor> own = seen.split(6);  // input, output, update, forget
  torch::Tensor sum = torch::zeros({6}), kept = torch::zeros({6});
  for (std::size_t child = 0; child < node; ++child) {
    if (tree[child].second != std::int64_t(node)) continue;
    const NodeState state = state_of(tree, child, network);
    sum = sum + state.output;
    kept = kept + torch::sigmoid(own[3] + torch::mv(weights["forget.weight"], state.output)) * state.cell;
  }
  const std::vector<torch::Tensor> summed = torch::mv(weights["sum.weight"], sum).split(6);
  const torch::Tensor cell = torch::sigmoid(own[0] + summed[0]) * torch::tanh(own[2] + summed[2]) + kept;
  return {torch::sigmoid(own[1] + summed[1]) * torch::tanh(cell), cell};
}

torch::Tensor wanted_for(const std::vector<Tree>& trees, Network& network) {
  const auto weights = network.named_parameters();
  std::vector<torch::Tensor> rows;
  for (const Tree& tree : trees)
    rows.push_back(torch::mv(weights["fc.weight"], state_of(tree, tree.size() - 1, network).output) +
                   weights["fc.bias"]);
  return torch::stack(rows);
}

// Several depths, a node with children of different heights, a wide node, a single root.
const std::vector<Tree> kTrees = {{{1, 2}, {2, 2}, {3, 4}, {4, 4}, {5, -1}},
                                  {{7, -1}},
                                  {{1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 6}, {6, 6}, {8, -1}},
                                  {{1, 1}, {2, 2}, {3, 3}, {4, -1}},
                                  {{3, 1}, {2, 3}, {5, 3}, {4, 5}, {6, 5}, {8, -1}}};

TEST(TreeLstm, GivesWhatItsPaperSaysForTreesOfAnyForm) {
  for (const std::int64_t nodes : {7, 11}) {
    const auto network = tree_network(nodes);
    const torch::Tensor wanted = wanted_for(kTrees, *network);
    EXPECT_TRUE(torch::allclose(network->forward(batch_of(kTrees, nodes)), wanted, 1e-5, 1e-6)) << nodes;
    wanted.square().sum().backward();
    std::vector<torch::Tensor> gradients;
    for (torch::Tensor& parameter : network->parameters()) {
      gradients.push_back(parameter.grad().clone());
      parameter.mutable_grad() = torch::Tensor();
    }
    network->forward(batch_of(kTrees, nodes)).square().sum().backward();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(torch::allclose(network->parameters()[i].grad(), gradients[i], 1e-4, 1e-6)) << i;
  }
}

TEST(TreeLstm, EmptyNodesAndTreesGiveNothing) {
  const auto network = tree_network(4);
  torch::Tensor batch = batch_of({{{1, 1}, {2, -1}}, {}}, 4);
  const torch::Tensor found = network->forward(batch);
  EXPECT_TRUE(torch::equal(found[1], network->named_parameters()["fc.bias"]));
  batch[0][0][1] = 3;  // an empty child
  batch[0][1][1] = 9;  // and one whose parent does not exist
  EXPECT_TRUE(torch::equal(network->forward(batch), found));
}

// As many levels as nodes, and one level for all: each node must be visited once, or this takes minutes.
TEST(TreeLstm, TheLargestTreesTakeAsLongAsTheirNodes) {
  constexpr std::int64_t kNodes = 4096;
  const auto network = tree_network(kNodes);
  Tree chain, fan;
  for (std::int64_t i = 0; i + 1 < kNodes; ++i) {
    chain.emplace_back(1 + i % 8, i + 1);
    fan.emplace_back(1 + i % 8, kNodes - 1);
  }
  chain.emplace_back(1, -1);
  fan.emplace_back(1, -1);
  std::vector<Tree> trees(15, {{1, -1}});
  trees.push_back(chain);
  trees.push_back(fan);
  network->forward(batch_of(trees, kNodes)).square().sum().backward();
  for (const torch::Tensor& parameter : network->parameters())
    EXPECT_GT(parameter.grad().abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace distbelief::model
