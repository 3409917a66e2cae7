#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/data/generated/generated_source.h"

// Trees as samples of shape [nodes, 2]: the token of each node and the position of its parent (-1 for the
// root). Children come before their parents and the root is last. Shorter trees begin with empty nodes (0,
// -1).
namespace distbelief::data {

struct TreeNode {
  std::string name;
  std::int64_t parent = -1;  // index of a later node; -1: the root
};

inline constexpr std::size_t kMostTreeNodes = 4096;

// Parses an s-expression such as "(and true (not false))" into nodes, children first. The first atom of a
// list names its node; the others are leaves. Throws Error(kBadInput) with the place in the text, also for a
// tree that is too large.
std::vector<TreeNode> parse_s_expression(std::string_view text);

using TreeTokens = std::map<std::string, std::int64_t>;  // node names, numbered from 1

// How many values a node's token may have: one for "empty", one per name, one for unknown names.
inline std::int64_t tokens_for(const TreeTokens& tokens) { return std::int64_t(tokens.size()) + 2; }

// Writes a tree of at most `nodes` nodes to `out`, two numbers per node. A name that is not in `tokens` gets
// the number after the last token. Throws Error(kBadInput) for a larger tree.
void write_tree(const std::vector<TreeNode>& tree, const TreeTokens& tokens, std::int64_t nodes,
                std::int64_t* out);

// Random formulas of true, false, not, and, or, xor with up to `nodes` nodes; the class is the formula's
// value.
class SyntheticLogic final : public DiscreteSource {
 public:
  struct Options {
    std::int64_t samples = 4'000;
    std::int64_t nodes = 15;
  };
  // Throws Error(kBadInput) for options out of range, and for options that leave one part without samples.
  SyntheticLogic(Part part, const Options& options);

  static const TreeTokens& tokens();

 private:
  void draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const override;

  std::int64_t nodes_;
};

}  // namespace distbelief::data
