#include "distbelief/base/tree.h"

#include <array>

#include "distbelief/base/error.h"
#include "distbelief/base/vector.h"

namespace distbelief {
namespace {

std::int64_t split_point(std::int64_t begin, std::int64_t end) {
  std::int64_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return begin + half;
}

void cover(TreeNode node, TreeNode wanted, std::vector<TreeNode>& out) {
  if (wanted.begin >= node.end || wanted.end <= node.begin) return;
  if (wanted.begin <= node.begin && node.end <= wanted.end) {
    out.push_back(node);
    return;
  }
  const std::int64_t middle = split_point(node.begin, node.end);
  cover({node.begin, middle}, wanted, out);
  cover({middle, node.end}, wanted, out);
}

// Whether left and right are the two children of one node of the tree over [0, lanes).
bool are_siblings(std::int64_t lanes, TreeNode left, TreeNode right) {
  TreeNode node{0, lanes};
  while (node.end - node.begin > 1) {
    const std::int64_t middle = split_point(node.begin, node.end);
    if (left == TreeNode{node.begin, middle} && right == TreeNode{middle, node.end}) return true;
    node = left.begin < middle ? TreeNode{node.begin, middle} : TreeNode{middle, node.end};
  }
  return false;
}

}  // namespace

std::vector<TreeNode> tree_cover(std::int64_t lanes, std::int64_t begin, std::int64_t end) {
  std::vector<TreeNode> nodes;
  if (begin < end) cover({0, lanes}, {begin, end}, nodes);
  return nodes;
}

TreeProgram tree_program(std::int64_t lanes, std::span<const TreeNode> inputs) {
  TreeProgram program;
  std::vector<TreeNode>& stack = program.remainder;
  for (const TreeNode& input : inputs) {
    stack.push_back(input);
    program.depth = std::max(program.depth, static_cast<int>(stack.size()));
    int merges = 0;
    while (stack.size() >= 2 && are_siblings(lanes, stack[stack.size() - 2], stack.back())) {
      const std::int64_t end = stack.back().end;
      stack.pop_back();
      stack.back().end = end;
      ++merges;
    }
    program.merges.push_back(merges);
  }
  return program;
}

template <typename T>
const T* tree_sum(std::span<const T* const> inputs, std::span<const int> merges, std::size_t count,
                  T* scratch) {
  constexpr std::size_t kMaxDepth = 64;
  std::array<const T*, kMaxDepth> stack;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    DISTBELIEF_INVARIANT(depth < kMaxDepth);
    stack[depth++] = inputs[i];
    for (int merge = 0; merge < merges[i]; ++merge) {
      T* out = scratch + (depth - 2) * count;
      add(out, stack[depth - 2], stack[depth - 1], count);
      stack[--depth - 1] = out;
    }
  }
  DISTBELIEF_INVARIANT(depth == 1);
  return stack[0];
}

template const float* tree_sum(std::span<const float* const>, std::span<const int>, std::size_t, float*);
template const double* tree_sum(std::span<const double* const>, std::span<const int>, std::size_t, double*);
template const std::int64_t* tree_sum(std::span<const std::int64_t* const>, std::span<const int>, std::size_t,
                                      std::int64_t*);

}  // namespace distbelief
