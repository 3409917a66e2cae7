#include "distbelief/model/tree_lstm.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"
#include "distbelief/model/watched.h"

namespace distbelief::model {
namespace {

// The nodes of all samples by depth: the children of a level are all in the next. Excludes empty nodes and
// nodes that no root reaches.
class TreeLevels {
 public:
  // `input` is [samples, nodes, 2].
  explicit TreeLevels(const torch::Tensor& input) : nodes_(input.size(1)) {
    const HostValues<std::int64_t> numbers(input);
    for (std::int64_t sample = 0; sample < input.size(0); ++sample)
      add_tree(numbers.data() + sample * nodes_ * 2, sample * nodes_);
  }

  std::int64_t count() const { return std::int64_t(levels_.size()); }
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> found;
    for (const Level& level : levels_) found.push_back(std::int64_t(level.rows.size()));
    return found;
  }
  // Row indices in [samples * nodes], level after level.
  torch::Tensor rows() const {
    std::vector<std::int64_t> all;
    for (const Level& level : levels_) all.insert(all.end(), level.rows.begin(), level.rows.end());
    return torch::tensor(all, torch::kInt64);
  }
  // Indices of the parents in the previous level.
  torch::Tensor parents(std::int64_t level) const {
    return torch::tensor(levels_[std::size_t(level)].parents, torch::kInt64);
  }

 private:
  struct Level {
    std::vector<std::int64_t> rows, parents;
  };
  struct Place {
    std::int64_t level = -1, index = 0;
  };

  // Walks down from the root, which is last: parents come before their children.
  void add_tree(const std::int64_t* tree, std::int64_t first_row) {
    std::vector<Place> places(static_cast<std::size_t>(nodes_));
    for (std::int64_t node = nodes_ - 1; node >= 0; --node) {
      const std::int64_t token = tree[2 * node], parent = tree[2 * node + 1];
      if (node == nodes_ - 1)
        places[std::size_t(node)] = add({0, 0}, first_row + node);
      else if (token > 0 && parent > node && parent < nodes_ && places[std::size_t(parent)].level >= 0)
        places[std::size_t(node)] =
            add({places[std::size_t(parent)].level + 1, places[std::size_t(parent)].index}, first_row + node);
    }
  }
  Place add(const Place& level_and_parent, std::int64_t row) {
    if (level_and_parent.level == count()) levels_.emplace_back();
    Level& level = levels_[std::size_t(level_and_parent.level)];
    level.rows.push_back(row);
    level.parents.push_back(level_and_parent.index);
    return {level_and_parent.level, std::int64_t(level.rows.size()) - 1};
  }

