#include "distbelief/model/registry.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/cnn.h"
#include "distbelief/model/gpt.h"
#include "distbelief/model/mlp.h"
#include "distbelief/model/requirements.h"
#include "distbelief/model/resnet.h"

namespace distbelief::model {
namespace {

template <int kDepth>
ModelEntry resnet_entry() {
  return {
      fmt::format("resnet{}", kDepth),
      fmt::format("residual network of {} layers, named as in torchvision", kDepth),
      resnet_options(),
      DataShape{.tokens = false, .input = {3, 224, 224}, .classes = 1000},
      DataShape{.tokens = false, .input = {3, 32, 32}, .classes = 10},
      [](const OptionMap& options, const DataShape& shape) { return build_resnet(kDepth, options, shape); }};
}

}  // namespace

const std::vector<ModelEntry>& models() {
  static const DataShape digits{.tokens = false, .input = {1, 28, 28}, .classes = 10};
  static const DataShape text{.tokens = true, .input = {128}, .classes = 256};
  static const std::vector<ModelEntry> table = {
      {"mlp", "fully connected layers", mlp_options(), digits, digits, build_mlp},
      {"cnn", "convolutions and max-pools, then fully connected layers", cnn_options(), digits, digits,
       build_cnn},
      resnet_entry<18>(),
      resnet_entry<34>(),
      resnet_entry<50>(),
      resnet_entry<101>(),
      resnet_entry<152>(),
      {"gpt", "decoder of pre-norm transformer blocks, for tokens", gpt_options(), text, text, build_gpt},
  };
  return table;
}

const ModelEntry& find_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelEntry& entry : models()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw unknown_name("model", name, names);
}

std::shared_ptr<Network> build_model(const ModelConfig& config, const DataShape& shape, std::uint64_t seed) {
  const ModelEntry& entry = find_model(config.name);
  const OptionMap options =
      resolve_options(fmt::format("model '{}'", entry.name), entry.options, config.options);
  torch::manual_seed(seed);
  try {
    return entry.build(options, shape);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kInternal, fmt::format("torch could not build model '{}': {}", entry.name,
                                                  error.what_without_backtrace()));
  }
}

}  // namespace distbelief::model
