#include "distbelief/model/placed_linear.h"

#include <gtest/gtest.h>

#include <vector>

namespace distbelief::model {
namespace {

struct Layer {
  torch::Tensor input = torch::randn({5, 7}).requires_grad_(), weight = torch::randn({3, 7}).requires_grad_(),
                bias = torch::randn({3}).requires_grad_();
  torch::Tensor wanted = torch::linear(input, weight, bias);

  std::vector<torch::Tensor> leaves() const { return {input, weight, bias}; }
  std::vector<torch::Tensor> wanted_gradients() const {
    return torch::autograd::grad({wanted.pow(2).sum()}, leaves());
  }
};

class OnePlace final : public GradientPlaces {
 public:
  explicit OnePlace(torch::Tensor parameter)
      : parameter_(std::move(parameter)),
        values(std::size_t(parameter_.numel()), -1.0F) {}
  float* take(const torch::Tensor& parameter) override {
    return parameter.is_same(parameter_) ? values.data() : nullptr;
  }

 private:
  torch::Tensor parameter_;

 public:
  std::vector<float> values;
};

TEST(PlacedLinear, HasTorchsBitsWithoutPlaces) {
  torch::manual_seed(1);
  const Layer layer;
  const torch::Tensor found = placed_linear(layer.input, layer.weight, layer.bias);
  EXPECT_TRUE(found.equal(layer.wanted));
  const auto gradients = torch::autograd::grad({found.pow(2).sum()}, layer.leaves());
  const auto wanted = layer.wanted_gradients();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(gradients[i].equal(wanted[i])) << i;
}

TEST(PlacedLinear, WritesTheWeightsGradientToItsPlaceAndNoneToAutograd) {
  torch::manual_seed(1);
  const Layer layer;
  const auto wanted = layer.wanted_gradients();
  OnePlace place(layer.weight);
  {
    const GradientPlacesScope scope(&place);
    placed_linear(layer.input, layer.weight, layer.bias).pow(2).sum().backward();
  }
  EXPECT_FALSE(layer.weight.grad().defined());
  EXPECT_TRUE(torch::tensor(place.values).view_as(layer.weight).equal(wanted[1]));
  EXPECT_TRUE(layer.input.grad().equal(wanted[0]));
  EXPECT_TRUE(layer.bias.grad().equal(wanted[2]));
  placed_linear(layer.input, layer.weight, layer.bias).pow(2).sum().backward();
  EXPECT_TRUE(layer.weight.grad().equal(wanted[1])) << "the scope is over";
}

TEST(PlacedLinear, KeepsTheGradientWhereGradientsOfItAreWanted) {
  torch::manual_seed(1);
  const Layer layer;
  OnePlace place(layer.weight);
  const GradientPlacesScope scope(&place);
  const auto gradients =
      torch::autograd::grad({placed_linear(layer.input, layer.weight, layer.bias).pow(2).sum()},
                            layer.leaves(), {}, /*retain_graph=*/true, /*create_graph=*/true);
  EXPECT_TRUE(gradients[1].requires_grad());
  EXPECT_EQ(place.values, std::vector<float>(place.values.size(), -1.0F));
}

TEST(PlacedLinear, LeavesTheFirstLayersInputAlone) {
  torch::manual_seed(1);
  const Layer layer;
  const torch::Tensor pixels = torch::randn({5, 7});
  placed_linear(pixels, layer.weight, layer.bias).sum().backward();
  EXPECT_FALSE(pixels.grad().defined());
  EXPECT_TRUE(layer.weight.grad().equal(torch::ones({3, 5}).mm(pixels)));
}

}  // namespace
}  // namespace distbelief::model
