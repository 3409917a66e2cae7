#include "distbelief/model/gpt.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/model/attention.h"
#include "distbelief/model/device.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/placed_linear.h"
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
  Activation activation = Activation::kGelu;  // in the feed-forward layers
  bool tied = false;
  bool looks_ahead = false;  // an encoder: every position sees all others
  bool has_mask_token = false;
  std::int64_t tokens() const { return vocabulary + (has_mask_token ? 1 : 0); }
};

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// The bias that hides later positions from the attention.
torch::Tensor no_look_ahead(std::int64_t context) {
  return torch::full({context, context}, -std::numeric_limits<float>::infinity()).triu(1);
}

// Avoids layer->forward(): for [batch, length, width] it adds the bias in a second pass over the result.
torch::Tensor fused_linear(const torch::nn::Linear& layer, const torch::Tensor& input) {
  const torch::Tensor result = placed_linear(input.flatten(0, 1), layer->weight, layer->bias);
  return result.view({-1, input.size(1), layer->weight.size(0)});
}

// Linear layers with sliced outputs or inputs when there is a group, plain layers otherwise.
torch::Tensor to_slices(TensorGroup* group, const torch::nn::Linear& layer, const torch::Tensor& input) {
  return group ? column_linear(*group, input, layer->weight, layer->bias) : fused_linear(layer, input);
}
torch::Tensor from_slices(TensorGroup* group, const torch::nn::Linear& layer, const torch::Tensor& input) {
  return group ? row_linear(*group, input, layer->weight, layer->bias) : fused_linear(layer, input);
}

class DecoderBlock final : public Block {
 public:
  // `mask` is [context, context]: minus infinity where a position may not look, else 0; all blocks share its
  // memory. Undefined: every position sees all others.
  DecoderBlock(const GptOptions& options, torch::Tensor mask, TensorGroup* group)
      : group_(group),
        heads_(options.heads),
        activation_(options.activation),
        mask_(std::move(mask)),
        ln1_(register_module("ln1", layer_norm(options.width))),
        qkv_(register_module("qkv", torch::nn::Linear(options.width, 3 * options.width))),
        proj_(register_module("proj", torch::nn::Linear(options.width, options.width))),
        ln2_(register_module("ln2", layer_norm(options.width))),
        fc1_(register_module("fc1", torch::nn::Linear(options.width, 4 * options.width))),
        fc2_(register_module("fc2", torch::nn::Linear(4 * options.width, options.width))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {
    if (group_) keep_slices(options);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor attended = attention(to_slices(group_, qkv_, ln1_(input)), heads_, mask_for(input));
    torch::Tensor x = input + dropout_->forward(from_slices(group_, proj_, attended));
    const torch::Tensor wide = activate(activation_, to_slices(group_, fc1_, ln2_(x)));
    return x + dropout_->forward(from_slices(group_, fc2_, wide));
  }

 private:
  // Slices by whole heads: the same heads of the queries, keys and values, which qkv holds side by side.
  void keep_slices(const GptOptions& options) {
    heads_ = even_share("the attention of model 'gpt', in heads,", options.heads, *group_).count;
    const SliceRange range = share_of(options.width, group_->part(), group_->parts());
    const auto of_three = [&](std::int64_t inner) {
      return Slice{
          .outer = 3, .whole = options.width, .begin = range.begin, .count = range.count, .inner = inner};
    };
    keep_slice(qkv_->weight, 0, of_three(options.width));
    keep_slice(qkv_->bias, 0, of_three(1));
    keep_slice(proj_->weight, 1, range);
    const SliceRange wide = share_of(4 * options.width, group_->part(), group_->parts());
    keep_slice(fc1_->weight, 0, wide);
    keep_slice(fc1_->bias, 0, wide);
    keep_slice(fc2_->weight, 1, wide);
  }

  torch::Tensor mask_for(const torch::Tensor& input) const {
    if (!mask_.defined()) return mask_;
    const std::int64_t length = input.size(1);
    return on_device(mask_, input.device()).narrow(0, 0, length).narrow(1, 0, length);
  }

  TensorGroup* group_;
  std::int64_t heads_;  // on this worker
  Activation activation_;
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
  Embedding(const GptOptions& options, TensorGroup* group)
      : group_(group),
        positions_(torch::arange(options.context)),
        tok_(register_module("tok", torch::nn::Embedding(options.tokens(), options.width))),
        pos_(register_module("pos", torch::nn::Embedding(options.context, options.width))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {
    // Embeddings of unit variance would make the first logits sqrt(width) times too large.
    if (options.tied)
      torch::nn::init::normal_(tok_->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(options.width)));
    if (!group_) return;
    if (options.tokens() < group_->parts())
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("a vocabulary of {} has not a token for each of parallel.tensor {} workers; tensor "
                      "may be {} at most",
                      options.tokens(), group_->parts(), options.tokens()));
    rows_ = share_of(options.tokens(), group_->part(), group_->parts());
    keep_slice(tok_->weight, 0, rows_);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor tokens = group_ ? sliced_embedding(*group_, input, tok_->weight, rows_) : tok_(input);
    const torch::Tensor positions = on_device(positions_, input.device());
    return dropout_->forward(tokens + pos_(positions.narrow(0, 0, input.size(1))));
  }

