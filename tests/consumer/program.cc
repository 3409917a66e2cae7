// The whole program with a network of one's own.
#include <distbelief/cli/program.h>
#include <distbelief/model/layers.h>
#include <distbelief/model/own_model.h>
#include <torch/torch.h>

struct Mine : torch::nn::Module {
  Mine(std::int64_t inputs, std::int64_t width, std::int64_t classes)
      : first(register_module("first", torch::nn::Linear(inputs, width))),
        last(register_module("last", torch::nn::Linear(width, classes))),
        drop(register_module("drop", std::make_shared<distbelief::model::Dropout>(0.1))),
        drops(register_module("drops", torch::nn::Dropout(0.1))),  // torch's own will do too
        scale(register_parameter("scale", torch::ones({classes}))) {}
  torch::Tensor forward(const torch::Tensor& batch) {
    return last(drops(drop->forward(torch::relu(first(batch.flatten(1)))))) * scale;
  }
  torch::nn::Linear first, last;
  std::shared_ptr<distbelief::model::Dropout> drop;
  torch::nn::Dropout drops;
  torch::Tensor scale;
};

int main(int argc, char** argv) {
  distbelief::register_model(
      "mine", "a network of this program", {{"width", std::int64_t{16}, "of the hidden layer"}},
      [](const distbelief::OptionMap& options, const distbelief::model::DataShape& shape) {
        return std::make_shared<Mine>(distbelief::element_count(shape.input),
                                      distbelief::option<std::int64_t>(options, "width"), shape.classes);
      });
  return distbelief::cli_main(argc, argv);
}
