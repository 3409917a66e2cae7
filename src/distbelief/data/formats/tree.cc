#include "distbelief/data/formats/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kLogicStream = 9;
constexpr std::size_t kMostDepth = 1000;

// Parses one expression; limits its depth, and thus the stack.
class TreeParser {
 public:
  explicit TreeParser(std::string_view text) : text_(text) {}

  std::vector<TreeNode> parse() {
    expression(0);
    skip_space();
    if (at_ != text_.size()) throw trouble("nothing more");
    return std::move(nodes_);
  }

 private:
  // Returns the index of the node that it added.
  std::size_t expression(std::size_t depth) {
    if (depth > kMostDepth) throw trouble(fmt::format("at most {} levels", kMostDepth));
    skip_space();
    if (at_ == text_.size()) throw trouble("an expression");
    if (text_[at_] != '(') return add(atom());
    ++at_;
    skip_space();
    const std::string name = atom();
    std::vector<std::size_t> children;
    for (skip_space(); at_ < text_.size() && text_[at_] != ')'; skip_space())
      children.push_back(expression(depth + 1));
    if (at_ == text_.size()) throw trouble("')'");
    ++at_;
    const std::size_t own = add(name);
    for (const std::size_t child : children) nodes_[child].parent = std::int64_t(own);
    return own;
  }

  std::string atom() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != ')' &&
           std::isspace(static_cast<unsigned char>(text_[at_])) == 0)
      ++at_;
    if (at_ == begin) throw trouble("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::size_t add(std::string name) {
    if (nodes_.size() == kMostTreeNodes) throw trouble(fmt::format("at most {} nodes", kMostTreeNodes));
    nodes_.push_back({std::move(name), -1});
    return nodes_.size() - 1;
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  Error trouble(const std::string& wanted) const {
    return Error(ErrorCode::kBadInput,
                 fmt::format("an s-expression wants {} at character {}", wanted, at_ + 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<TreeNode> nodes_;
};

struct Formula {
  std::string text;
  bool value = false;
};

// Draws a formula of exactly `nodes` nodes.
Formula draw_formula(SplitMix64& random, std::int64_t nodes) {
  if (nodes == 1) {
    const bool value = random.below(2) == 1;
    return {value ? "true" : "false", value};
  }
  if (nodes == 2 || random.below(4) == 0) {
    const Formula inner = draw_formula(random, nodes - 1);
    return {"(not " + inner.text + ")", !inner.value};
  }
  const auto left_nodes = std::int64_t(1 + random.below(std::uint64_t(nodes - 2)));
  const Formula left = draw_formula(random, left_nodes), right = draw_formula(random, nodes - 1 - left_nodes);
  const char* names[] = {"and", "or", "xor"};
  const std::uint64_t which = random.below(3);
  const bool values[] = {left.value && right.value, left.value || right.value, left.value != right.value};
  return {fmt::format("({} {} {})", names[which], left.text, right.text), values[which]};
}

}  // namespace

std::vector<TreeNode> parse_s_expression(std::string_view text) { return TreeParser(text).parse(); }

void write_tree(const std::vector<TreeNode>& tree, const TreeTokens& tokens, std::int64_t nodes,
                std::int64_t* out) {
  const std::int64_t empty = nodes - std::int64_t(tree.size());
  if (empty < 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a tree has {} nodes, the largest for training has {}", tree.size(), nodes));
  for (std::int64_t i = 0; i < empty; ++i) {
    *out++ = 0;
    *out++ = -1;
  }
  for (const TreeNode& node : tree) {
    const auto token = tokens.find(node.name);
    *out++ = token == tokens.end() ? std::int64_t(tokens.size()) + 1 : token->second;
    *out++ = node.parent < 0 ? -1 : node.parent + empty;
  }
}

const TreeTokens& SyntheticLogic::tokens() {
  static const TreeTokens tokens = {{"true", 1}, {"false", 2}, {"not", 3}, {"and", 4}, {"or", 5}, {"xor", 6}};
  return tokens;
}

SyntheticLogic::SyntheticLogic(Part part, const Options& options)
    : DiscreteSource(part, options.samples,
                     {.stream = kLogicStream, .name = "synthetic_logic", .advice = "raise option 'nodes'"}),
      nodes_(options.nodes) {
  if (options.nodes < 1 || options.nodes > 255)
    throw Error(ErrorCode::kBadInput,
                fmt::format("synthetic_logic wants 1 to 255 nodes, found {}", options.nodes));
  spec_.input_type = ElementType::kInt64;
  spec_.input_shape = {nodes_, 2};
  spec_.classes = 2;
  spec_.input_tokens = tokens_for(tokens());
  require_samples();
}

void SyntheticLogic::draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const {
  const Formula formula = draw_formula(random, std::int64_t(1 + random.below(std::uint64_t(nodes_))));
  write_tree(parse_s_expression(formula.text), tokens(), nodes_, input);
  *target = formula.value ? 1 : 0;
}

}  // namespace distbelief::data