 private:
  TensorGroup* group_;
  SliceRange rows_;          // the vocabulary rows that this worker holds
  torch::Tensor positions_;  // 0 to context - 1; not part of the state, like the mask
  torch::nn::Embedding tok_;
  torch::nn::Embedding pos_;
  std::shared_ptr<Dropout> dropout_;
};

class Head final : public Block {
 public:
  Head(const GptOptions& options, TensorGroup* group)
      : group_(group),
        ln_(register_module("ln", layer_norm(options.width))) {
    if (options.tied) return;
    const auto head = torch::nn::LinearOptions(options.width, options.vocabulary).bias(false);
    weight_ = register_module("head", torch::nn::Linear(head))->weight;
    if (group_) keep_slice(weight_, 0, share_of(options.vocabulary, group_->part(), group_->parts()));
  }

  // The token embedding also serves as the last layer. Either the embedding's block or this one holds its
  // module.
  enum class Held { kElsewhere, kHere };
  void tie(const std::shared_ptr<torch::nn::Module>& tok, Held held) {
    weight_ = tok->named_parameters()["weight"];
    if (held == Held::kElsewhere) return;
    register_module("tok", tok);
    if (group_) keep_slice(weight_, 0, share_of(weight_.size(0), group_->part(), group_->parts()));
  }
  std::vector<torch::Tensor> borrowed() const override { return {weight_}; }

  // Outputs the logits of the words that this worker holds.
  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor x = ln_(input);
    const torch::Tensor logits =
        group_ ? column_linear(*group_, x, weight_, torch::Tensor()) : torch::linear(x, weight_);
    return logits.flatten(0, 1);
  }

 private:
  TensorGroup* group_;
  torch::nn::LayerNorm ln_;
  torch::Tensor weight_;
};

std::int64_t context_option(const char* model, const OptionMap& options, const DataShape& shape) {
  const auto context = option<std::int64_t>(options, "context");
  if (context == 0) return shape.input[0];
  if (context >= shape.input[0]) return context;
  throw Error(ErrorCode::kBadInput,
              fmt::format("model '{}': option 'context' must be 0 or at least the data's length {}, found {}",
                          model, shape.input[0], context),
              {.key = "model.context"});
}

GptOptions transformer_options(const char* model, const OptionMap& options, const DataShape& shape) {
  require_tokens(model, shape);
  const GptOptions resolved{.layers = positive_option(model, options, "layers"),
                            .width = positive_option(model, options, "width"),
                            .heads = positive_option(model, options, "heads"),
                            .context = context_option(model, options, shape),
                            .vocabulary = shape.classes,
                            .dropout = dropout_option(model, options),
                            .activation = parse_activation(option<std::string>(options, "activation"))};
  if (resolved.width % resolved.heads == 0) return resolved;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("model '{}': option 'width' must be a multiple of 'heads', found width {} and {} heads",
                  model, resolved.width, resolved.heads),
      {.key = "model.width"});
}

std::shared_ptr<Block> make_head(const GptOptions& options, const BlockSite& site) {
  auto head = std::make_shared<Head>(options, site.group);
  if (!options.tied) return head;
  if (const auto children = site.network.named_children(); children.contains("tok")) {
    head->tie(children["tok"], Head::Held::kElsewhere);
    return head;
  }
  seed_block(site.seed, 0);  // a process without the embedding makes its weight again from the same seed
  head->tie(Embedding(options, nullptr).named_children()["tok"], Head::Held::kHere);
  return head;
}

Blueprint blueprint_of(const GptOptions& options) {
  Blueprint blueprint;
  blueprint.push_back(
      {"", [options](const BlockSite& site) { return std::make_shared<Embedding>(options, site.group); }});
  const auto mask = std::make_shared<torch::Tensor>();
  for (std::int64_t i = 0; i < options.layers; ++i)
    blueprint.push_back({fmt::format("blocks.{}", i), [options, mask](const BlockSite& site) {
                           if (!options.looks_ahead && !mask->defined())
                             *mask = no_look_ahead(options.context);
                           return std::make_shared<DecoderBlock>(options, *mask, site.group);
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
          {"activation", std::string("gelu"), "relu, leaky_relu, gelu, tanh, silu or elu"},
          {"tied", false, "use the token embedding as the last layer too"}};
}

Blueprint gpt_blueprint(const OptionMap& options, const DataShape& shape) {
  GptOptions resolved = transformer_options("gpt", options, shape);
  resolved.tied = option<bool>(options, "tied");
  return blueprint_of(resolved);
}

std::vector<OptionSpec> bert_options() {
  std::vector<OptionSpec> options = gpt_options();
  std::erase_if(options, [](const OptionSpec& option) { return option.name == "tied"; });
  return options;
}

Blueprint bert_blueprint(const OptionMap& options, const DataShape& shape) {
  GptOptions resolved = transformer_options("bert", options, shape);
  resolved.looks_ahead = resolved.has_mask_token = true;
  return blueprint_of(resolved);
}

}  // namespace distbelief::model
