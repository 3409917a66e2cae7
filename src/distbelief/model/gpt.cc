#include "distbelief/model/gpt.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

struct GptOptions {
  std::int64_t layers = 4;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t context = 128;
  std::int64_t vocabulary = 256;
  double dropout = 0.0;
  bool tied = false;
};

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// Not layer->forward(): for [batch, length, width] that adds the bias in a second pass over the result.
torch::Tensor fused_linear(const torch::nn::Linear& layer, const torch::Tensor& input) {
  return torch::linear(input, layer->weight, layer->bias);
}

class DecoderBlock final : public Block {
 public:
  // `mask` is [context, context], true where a position may not look; all blocks share its memory.
  DecoderBlock(const GptOptions& options, torch::Tensor mask)
      : heads_(options.heads),
        mask_(std::move(mask)),
        ln1_(register_module("ln1", layer_norm(options.width))),
        qkv_(register_module("qkv", torch::nn::Linear(options.width, 3 * options.width))),
        proj_(register_module("proj", torch::nn::Linear(options.width, options.width))),
        ln2_(register_module("ln2", layer_norm(options.width))),
        fc1_(register_module("fc1", torch::nn::Linear(options.width, 4 * options.width))),
        fc2_(register_module("fc2", torch::nn::Linear(4 * options.width, options.width))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {}

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = input + dropout_->forward(fused_linear(proj_, attend(fused_linear(qkv_, ln1_(input)))));
    return x + dropout_->forward(fused_linear(fc2_, torch::gelu(fused_linear(fc1_, ln2_(x)))));
  }

 private:
  torch::Tensor attend(const torch::Tensor& qkv) const {
    const std::int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
    const std::int64_t head = width / heads_;
    std::vector<torch::Tensor> parts = qkv.split(width, 2);
    for (torch::Tensor& part : parts) part = part.view({batch, length, heads_, head}).transpose(1, 2);
    torch::Tensor weights =
        torch::matmul(parts[0], parts[1].transpose(-2, -1)) * std::pow(static_cast<double>(head), -0.5);
    const torch::Tensor mask = mask_.narrow(0, 0, length).narrow(1, 0, length);
    weights = weights.masked_fill(mask, -std::numeric_limits<float>::infinity()).softmax(-1);
    return torch::matmul(weights, parts[2]).transpose(1, 2).reshape({batch, length, width});
  }

  std::int64_t heads_;
  torch::Tensor mask_;
  torch::nn::LayerNorm ln1_;
  torch::nn::Linear qkv_;
  torch::nn::Linear proj_;
  torch::nn::LayerNorm ln2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  std::shared_ptr<Dropout> dropout_;
};

class Embedding final : public Block {
 public:
  explicit Embedding(const GptOptions& options)
      : positions_(torch::arange(options.context)),
        tok_(register_module("tok", torch::nn::Embedding(options.vocabulary, options.width))),
        pos_(register_module("pos", torch::nn::Embedding(options.context, options.width))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {
    // Embeddings of unit variance would make the first logits sqrt(width) times too large.
    if (options.tied)
      torch::nn::init::normal_(tok_->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(options.width)));
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor tokens = tok_(input);
    return dropout_->forward(tokens + pos_(positions_.narrow(0, 0, input.size(1))));
  }

 private:
  torch::Tensor positions_;  // 0 to context - 1; like the mask not part of the state, and made only once
  torch::nn::Embedding tok_;
  torch::nn::Embedding pos_;
  std::shared_ptr<Dropout> dropout_;
};

class Head final : public Block {
 public:
  explicit Head(const GptOptions& options) : ln_(register_module("ln", layer_norm(options.width))) {
    if (options.tied) return;
    const auto head = torch::nn::LinearOptions(options.width, options.vocabulary).bias(false);
    weight_ = register_module("head", torch::nn::Linear(head))->weight;
  }

  // The token embedding stands in for the last layer. Its module is held by the embedding's block, or here.
  enum class Held { kElsewhere, kHere };
  void tie(const std::shared_ptr<torch::nn::Module>& tok, Held held) {
    weight_ = tok->named_parameters()["weight"];
    if (held == Held::kHere) register_module("tok", tok);
  }
  std::vector<torch::Tensor> borrowed() const override { return {weight_}; }

  torch::Tensor forward(torch::Tensor input) override {
    return torch::linear(ln_(input), weight_).flatten(0, 1);
  }

 private:
  torch::nn::LayerNorm ln_;
  torch::Tensor weight_;
};

std::int64_t context_option(const OptionMap& options, const DataShape& shape) {
  const auto context = option<std::int64_t>(options, "context");
  if (context == 0) return shape.input[0];
  if (context >= shape.input[0]) return context;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("model 'gpt': option 'context' must be 0 or at least the data's length {}, found {}",
                  shape.input[0], context));
}

std::shared_ptr<Block> make_head(const GptOptions& options, const BlockSite& site) {
  auto head = std::make_shared<Head>(options);
  if (!options.tied) return head;
  if (const auto children = site.network.named_children(); children.contains("tok")) {
    head->tie(children["tok"], Head::Held::kElsewhere);
    return head;
  }
  seed_block(site.seed, 0);  // a process without the embedding makes its weight anew, from its own seed
  head->tie(Embedding(options).named_children()["tok"], Head::Held::kHere);
  return head;
}

Blueprint blueprint_of(const GptOptions& options) {
  Blueprint blueprint;
  blueprint.push_back({"", [options](const BlockSite&) { return std::make_shared<Embedding>(options); }});
  // True where a position may not look; all blocks of a process share its memory.
  const auto mask = std::make_shared<torch::Tensor>();
  for (std::int64_t i = 0; i < options.layers; ++i)
    blueprint.push_back({fmt::format("blocks.{}", i), [options, mask](const BlockSite&) {
                           if (!mask->defined())
                             *mask = torch::ones({options.context, options.context}, torch::kBool).triu(1);
                           return std::make_shared<DecoderBlock>(options, *mask);
                         }});
  blueprint.push_back({"", [options](const BlockSite& site) { return make_head(options, site); }});
  return blueprint;
}

}  // namespace

std::vector<OptionSpec> gpt_options() {
  return {{"layers", std::int64_t{4}, "transformer blocks"},
          {"width", std::int64_t{256}, "of embeddings and blocks; a multiple of heads"},
          {"heads", std::int64_t{8}, "attention heads per block"},
          {"context", std::int64_t{0}, "most tokens in a sample; 0: the data's length"},
          {"dropout", 0.0, "after the embeddings, attention and feed-forward layers"},
          {"tied", false, "use the token embedding as the last layer too"}};
}

Blueprint gpt_blueprint(const OptionMap& options, const DataShape& shape) {
  require_tokens("gpt", shape);
  const GptOptions resolved{.layers = positive_option("gpt", options, "layers"),
                            .width = positive_option("gpt", options, "width"),
                            .heads = positive_option("gpt", options, "heads"),
                            .context = context_option(options, shape),
                            .vocabulary = shape.classes,
                            .dropout = dropout_option("gpt", options),
                            .tied = option<bool>(options, "tied")};
  if (resolved.width % resolved.heads != 0) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("model 'gpt': option 'width' must be a multiple of 'heads', found width {} and {} heads",
                    resolved.width, resolved.heads));
  }
  return blueprint_of(resolved);
}

}  // namespace distbelief::model
