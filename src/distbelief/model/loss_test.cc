#include "distbelief/model/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "distbelief/base/error.h"

namespace distbelief::model {
namespace {

const torch::Tensor& two_outputs() {
  static const torch::Tensor outputs = torch::tensor({{1.0, 2.0, 0.5}, {-1.0, 0.0, 3.0}}, torch::kFloat64);
  return outputs;
}

torch::Tensor two_targets() { return torch::tensor({1, 0}, torch::kInt64); }

double loss_of(const std::string& name, double label_smoothing = 0.0) {
  return find_loss(name).sum(two_outputs(), two_targets(), label_smoothing).item<double>();
}

double first_normaliser() { return std::log(std::exp(1.0) + std::exp(2.0) + std::exp(0.5)); }
double second_normaliser() { return std::log(std::exp(-1.0) + std::exp(0.0) + std::exp(3.0)); }

TEST(Loss, CrossEntropySumsOverSamples) {
  EXPECT_NEAR(loss_of("cross_entropy"), (first_normaliser() - 2.0) + (second_normaliser() + 1.0), 1e-12);
}

TEST(Loss, CrossEntropySpreadsSmoothedLabelsOverAllClasses) {
  const double hard = (first_normaliser() - 2.0) + (second_normaliser() + 1.0);
  const double uniform = (first_normaliser() - 3.5 / 3) + (second_normaliser() - 2.0 / 3);
  EXPECT_NEAR(loss_of("cross_entropy", 0.1), 0.9 * hard + 0.1 * uniform, 1e-12);
}

TEST(Loss, NllTakesTheOutputAsLogProbabilities) { EXPECT_NEAR(loss_of("nll"), -2.0 + 1.0, 1e-12); }

TEST(Loss, MseIsAgainstOneHotAndMeansOverClasses) {
  const double first = 1.0 * 1.0 + 1.0 * 1.0 + 0.5 * 0.5;
  const double second = 2.0 * 2.0 + 0.0 + 3.0 * 3.0;
  EXPECT_NEAR(loss_of("mse"), (first + second) / 3, 1e-12);
}

TEST(Loss, TargetsOfTokensMayKeepTheirShape) {
  const torch::Tensor outputs = torch::rand({6, 5}, torch::kFloat64);
  const torch::Tensor targets = torch::tensor({{0, 1, 2}, {3, 4, 0}}, torch::kInt64);
  for (const LossEntry& loss : losses()) {
    SCOPED_TRACE(loss.name);
    EXPECT_EQ(loss.sum(outputs, targets, 0.0).item<double>(),
              loss.sum(outputs, targets.flatten(), 0.0).item<double>());
  }
}

TEST(Loss, UnknownNameIsRefusedWithTheNearest) {
  try {
    find_loss("cross_entrpy");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("did you mean 'cross_entropy'"), std::string::npos) << error.message();
  }
}

TEST(Loss, LabelSmoothingIsRefusedOutOfRangeOrWhereALossLacksIt) {
  TrainConfig config;
  config.label_smoothing = 0.1;
  EXPECT_EQ(find_loss(config).name, "cross_entropy");
  config.loss = "mse";
  EXPECT_THROW(find_loss(config), Error);
  config.label_smoothing = 0.0;
  EXPECT_EQ(find_loss(config).name, "mse");
  config.loss = "cross_entropy";
  for (double wrong : {-0.1, 1.0, std::nan("")}) {
    config.label_smoothing = wrong;
    EXPECT_THROW(find_loss(config), Error) << wrong;
  }
}

}  // namespace
}  // namespace distbelief::model
