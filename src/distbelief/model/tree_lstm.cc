#include "distbelief/model/tree_lstm.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

// Node after node for all samples at once: what a node sees of earlier ones is masked by who its children
// are.
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
    const torch::Tensor tokens = input.select(2, 0);
    const torch::Tensor parents = input.select(2, 1);
    const torch::Tensor real = tokens.gt(0).to(torch::kFloat32).unsqueeze(2);
    const torch::Tensor seen = own_(tok_(tokens));
    Nodes nodes;
    for (std::int64_t i = 0; i < input.size(1); ++i)
      add_node(nodes, seen.select(1, i), parents.narrow(1, 0, i).eq(i), real.select(1, i));
    return nodes.outputs.back();
  }

 private:
  struct Nodes {
    std::vector<torch::Tensor> outputs, cells, forgets;  // [samples, width] each
  };

  void add_node(Nodes& nodes, const torch::Tensor& seen, const torch::Tensor& is_child,
                const torch::Tensor& real) {
    const std::vector<torch::Tensor> own = seen.split(width_, 1);  // input, output, update, forget
    torch::Tensor in = own[0], out = own[1], update = own[2], kept;
    if (!nodes.outputs.empty()) {
      const torch::Tensor mask = is_child.to(torch::kFloat32).unsqueeze(2);
      const std::vector<torch::Tensor> summed =
          sum_((torch::stack(nodes.outputs, 1) * mask).sum(1)).split(width_, 1);
      in = in + summed[0];
      out = out + summed[1];
      update = update + summed[2];
      const torch::Tensor gates = torch::sigmoid(torch::stack(nodes.forgets, 1) + own[3].unsqueeze(1));
      kept = (gates * torch::stack(nodes.cells, 1) * mask).sum(1);
    }
    torch::Tensor cell = torch::sigmoid(in) * torch::tanh(update);
    if (kept.defined()) cell = cell + kept;
    cell = cell * real;
    const torch::Tensor output = torch::sigmoid(out) * torch::tanh(cell);
    nodes.outputs.push_back(output);
    nodes.cells.push_back(cell);
    nodes.forgets.push_back(forget_(output));
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
                    shape.input_tokens, tokens));
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
