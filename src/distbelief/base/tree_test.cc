#include "distbelief/base/tree.h"

#include <gtest/gtest.h>

#include <random>

namespace distbelief {
namespace {

std::vector<std::vector<float>> random_leaves(int lanes, std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> leaves(lanes, std::vector<float>(count));
  for (auto& leaf : leaves)
    for (float& value : leaf) value = normal(random) * 1e3F;
  return leaves;
}

// Sums a worker's share of the lanes to its cover, as a worker does.
void sum_share(int lanes, TreeNode share, const std::vector<std::vector<float>>& leaves,
               std::vector<TreeNode>& nodes, std::vector<std::vector<float>>& values) {
  for (const TreeNode& node : tree_cover(lanes, share.begin, share.end)) {
    std::vector<TreeNode> inputs;
    std::vector<const float*> pointers;
    for (auto lane = node.begin; lane < node.end; ++lane) {
      inputs.push_back({lane, lane + 1});
      pointers.push_back(leaves[lane].data());
    }
    const TreeProgram program = tree_program(lanes, inputs);
    ASSERT_EQ(program.remainder, std::vector<TreeNode>{node});
    std::vector<float> scratch(leaves[0].size() * pointers.size());
    const float* sum = tree_sum<float>(pointers, program.merges, leaves[0].size(), scratch.data());
    nodes.push_back(node);
    values.emplace_back(sum, sum + leaves[0].size());
  }
}

std::vector<float> sum_over_workers(int lanes, int workers, const std::vector<std::vector<float>>& leaves) {
  std::vector<TreeNode> nodes;
  std::vector<std::vector<float>> values;
  for (int worker = 0; worker < workers; ++worker)
    sum_share(lanes, {lanes * worker / workers, lanes * (worker + 1) / workers}, leaves, nodes, values);
  const TreeProgram program = tree_program(lanes, nodes);
  EXPECT_EQ(program.remainder, (std::vector<TreeNode>{{0, lanes}}));
  std::vector<const float*> pointers;
  for (const auto& value : values) pointers.push_back(value.data());
  std::vector<float> scratch(leaves[0].size() * pointers.size());
  const float* sum = tree_sum<float>(pointers, program.merges, leaves[0].size(), scratch.data());
  return {sum, sum + leaves[0].size()};
}

TEST(Tree, SumHasTheSameBitsForAnyNumberOfWorkers) {
  for (int lanes = 1; lanes <= 17; ++lanes) {
    const auto leaves = random_leaves(lanes, 33);
    const auto reference = sum_over_workers(lanes, 1, leaves);
    for (int workers = 2; workers <= lanes; ++workers)
      EXPECT_EQ(sum_over_workers(lanes, workers, leaves), reference) << lanes << " lanes, " << workers;
  }
}

TEST(Tree, SumIsNotTheSequentialOne) {
  const auto leaves = random_leaves(8, 64);
  std::vector<float> sequential = leaves[0];
  for (int lane = 1; lane < 8; ++lane)
    for (std::size_t i = 0; i < sequential.size(); ++i) sequential[i] += leaves[lane][i];
  EXPECT_NE(sum_over_workers(8, 2, leaves), sequential);
}

TEST(Tree, CoverOfAnUnevenShareHasLogarithmicSize) {
  EXPECT_EQ(tree_cover(8, 0, 3), (std::vector<TreeNode>{{0, 2}, {2, 3}}));
  EXPECT_EQ(tree_cover(8, 3, 6), (std::vector<TreeNode>{{3, 4}, {4, 6}}));
  EXPECT_EQ(tree_cover(6, 0, 6), (std::vector<TreeNode>{{0, 6}}));
  EXPECT_TRUE(tree_cover(4, 2, 2).empty());
}

TEST(Tree, StackStaysAsDeepAsTheTree) {
  std::vector<TreeNode> leaves;
  for (std::int64_t lane = 0; lane < 1024; ++lane) leaves.push_back({lane, lane + 1});
  EXPECT_EQ(tree_program(1024, leaves).depth, 11);
}

}  // namespace
}  // namespace distbelief
