#include "distbelief/model/mlp.h"

#include <fmt/format.h>

#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {

std::vector<OptionSpec> mlp_options() {
  return {{"hidden", std::vector<std::int64_t>{128}, "widths of the hidden layers"},
          {"activation", std::string("relu"), "relu, leaky_relu, gelu, tanh, silu or elu"},
          {"dropout", 0.0, "probability of dropping a hidden unit"}};
}

Blueprint mlp_blueprint(const OptionMap& options, const DataShape& shape) {
  require_images("mlp", shape);
  const auto hidden = positive_list_option("mlp", options, "hidden");
  const Activation activation = parse_activation(option<std::string>(options, "activation"));
  const double dropout = dropout_option("mlp", options);

  Blueprint blueprint;
  std::int64_t width = element_count(shape.input);
  int index = 1;
  for (std::int64_t next : hidden) {
    const DenseOptions dense{
        .index = index++, .inputs = width, .outputs = next, .activation = activation, .dropout = dropout};
    blueprint.push_back({"layers", [dense](const BlockSite&) {
                           torch::nn::Sequential layers;
                           if (dense.index == 1) layers->push_back("flatten", torch::nn::Flatten());
                           append_dense(layers, dense);
                           return std::make_shared<LayerBlock>(layers);
                         }});
    width = next;
  }
  blueprint.push_back({"layers", [=, classes = shape.classes](const BlockSite&) {
                         torch::nn::Sequential layers;
                         if (index == 1) layers->push_back("flatten", torch::nn::Flatten());
                         layers->push_back(fmt::format("fc{}", index), torch::nn::Linear(width, classes));
                         return std::make_shared<LayerBlock>(layers);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
