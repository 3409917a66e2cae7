#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// The order in which values of several lanes (or ranks) are added: a binary tree over [0, lanes), each node
// [b, e) split at b + the largest power of two below its size. The tree is fixed, so the sum has the same
// bits for any distribution of the lanes over workers. Everything here is pure.
namespace distbelief {

struct TreeNode {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const TreeNode&) const = default;
};

// The largest nodes of the tree over [0, lanes) that together cover [begin, end), in order.
std::vector<TreeNode> tree_cover(std::int64_t lanes, std::int64_t begin, std::int64_t end);

// How to sum a sequence of adjoining nodes: after input i is pushed on a stack, its two topmost entries are
// merged merges[i] times. The stack ends with the cover of the inputs' range.
struct TreeProgram {
  std::vector<int> merges;
  int depth = 0;                    // most entries on the stack at once
  std::vector<TreeNode> remainder;  // the stack at the end, bottom first
};
TreeProgram tree_program(std::int64_t lanes, std::span<const TreeNode> inputs);

// Runs `merges` on inputs[i][0, count); the stack must end with one entry. The result is in `scratch` or, for
// a single input, that input itself. `scratch` has room for max(1, inputs - 1) * count. For float, double and
// std::int64_t.
template <typename T>
const T* tree_sum(std::span<const T* const> inputs, std::span<const int> merges, std::size_t count,
                  T* scratch);

// Elements per block of a sum over large memory: a block and its scratch fit the first-level cache.
inline constexpr std::size_t kSumBlock = 1024;

}  // namespace distbelief
