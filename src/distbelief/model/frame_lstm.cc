#include "distbelief/model/frame_lstm.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

class FrameBlock final : public Block {
 public:
  FrameBlock(std::int64_t inputs, std::int64_t width, double dropout)
      : width_(width),
        rnn_(register_module(
            "rnn",
            torch::nn::LSTM(torch::nn::LSTMOptions(inputs, width).batch_first(true).bidirectional(true)))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(dropout))) {}
  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor zeros = zeros_for(input, width_).repeat({kDirections, 1, 1});
    return dropout_->forward(std::get<0>(rnn_->forward(input, std::make_tuple(zeros, zeros))));
  }

 private:
  static constexpr std::int64_t kDirections = 2;
  std::int64_t width_;
  torch::nn::LSTM rnn_;
  std::shared_ptr<Dropout> dropout_;
};

}  // namespace

std::vector<OptionSpec> frame_lstm_options() {
  return {{"layers", std::int64_t{1}, "layers, each in both directions"},
          {"width", std::int64_t{48}, "of each direction"},
          {"dropout", 0.0, "after each layer"}};
}

Blueprint frame_lstm_blueprint(const OptionMap& options, const DataShape& shape) {
  if (shape.tokens || shape.input.size() != 2 || shape.classes < 2)
    throw Error(ErrorCode::kBadInput,
                "model 'frame_lstm' wants frames [length, bands] and classes, found samples " +
                    to_string(shape.input) + "; choose data such as synthetic_speech");
  const std::int64_t width = positive_option("frame_lstm", options, "width");
  const double dropout = dropout_option("frame_lstm", options);
  Blueprint blueprint;
  std::int64_t inputs = shape.input[1];
  for (std::int64_t i = 0; i < positive_option("frame_lstm", options, "layers"); ++i) {
    blueprint.push_back({fmt::format("layers.{}", i), [inputs, width, dropout](const BlockSite&) {
                           return std::make_shared<FrameBlock>(inputs, width, dropout);
                         }});
    inputs = 2 * width;
  }
  blueprint.push_back({"", [inputs, classes = shape.classes](const BlockSite&) {
                         torch::nn::Sequential layers;
                         layers->push_back("head", torch::nn::Linear(inputs, classes));
                         return std::make_shared<LayerBlock>(layers);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