  std::int64_t nodes_;
  std::vector<Level> levels_;
};

// Computes all nodes of a level at once, from the deepest level to the roots, so the cost of a step is
// proportional to the number of nodes. Goes node by node when it is watched: a trace must not depend on the
// shapes of the trees.
class TreeBlock final : public Block {
 public:
  TreeBlock(std::int64_t tokens, std::int64_t width)
      : width_(width),
        tok_(register_module("tok", torch::nn::Embedding(tokens, width))),
        own_(register_module("own", torch::nn::Linear(width, 4 * width))),
        sum_(register_module("sum",
                             torch::nn::Linear(torch::nn::LinearOptions(width, 3 * width).bias(false)))),
        forget_(register_module("forget",
                                torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)))) {}

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor roots = is_watched() ? by_node(input) : by_level(input);
    return roots * input.select(2, 0).select(1, -1).gt(0).unsqueeze(1);
  }

 private:
  // Each [nodes, width]; of a node, or summed over its children.
  struct State {
    torch::Tensor output, cell;
  };

  torch::Tensor by_level(const torch::Tensor& input) {
    const TreeLevels levels(input);
    const torch::Tensor tokens = input.select(2, 0).flatten();
    // Uses split: with narrow, the gradient of each part would be as large as the whole.
    const std::vector<torch::Tensor> seen =
        own_(tok_(tokens.index_select(0, on_device(levels.rows(), input.device()))))
            .split_with_sizes(levels.sizes(), 0);
    State level;
    for (std::int64_t at = levels.count() - 1; at >= 0; --at) {
      State children;
      if (level.output.defined())
        children = summed(level, on_device(levels.parents(at + 1), input.device()), seen[std::size_t(at)]);
      level = node(seen[std::size_t(at)], children);
    }
    return level.output;
  }

  // Sums children by parent; `seen` is the parents' own input.
  State summed(const State& children, const torch::Tensor& parents, const torch::Tensor& seen) {
    const torch::Tensor kept = kept_of(children, forget_part(seen).index_select(0, parents));
    const auto sums = [&](const torch::Tensor& rows) {
      return torch::zeros({seen.size(0), width_}, rows.options()).index_add(0, parents, rows);
    };
    return {sums(children.output), sums(kept)};
  }

  torch::Tensor by_node(const torch::Tensor& input) {
    const torch::Tensor tokens = input.select(2, 0);
    const torch::Tensor real = tokens.gt(0).unsqueeze(2);
    const torch::Tensor seen = own_(tok_(tokens));
    const std::int64_t nodes = input.size(1);
    const State sums{torch::zeros_like(seen.narrow(2, 0, width_)),
                     torch::zeros_like(seen.narrow(2, 0, width_))};
    for (std::int64_t i = 0;; ++i) {
      State own = node(seen.select(1, i), {sums.output.select(1, i), sums.cell.select(1, i)});
      if (i == nodes - 1) return own.output;
      own = {own.output * real.select(1, i), own.cell * real.select(1, i)};
      // An empty node has parent -1; it adds 0 to the first node, which has been read already.
      const torch::Tensor parent = input.select(2, 1).narrow(1, i, 1).clamp_min(0).unsqueeze(2);
      const torch::Tensor asks = forget_part(seen.gather(1, parent.expand({-1, 1, 4 * width_})).squeeze(1));
      const torch::Tensor at = parent.expand({-1, 1, width_});
      sums.output.scatter_add_(1, at, own.output.unsqueeze(1));
      sums.cell.scatter_add_(1, at, kept_of(own, asks).unsqueeze(1));
    }
  }

  // The part of each child's cell that its parent keeps, given the parent's own input.
  torch::Tensor kept_of(const State& children, const torch::Tensor& asks) {
    return torch::sigmoid(asks + forget_(children.output)) * children.cell;
  }
  torch::Tensor forget_part(const torch::Tensor& seen) const { return seen.narrow(1, 3 * width_, width_); }

  State node(const torch::Tensor& seen, const State& children) {
    torch::Tensor gates = seen.narrow(1, 0, 3 * width_);  // input, output, update
    if (children.output.defined()) gates = gates + sum_(children.output);
    const std::vector<torch::Tensor> parts = gates.split(width_, 1);
    torch::Tensor cell = torch::sigmoid(parts[0]) * torch::tanh(parts[2]);
    if (children.cell.defined()) cell = cell + children.cell;
    return {torch::sigmoid(parts[1]) * torch::tanh(cell), cell};
  }

  std::int64_t width_;
  torch::nn::Embedding tok_;
  torch::nn::Linear own_;
  torch::nn::Linear sum_;
  torch::nn::Linear forget_;
};

}  // namespace

std::vector<OptionSpec> tree_lstm_options() {
  return {{"width", std::int64_t{48}, "of the embedding and the state of a node"},
          {"tokens", std::int64_t{64}, "most different things that stand at nodes, the empty one included"},
          {"dropout", 0.0, "of the root's state"}};
}

Blueprint tree_lstm_blueprint(const OptionMap& options, const DataShape& shape) {
  if (!shape.tokens || shape.input.size() != 2 || shape.input[1] != 2 || shape.classes < 1)
    throw Error(ErrorCode::kBadInput,
                "model 'tree_lstm' wants trees [nodes, 2] with classes, found samples " +
                    to_string(shape.input) + "; choose data such as s_expressions or synthetic_logic");
  const std::int64_t width = positive_option("tree_lstm", options, "width");
  const std::int64_t tokens = positive_option("tree_lstm", options, "tokens");
  if (tokens < shape.input_tokens)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("model.tokens must be {} or more for these trees: the names at their nodes, and two "
                    "that stand for none and for any other; it is {}",
                    shape.input_tokens, tokens),
        {.key = "model.tokens"});
  const double dropout = dropout_option("tree_lstm", options);
  Blueprint blueprint;
  blueprint.push_back(
      {"", [width, tokens](const BlockSite&) { return std::make_shared<TreeBlock>(tokens, width); }});
  blueprint.push_back({"", [width, dropout, classes = shape.classes](const BlockSite&) {
                         torch::nn::Sequential layers;
                         layers->push_back("dropout", std::make_shared<Dropout>(dropout));
                         layers->push_back("fc", torch::nn::Linear(width, classes));
                         return std::make_shared<LayerBlock>(layers);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
