#include "distbelief/model/mlp.h"

#include <fmt/format.h>

#include "distbelief/model/layers.h"
#include "distbelief/model/placed_linear.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

struct LayerOptions {
  int index = 1;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool is_last = false;  // no activation or dropout follows
  Activation activation = Activation::kRelu;
  double dropout = 0.0;
};

// Layers alternate: one has sliced outputs, the next has sliced inputs and sums (Shoeybi et al.,
// "Megatron-LM", 2019). With samples sliced by features the first layer sums.
enum class Cut { kNot, kOutputs, kInputs };

Cut cut_of(const LayerOptions& options, const TensorGroup* group) {
  if (group == nullptr) return Cut::kNot;
  const bool sliced_input = (options.index % 2 == 0) != (group->input() == TensorGroup::Input::kSliced);
  if (sliced_input) return Cut::kInputs;
  return options.is_last ? Cut::kNot : Cut::kOutputs;
}

class DenseBlock final : public Block {
 public:
  DenseBlock(const LayerOptions& options, TensorGroup* group)
      : options_(options),
        group_(group),
        cut_(cut_of(options, group)) {
    if (options.index == 1) register_module("flatten", torch::nn::Flatten());
    fc_ = register_module(name("fc"), torch::nn::Linear(options.inputs, options.outputs));
    if (!options.is_last) {
      act_ = register_module(name("act"), std::make_shared<Activate>(options.activation));
      drop_ = register_module(name("drop"), std::make_shared<Dropout>(options.dropout));
    }
    if (cut_ == Cut::kOutputs) {
      range_ = even_share(layer(), options.outputs, *group_);
      keep_slice(fc_->weight, 0, range_);
      keep_slice(fc_->bias, 0, range_);
    } else if (cut_ == Cut::kInputs) {
      keep_slice(fc_->weight, 1, even_share(layer(), options.inputs, *group_));
    }
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = linear(options_.index == 1 ? input.flatten(1) : input);
    if (options_.is_last) return x;
    x = act_->forward(std::move(x));
    return cut_ == Cut::kOutputs ? drop_->forward_slice(std::move(x), range_, options_.outputs)
                                 : drop_->forward(std::move(x));
  }

 private:
  std::string name(const char* kind) const { return fmt::format("{}{}", kind, options_.index); }
  std::string layer() const { return fmt::format("layer {} of model 'mlp'", name("fc")); }

  torch::Tensor linear(const torch::Tensor& input) {
    if (cut_ == Cut::kOutputs) return column_linear(*group_, input, fc_->weight, fc_->bias);
    if (cut_ == Cut::kInputs) return row_linear(*group_, input, fc_->weight, fc_->bias);
    return placed_linear(input, fc_->weight, fc_->bias);
  }

  LayerOptions options_;
  TensorGroup* group_;
  Cut cut_;
  SliceRange range_;  // this worker's outputs
  torch::nn::Linear fc_{nullptr};
  std::shared_ptr<Activate> act_;
  std::shared_ptr<Dropout> drop_;
};

}  // namespace

std::vector<OptionSpec> mlp_options() {
  return {{"hidden", std::vector<std::int64_t>{128}, "widths of the hidden layers"},
          {"activation", std::string("relu"), "relu, leaky_relu, gelu, tanh, silu or elu"},
          {"dropout", 0.0, "probability of dropping a hidden unit"}};
}

Blueprint mlp_blueprint(const OptionMap& options, const DataShape& shape) {
  require_dense("mlp", shape);
  LayerOptions layer{.index = 1,
                     .inputs = element_count(shape.input),
                     .activation = parse_activation(option<std::string>(options, "activation")),
                     .dropout = dropout_option("mlp", options)};
  Blueprint blueprint;
  const auto add = [&](std::int64_t outputs) {
    layer.outputs = outputs;
    blueprint.push_back({"layers", [layer](const BlockSite& site) {
                           return std::make_shared<DenseBlock>(layer, site.group);
                         }});
    layer.inputs = outputs;
    ++layer.index;
  };
  for (const std::int64_t width : positive_list_option("mlp", options, "hidden")) add(width);
  layer.is_last = true;
  add(shape.outputs());
  return blueprint;
}

}  // namespace distbelief::model
