#include "distbelief/model/registry.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/model/actor_critic.h"
#include "distbelief/model/autoencoder.h"
#include "distbelief/model/cnn.h"
#include "distbelief/model/dcgan.h"
#include "distbelief/model/fbnet.h"
#include "distbelief/model/fbnet_search.h"
#include "distbelief/model/frame_lstm.h"
#include "distbelief/model/gpt.h"
#include "distbelief/model/lenet.h"
#include "distbelief/model/mlp.h"
#include "distbelief/model/own_model.h"
#include "distbelief/model/recurrent.h"
#include "distbelief/model/requirements.h"
#include "distbelief/model/resnet.h"
#include "distbelief/model/tables.h"
#include "distbelief/model/torchscript.h"
#include "distbelief/model/tree_lstm.h"
#include "distbelief/model/unet.h"
#include "distbelief/model/wide_and_deep.h"
#include "distbelief/model/wide_resnet.h"

namespace distbelief::model {
namespace {

template <int kDepth>
ModelEntry resnet_entry() {
  return {fmt::format("resnet{}", kDepth),
          fmt::format("residual network of {} layers, named as in torchvision", kDepth),
          resnet_options(),
          DataShape{.tokens = false, .input = {3, 224, 224}, .classes = 1000},
          DataShape{.tokens = false, .input = {3, 32, 32}, .classes = 10},
          [](const OptionMap& options, const DataShape& shape) {
            return resnet_blueprint(kDepth, options, shape);
          },
          false,
          ""};
}

}  // namespace

namespace {

// Blueprints of models that a program registered; their functions may have state.
std::map<std::string, OwnBlueprint>& own_blueprints() {
  static std::map<std::string, OwnBlueprint> all;
  return all;
}

std::vector<ModelEntry>& table_of_models() {
  static const DataShape digits{.tokens = false, .input = {1, 28, 28}, .classes = 10};
  static const DataShape text{.tokens = true, .input = {128}, .classes = 256};
  static const DataShape small{.tokens = false, .input = {3, 32, 32}, .classes = 10};
  static const DataShape shapes{.tokens = false, .input = {1, 32, 32}, .classes = 4};
  static const DataShape frames{.tokens = false, .input = {48, 8}, .classes = 7};
  static const DataShape trees{.tokens = true, .input = {15, 2}, .classes = 2};
  static const DataShape state{.tokens = false, .input = {4}, .classes = 2};
  static const DataShape rows{.tokens = false, .input = {16}, .classes = 2};
  static const DataShape embedded{.tokens = false, .input = {128}, .classes = 2};
  static std::vector<ModelEntry> table = {
      {"mlp", "fully connected layers", mlp_options(), digits, digits, mlp_blueprint, true},
      {"cnn", "convolutions and max-pools, then fully connected layers", cnn_options(), digits, digits,
       cnn_blueprint, false},
      {"lenet", "LeNet-5: two convolutions with average pools, three fully connected layers", lenet_options(),
       digits, digits, lenet_blueprint, false},
      {"wide_resnet", "wide residual network of pre-activated blocks", wide_resnet_options(), small, small,
       wide_resnet_blueprint, false},
      resnet_entry<18>(),
      resnet_entry<34>(),
      resnet_entry<50>(),
      resnet_entry<101>(),
      resnet_entry<152>(),
      {"gpt", "decoder of pre-norm transformer blocks, for tokens", gpt_options(), text, text, gpt_blueprint,
       false},
      {"torchscript", "a network exported from Python: [model] file = \"net.pt\"", torchscript_options(),
       digits, digits, torchscript_blueprint, false},
      {"bert", "encoder of pre-norm transformer blocks, for masked tokens", bert_options(), text, text,
       bert_blueprint, false, "masked_tokens"},
      {"lstm", "LSTM language model; may carry its state from step to step", recurrent_options(), text, text,
       lstm_blueprint, false, "", "state.rows"},
      {"gru", "GRU language model; may carry its state from step to step", recurrent_options(), text, text,
       gru_blueprint, false, "", "state.rows"},
      {"frame_lstm", "LSTM in both directions over frames, for labels in order (ctc)", frame_lstm_options(),
       frames, frames, frame_lstm_blueprint, false, "ctc"},
      {"tree_lstm", "child-sum LSTM on trees", tree_lstm_options(), trees, trees, tree_lstm_blueprint, false},
      {"autoencoder", "encoder and decoder around a narrow code, dense or of convolutions",
       autoencoder_options(), digits, digits, autoencoder_blueprint, false, "autoencoder"},
      {"vae", "variational autoencoder, dense or of convolutions", vae_options(), digits, digits,
       vae_blueprint, false, "vae"},
      {"unet", "U-Net: the class of each pixel", unet_options(), shapes, shapes, unet_blueprint, false,
       "segmentation"},
      {"wide_and_deep", "linear model of features and their products beside fully connected layers",
       wide_and_deep_options(), rows, rows, wide_and_deep_blueprint, false},
      {"actor_critic", "policy and value of an environment", actor_critic_options(), state, state,
       actor_critic_blueprint, false, "actor_critic", "worlds.rows"},
      {"fbnet", "inverted residual blocks with convolutions in groups, as a search has chosen them",
       fbnet_options(), small, small, fbnet_blueprint, false},
      {"fbnet_search", "all candidates of an fbnet's layers, to choose among by loss and latency",
       fbnet_search_options(), small, small, fbnet_search_blueprint, false, "architecture_search",
       "choices.temperature"},
      {"click_through", "fully connected layers on rows of a table, which parameter servers keep",
       click_through_options(), embedded, embedded, click_through_blueprint, false, "click_through"},
      {"word2vec", "vectors of words from the words around them; rows of two tables on parameter servers",
       word2vec_options(), embedded, embedded, word2vec_blueprint, false, "skip_gram"},
      {"dcgan", "generator and discriminator of images", dcgan_options(), digits, digits, dcgan_blueprint,
       false, "gan"},
  };
  return table;
}

}  // namespace

const std::vector<ModelEntry>& models() { return table_of_models(); }

void register_model(ModelEntry entry, OwnBlueprint blueprint) {
  for (const ModelEntry& known : models())
    if (known.name == entry.name)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("there is a model '{}' already; choose another name", entry.name));
  own_blueprints().emplace(entry.name, std::move(blueprint));
  entry.blueprint = nullptr;
  table_of_models().push_back(std::move(entry));
}

