#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/data/generated/generated_source.h"

// Trees as samples: nodes with children before their parents and the root last, [nodes, 2] numbers each: what
// stands at the node, and where its parent is (-1: the root). Shorter trees begin with empty nodes (0, -1).
namespace distbelief::data {

struct TreeNode {
  std::string name;
  std::int64_t parent = -1;  // a later node
};

inline constexpr std::size_t kMostTreeNodes = 4096;

// An s-expression, "(and true (not false))", as nodes, children first: the first atom of a list is its node's
// name, the others are leaves. Throws Error(kBadInput) with the place in the text, for a larger one too.
std::vector<TreeNode> parse_s_expression(std::string_view text);

using TreeTokens = std::map<std::string, std::int64_t>;  // names of nodes, numbered from 1 on

// How many different numbers may stand at nodes: none, the names', any other.
inline std::int64_t tokens_for(const TreeTokens& tokens) { return std::int64_t(tokens.size()) + 2; }

// Writes a tree of at most `nodes` nodes to `out`, two numbers each. A name that `tokens` has not gets the
// number after theirs. Throws Error(kBadInput) for a larger tree.
void write_tree(const std::vector<TreeNode>& tree, const TreeTokens& tokens, std::int64_t nodes,
                std::int64_t* out);

// Random formulas of true, false, not, and, or, xor with up to `nodes` nodes; the class is their value.
class SyntheticLogic final : public DiscreteSource {
 public:
  struct Options {
    std::int64_t samples = 4'000;
    std::int64_t nodes = 15;
  };
  // Throws Error(kBadInput) for options outside their range, or with which there is nothing to test on.
  SyntheticLogic(Part part, const Options& options);

  static const TreeTokens& tokens();

 private:
  void draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const override;

  std::int64_t nodes_;
};

}  // namespace distbelief::data
