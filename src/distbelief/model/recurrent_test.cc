#include "distbelief/model/recurrent.h"

#include <gtest/gtest.h>

#include "distbelief/model/lane_place.h"
#include "distbelief/model/registry.h"

namespace distbelief::model {
namespace {

constexpr std::int64_t kPlaces = 5, kTokensEach = 7, kWords = 11;

using Buffers = std::vector<torch::Tensor>;
enum class Begin { kFresh, kCarried };

// A network whose lanes take steps as in training: each starts with the buffers from before the step, and the
// step leaves their mean.
class CarryingNetwork {
 public:
  explicit CarryingNetwork(const std::string& model)
      : network_(build_model(
            {model,
             {{"layers", std::int64_t{2}}, {"width", std::int64_t{6}}, {"streams", std::int64_t{kPlaces}}}},
            {.tokens = true, .input = {kTokensEach}, .classes = kWords}, 3)) {}

  // One row of outputs for each token of each sample.
  torch::Tensor step(const torch::Tensor& tokens, const std::vector<std::int64_t>& lanes, Begin begin) {
    const torch::NoGradGuard no_grad;
    const Buffers before = copied();
    Buffers mean = copied();
    for (torch::Tensor& buffer : mean) buffer.zero_();
    std::vector<torch::Tensor> outputs;
    std::int64_t first = 0;
    for (const std::int64_t samples : lanes) {
      put(before);
      const LanePlaceScope place(
          {.first = first, .filled_lanes = std::int64_t(lanes.size()), .fresh = begin == Begin::kFresh});
      outputs.push_back(network_->forward(tokens.narrow(0, first, samples)).view({samples, -1, kWords}));
      const Buffers left = copied();
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += left[i] / double(lanes.size());
      first += samples;
    }
    put(mean);
    return torch::cat(outputs);
  }

  Buffers copied() const {
    Buffers copies;
    for (const torch::Tensor& buffer : network_->buffers()) copies.push_back(buffer.clone());
    return copies;
  }
  void put(const Buffers& values) {
    const Buffers own = network_->buffers();
    for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(values[i]);
  }

 private:
  std::shared_ptr<Network> network_;
};

class CarriedRows : public ::testing::TestWithParam<const char*> {
 protected:
  const torch::Tensor tokens_ =
      torch::arange(kPlaces * 2 * kTokensEach).mul(7).remainder(kWords).view({kPlaces, 2 * kTokensEach});
  const torch::Tensor first_ = tokens_.narrow(1, 0, kTokensEach),
                      second_ = tokens_.narrow(1, kTokensEach, kTokensEach);
};

TEST_P(CarriedRows, AreTheStateAfterAllThatTheirPlaceHasRead) {
  CarryingNetwork whole(GetParam());
  const torch::Tensor wanted = whole.step(tokens_, {kPlaces}, Begin::kFresh);
  for (const std::vector<std::int64_t>& lanes : {std::vector<std::int64_t>{5}, {3, 2}, {2, 1, 2}}) {
    CarryingNetwork carried(GetParam());
    const torch::Tensor first = carried.step(first_, lanes, Begin::kFresh),
                        second = carried.step(second_, lanes, Begin::kCarried);
    EXPECT_TRUE(torch::allclose(torch::cat({first, second}, 1), wanted, 1e-5, 1e-6)) << lanes.size();
    const Buffers rows = carried.copied(), all = whole.copied();
    ASSERT_EQ(rows.size(), 2U);
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_TRUE(torch::allclose(rows[i], all[i], 1e-5, 1e-6)) << "layer " << i;
  }
}

TEST_P(CarriedRows, BelongToTheirPlace) {
  CarryingNetwork whole(GetParam()), carried(GetParam()), fresh(GetParam());
  const torch::Tensor wanted =
      whole.step(tokens_, {kPlaces}, Begin::kFresh).narrow(1, kTokensEach, kTokensEach);
  carried.step(first_, {3, 2}, Begin::kFresh);
  Buffers moved = carried.copied();
  for (torch::Tensor& rows : moved) rows = rows.roll(1, 0);
  carried.put(moved);
  EXPECT_FALSE(torch::allclose(carried.step(second_, {3, 2}, Begin::kCarried), wanted, 1e-3, 1e-3));
  EXPECT_FALSE(torch::allclose(fresh.step(second_, {3, 2}, Begin::kFresh), wanted, 1e-3, 1e-3));
}

TEST_P(CarriedRows, AreOfNoUseToValidationWhichReadsItsSamplesOn) {
  const torch::NoGradGuard no_grad;
  const auto build = [](std::int64_t streams) {
    auto network = build_model(
        {GetParam(), {{"layers", std::int64_t{2}}, {"width", std::int64_t{6}}, {"streams", streams}}},
        {.tokens = true, .input = {kTokensEach}, .classes = kWords}, 3);
    network->eval();
    return network;
  };
  const torch::Tensor samples = tokens_.view({2 * kPlaces, kTokensEach});
  const torch::Tensor whole = build(0)->forward(tokens_.view({1, -1})), apart = build(0)->forward(samples);
  const auto carrying = build(kPlaces);
  EXPECT_TRUE(torch::allclose(carrying->forward(samples), apart, 1e-5, 1e-6)) << "whoever else asks";
  const SamplesInOrderScope in_order;
  EXPECT_TRUE(torch::allclose(carrying->forward(samples), whole, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(build(0)->forward(samples), apart, 1e-5, 1e-6)) << "nothing is carried";
  EXPECT_FALSE(torch::allclose(whole, apart, 1e-3, 1e-3));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CarriedRows, ::testing::Values("lstm", "gru"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace distbelief::model