const ModelEntry& find_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelEntry& entry : models()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw unknown_name("model", "model.name", name, names);
}

bool is_training_state(const ModelEntry& entry, const std::string& tensor) {
  return !entry.training_state.empty() && tensor.ends_with(entry.training_state);
}

OptionMap resolved_options(const ModelConfig& config) {
  const ModelEntry& entry = find_model(config.name);
  return resolve_options(fmt::format("model '{}'", entry.name), entry.options, config.options);
}

Blueprint model_blueprint(const ModelConfig& config, const DataShape& shape) {
  const ModelEntry& entry = find_model(config.name);
  const OptionMap options = resolved_options(config);
  return entry.blueprint != nullptr ? entry.blueprint(options, shape)
                                    : own_blueprints().at(entry.name)(options, shape);
}

std::shared_ptr<Network> build_blocks(const ModelConfig& config, const DataShape& shape, BlockRange range,
                                      std::uint64_t seed, const torch::Device& device) {
  try {
    Blueprint blueprint = model_blueprint(config, shape);
    compute_on(device, blueprint);
    return std::make_shared<Network>(blueprint, range, seed);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kInternal, fmt::format("torch could not build model '{}': {}", config.name,
                                                  error.what_without_backtrace()));
  }
}

std::shared_ptr<Network> build_model(const ModelConfig& config, const DataShape& shape, std::uint64_t seed,
                                     const torch::Device& device) {
  return build_blocks(config, shape, {0, int(model_blueprint(config, shape).size())}, seed, device);
}

}  // namespace distbelief::model
