#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/compute/optimizer.h"

namespace distbelief::compute {
namespace {

constexpr int kSteps = 100;
constexpr double kRate = 0.03;
using Doubles = std::vector<double>;

const std::vector<std::vector<std::int64_t>> kShapes{{1},          {7},    {16},     {33, 5},
                                                     {3, 2, 3, 3}, {1000}, {129, 31}};

OptimizerConfig named(const std::string& name) {
  OptimizerConfig config;
  config.name = name;
  config.lr = kRate;
  config.momentum = 0;
  return config;
}

// A parameter and its optimizer state in plain memory.
struct Flat {
  std::vector<float> values;
  std::vector<std::vector<float>> states;

  explicit Flat(const torch::Tensor& start, std::size_t state_count)
      : values(start.data_ptr<float>(), start.data_ptr<float>() + start.numel()),
        states(state_count, std::vector<float>(values.size())) {}

  UpdateRange range(const torch::Tensor& gradient, std::int64_t step, std::size_t begin, std::size_t end) {
    UpdateRange made;
    made.parameters = values.data() + begin;
    made.gradients = gradient.data_ptr<float>() + begin;
    for (std::size_t i = 0; i < states.size(); ++i) made.states[i] = states[i].data() + begin;
    made.count = end - begin;
    made.lr = kRate;
    made.step = step;
    return made;
  }
};

// Largest difference between our optimizer and torch's after each of 100 steps.
template <typename TorchOptimizer, typename TorchOptions>
double worst_difference(const OptimizerConfig& config, const TorchOptions& options) {
  torch::manual_seed(11);
  const auto ours = make_optimizer(config);
  std::vector<torch::Tensor> theirs;
  std::vector<Flat> flats;
  for (const auto& shape : kShapes) {
    theirs.push_back(torch::randn(shape).requires_grad_());
    flats.emplace_back(theirs.back().detach(), ours->state_names().size());
  }
  TorchOptimizer optimizer(theirs, options);
  double worst = 0;
  for (int step = 1; step <= kSteps; ++step) {
    for (auto& parameter : theirs) parameter.mutable_grad() = torch::randn(parameter.sizes());
    for (std::size_t i = 0; i < theirs.size(); ++i)
      ours->update(flats[i].range(theirs[i].grad(), step, 0, flats[i].values.size()));
    optimizer.step();
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const torch::Tensor found = torch::from_blob(flats[i].values.data(), theirs[i].sizes());
      worst = std::max(worst, (found - theirs[i].detach()).abs().max().template item<double>());
    }
  }
  return worst;
}

double sgd_difference(double momentum, bool nesterov, double weight_decay) {
  OptimizerConfig config = named("sgd");
  config.momentum = momentum;
  config.nesterov = nesterov;
  config.weight_decay = weight_decay;
  return worst_difference<torch::optim::SGD>(
      config,
      torch::optim::SGDOptions(kRate).momentum(momentum).nesterov(nesterov).weight_decay(weight_decay));
}

TEST(OptimizerTorch, PlainSgdHasTorchsBits) { EXPECT_EQ(sgd_difference(0, false, 0), 0); }
TEST(OptimizerTorch, PlainSgdWithWeightDecayHasTorchsBits) { EXPECT_EQ(sgd_difference(0, false, 0.01), 0); }
TEST(OptimizerTorch, SgdWithMomentumHasTorchsBits) { EXPECT_EQ(sgd_difference(0.9, false, 0), 0); }
TEST(OptimizerTorch, SgdWithMomentumAndWeightDecayHasTorchsBits) {
  EXPECT_EQ(sgd_difference(0.9, false, 5e-4), 0);
}
TEST(OptimizerTorch, NesterovHasTorchsBits) { EXPECT_EQ(sgd_difference(0.9, true, 0), 0); }
TEST(OptimizerTorch, NesterovWithWeightDecayHasTorchsBits) { EXPECT_EQ(sgd_difference(0.8, true, 5e-4), 0); }

TEST(OptimizerTorch, AdamStaysWithTorchs) {
  for (double weight_decay : {0.0, 0.01}) {
    OptimizerConfig config = named("adam");
    config.weight_decay = weight_decay;
    EXPECT_LT(worst_difference<torch::optim::Adam>(
                  config, torch::optim::AdamOptions(kRate).weight_decay(weight_decay)),
              1e-6);
  }
}

TEST(OptimizerTorch, AdamWStaysWithTorchs) {
  OptimizerConfig config = named("adamw");
  config.weight_decay = 0.05;
  EXPECT_LT(
      worst_difference<torch::optim::AdamW>(config, torch::optim::AdamWOptions(kRate).weight_decay(0.05)),
      1e-6);
}

TEST(OptimizerTorch, AdagradStaysWithTorchs) {
  OptimizerConfig config = named("adagrad");
  config.eps = 1e-10;
  config.weight_decay = 0.01;
  EXPECT_LT(
      worst_difference<torch::optim::Adagrad>(config, torch::optim::AdagradOptions(kRate).weight_decay(0.01)),
      1e-6);
}

double norm(const Doubles& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

struct Reference {
  Doubles values, first, second;
};

void lars_reference(Reference& r, const float* gradient, const OptimizerConfig& config) {
  const double p = norm(r.values), g = norm(Doubles(gradient, gradient + r.values.size()));
  const double trust = config.trust * p / (g + config.weight_decay * p + config.eps);
  for (std::size_t i = 0; i < r.values.size(); ++i) {
    r.first[i] =
        config.momentum * r.first[i] + kRate * trust * (gradient[i] + config.weight_decay * r.values[i]);
    r.values[i] -= r.first[i];
  }
}

void lamb_reference(Reference& r, const float* gradient, const OptimizerConfig& config, int step) {
  Doubles direction(r.values.size());
  for (std::size_t i = 0; i < direction.size(); ++i) {
    r.first[i] = config.beta1 * r.first[i] + (1 - config.beta1) * gradient[i];
    r.second[i] = config.beta2 * r.second[i] + (1 - config.beta2) * gradient[i] * gradient[i];
    const double mean = r.first[i] / (1 - std::pow(config.beta1, step));
    const double square = r.second[i] / (1 - std::pow(config.beta2, step));
    direction[i] = mean / (std::sqrt(square) + config.eps) + config.weight_decay * r.values[i];
  }
  const double trust = norm(r.values) / norm(direction);
  for (std::size_t i = 0; i < direction.size(); ++i) r.values[i] -= kRate * trust * direction[i];
}

// Compares our rule, on a parameter cut in two ranges as carriers have it, with plain double arithmetic.
double worst_against_reference(const OptimizerConfig& config, const std::vector<std::int64_t>& shape) {
  torch::manual_seed(12);
  const auto made = make_optimizer(config);
  const auto& ours = dynamic_cast<const LayerwiseOptimizer&>(*made);
  const torch::Tensor start = torch::randn(shape);
  Flat flat(start, ours.state_names().size());
  const std::size_t count = flat.values.size(), cut = count / 2;
  Reference reference{Doubles(flat.values.begin(), flat.values.end()), Doubles(count), Doubles(count)};
  double worst = 0;
  for (int step = 1; step <= kSteps; ++step) {
    const torch::Tensor gradient = torch::randn(shape);
    UpdateRange ranges[] = {flat.range(gradient, step, 0, cut), flat.range(gradient, step, cut, count)};
    const Norms left = ours.measure(ranges[0]), right = ours.measure(ranges[1]);
    const double trust = ours.trust({left.parameters + right.parameters, left.direction + right.direction});
    for (UpdateRange& range : ranges) {
      range.trust = trust;
      ours.update(range);
    }
    if (config.name == "lars")
      lars_reference(reference, gradient.data_ptr<float>(), config);
    else
      lamb_reference(reference, gradient.data_ptr<float>(), config, step);
    for (std::size_t i = 0; i < count; ++i)
      worst = std::max(worst, std::abs(reference.values[i] - flat.values[i]));
  }
  return worst;
}

TEST(OptimizerTorch, LarsStaysWithDoublePrecision) {
  OptimizerConfig config = named("lars");
  config.momentum = 0.9;
  config.weight_decay = 1e-3;
  config.trust = 0.02;
  for (const auto& shape : kShapes) EXPECT_LT(worst_against_reference(config, shape), 1e-5);
}

TEST(OptimizerTorch, LambStaysWithDoublePrecision) {
  OptimizerConfig config = named("lamb");
  config.weight_decay = 0.01;
  config.eps = 1e-6;
  for (const auto& shape : kShapes) EXPECT_LT(worst_against_reference(config, shape), 2e-5);
}

TEST(OptimizerTorch, LayerwiseRulesLeaveAZeroParameterItsPlainRate) {
  for (const char* name : {"lars", "lamb"}) {
    const auto made = make_optimizer(named(name));
    const auto& ours = dynamic_cast<const LayerwiseOptimizer&>(*made);
    EXPECT_EQ(ours.trust({.parameters = 0, .direction = 4}), 1) << name;
    EXPECT_EQ(ours.trust({.parameters = 4, .direction = 0}), 1) << name;
  }
}

TEST(OptimizerTorch, AnUnknownNameIsRefusedWithTheNearestOne) {
  try {
    make_optimizer(named("adamW2"));
    FAIL() << "no such optimizer";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("'adamw'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace distbelief::compute
