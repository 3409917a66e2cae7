#include "distbelief/model/recurrent.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/lane_place.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

struct RecurrentOptions {
  std::int64_t width = 0;
  std::int64_t streams = 0;
  double dropout = 0.0;
};

class TokenBlock final : public Block {
 public:
  TokenBlock(std::int64_t vocabulary, const RecurrentOptions& options)
      : tok_(register_module("tok", torch::nn::Embedding(vocabulary, options.width))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {}
  torch::Tensor forward(torch::Tensor input) override { return dropout_->forward(tok_(input)); }

 private:
  torch::nn::Embedding tok_;
  std::shared_ptr<Dropout> dropout_;
};

// The state of every batch place, as a module because a block's own buffers are not registered in the
// network.
class CarriedState final : public torch::nn::Module {
 public:
  CarriedState(std::int64_t streams, std::int64_t width)
      : rows_(streams > 0 ? register_buffer("rows", torch::zeros({streams, width})) : torch::Tensor()) {}

  // Whether the block carries state in training and the present samples are consecutive too. (The block
  // itself is not told of the network's mode.)
  bool reads_on() const { return rows_.defined() && !is_training() && samples_are_in_order(); }
  // The state of this lane's samples; undefined when nothing is carried.
  torch::Tensor take(std::int64_t samples) const {
    const LanePlace* place = carrying();
    if (place == nullptr || place->fresh) return {};
    return own_rows(*place, samples).clone();
  }
  void leave(const torch::Tensor& state) {
    const LanePlace* place = carrying();
    if (place == nullptr) return;
    const torch::NoGradGuard no_grad;
    rows_.zero_();
    own_rows(*place, state.size(0)).copy_(state.detach() * double(place->filled_lanes));
  }

 private:
  const LanePlace* carrying() const { return rows_.defined() && is_training() ? current_lane() : nullptr; }
  torch::Tensor own_rows(const LanePlace& place, std::int64_t samples) const {
    if (place.first + samples <= rows_.size(0)) return rows_.narrow(0, place.first, samples);
    throw Error(ErrorCode::kBadInput,
                fmt::format("the network carries the state of {} streams, but a step has "
                            "{} samples or more; set model.streams = train.batch_size",
                            rows_.size(0), place.first + samples));
  }
  torch::Tensor rows_;
};

// `Layer` is torch's; `kStates` counts the carried tensors: output and cell for an LSTM, output for a GRU.
template <typename Layer, typename LayerOptions, std::int64_t kStates>
class RecurrentBlock final : public Block {
 public:
  explicit RecurrentBlock(const RecurrentOptions& options)
      : width_(options.width),
        layer_(register_module("rnn", Layer(LayerOptions(options.width, options.width).batch_first(true)))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))),
        state_(register_module("state",
                               std::make_shared<CarriedState>(options.streams, kStates * options.width))) {}

  torch::Tensor forward(torch::Tensor input) override {
    if (state_->reads_on()) return read_on(input);
    const torch::Tensor carried = on_device(state_->take(input.size(0)), input.device());
    return dropout_->forward(run(input, carried.defined() ? carried : zeros_for(input, kStates * width_)));
  }

 private:
  // Without learning there is no truncation: reads the samples as one long sequence.
  torch::Tensor read_on(const torch::Tensor& input) {
    const torch::Tensor whole = input.reshape({1, -1, width_});
    return run(whole, zeros_for(whole, kStates * width_)).view(input.sizes());
  }
  torch::Tensor part(const torch::Tensor& state, std::int64_t index) const {
    return state.narrow(1, index * width_, width_).unsqueeze(0).contiguous();
  }
  torch::Tensor run(const torch::Tensor& input, const torch::Tensor& state) {
    if constexpr (kStates == 2) {
      auto [output, left] = layer_->forward(input, std::make_tuple(part(state, 0), part(state, 1)));
      state_->leave(torch::cat({std::get<0>(left)[0], std::get<1>(left)[0]}, 1));
      return output;
    } else {
      auto [output, left] = layer_->forward(input, part(state, 0));
      state_->leave(left[0]);
      return output;
    }
  }

  std::int64_t width_;
  Layer layer_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<CarriedState> state_;
};

using LstmBlock = RecurrentBlock<torch::nn::LSTM, torch::nn::LSTMOptions, 2>;
using GruBlock = RecurrentBlock<torch::nn::GRU, torch::nn::GRUOptions, 1>;

class VocabularyBlock final : public Block {
 public:
  VocabularyBlock(std::int64_t width, std::int64_t vocabulary)
      : head_(register_module("head", torch::nn::Linear(width, vocabulary))) {}
  torch::Tensor forward(torch::Tensor input) override { return head_(input.flatten(0, 1)); }

 private:
  torch::nn::Linear head_;
};

template <typename Layer>
Blueprint recurrent_blueprint(const char* model, const OptionMap& options, const DataShape& shape) {
  require_tokens(model, shape);
  const auto streams = option<std::int64_t>(options, "streams");
  if (streams < 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model '{}': option 'streams' must be 0 or more, found {}", model, streams),
                {.key = "model.streams"});
  const RecurrentOptions resolved{.width = positive_option(model, options, "width"),
                                  .streams = streams,
                                  .dropout = dropout_option(model, options)};
  Blueprint blueprint;
  blueprint.push_back({"", [resolved, vocabulary = shape.classes](const BlockSite&) {
                         return std::make_shared<TokenBlock>(vocabulary, resolved);
                       }});
  for (std::int64_t i = 0; i < positive_option(model, options, "layers"); ++i)
    blueprint.push_back({fmt::format("layers.{}", i),
                         [resolved](const BlockSite&) { return std::make_shared<Layer>(resolved); }});
  blueprint.push_back({"", [width = resolved.width, vocabulary = shape.classes](const BlockSite&) {
                         return std::make_shared<VocabularyBlock>(width, vocabulary);
                       }});
  return blueprint;
}

}  // namespace

std::vector<OptionSpec> recurrent_options() {
  return {{"layers", std::int64_t{2}, "recurrent layers"},
          {"width", std::int64_t{128}, "of the embedding and the layers"},
          {"streams", std::int64_t{0},
           "carry state from step to step for so many places of a batch: train.batch_size, with data.order = "
           "\"streams\"; 0: every sample starts from zero"},
          {"dropout", 0.0, "after the embedding and each layer"}};
}

Blueprint lstm_blueprint(const OptionMap& options, const DataShape& shape) {
  return recurrent_blueprint<LstmBlock>("lstm", options, shape);
}

Blueprint gru_blueprint(const OptionMap& options, const DataShape& shape) {
  return recurrent_blueprint<GruBlock>("gru", options, shape);
}

}  // namespace distbelief::model
