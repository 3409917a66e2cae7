#include "distbelief/elastic/state_archive.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/run/state_file.h"

namespace distbelief::elastic {
namespace {

torch::nn::Sequential make_net(int hidden = 8) {
  return torch::nn::Sequential(torch::nn::Linear(4, hidden), torch::nn::BatchNorm1d(hidden),
                               torch::nn::Dropout(0.3), torch::nn::Linear(hidden, 1));
}

void take_step(torch::nn::Sequential& net, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  torch::mse_loss(net->forward(torch::randn({6, 4})), torch::ones({6, 1})).backward();
  optimizer.step();
}

std::string all_bits(torch::nn::Sequential& net) {
  std::string bits = run::weights_sha256(*net);
  for (const torch::Tensor& buffer : net->buffers()) bits += " " + torch::str(buffer);
  return bits;
}

class StateArchiveTest : public ::testing::Test {
 protected:
  template <typename Optimizer, typename Options>
  void expect_same_bits_after_a_restart(const Options& options) {
    torch::manual_seed(3);
    torch::nn::Sequential net = make_net();
    Optimizer optimizer(net->parameters(), options);
    for (int i = 0; i < 3; ++i) take_step(net, optimizer);
    const std::string bytes =
        write_state(*net, *state_of(optimizer), {.epoch = 1, .batch = 2, .step = 3}, gather_random(world_));
    for (int i = 0; i < 3; ++i) take_step(net, optimizer);

    torch::manual_seed(77);
    torch::nn::Sequential other = make_net();
    Optimizer fresh(other->parameters(), options);
    const Position position = read_state(bytes, world_, *other, *state_of(fresh));
    EXPECT_EQ(position.epoch, 1);
    EXPECT_EQ(position.batch, 2);
    EXPECT_EQ(position.step, 3);
    for (int i = 0; i < 3; ++i) take_step(other, fresh);
    EXPECT_EQ(all_bits(other), all_bits(net));
  }

  World world_ = World::create();
};

TEST_F(StateArchiveTest, BringsBackSgdWithMomentum) {
  expect_same_bits_after_a_restart<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9));
}
TEST_F(StateArchiveTest, BringsBackAdam) {
  expect_same_bits_after_a_restart<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true));
}
TEST_F(StateArchiveTest, BringsBackAdamW) {
  expect_same_bits_after_a_restart<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01));
}
TEST_F(StateArchiveTest, BringsBackAdagrad) {
  expect_same_bits_after_a_restart<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01).lr_decay(0.1));
}
TEST_F(StateArchiveTest, BringsBackRmsprop) {
  expect_same_bits_after_a_restart<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).momentum(0.5));
}

TEST_F(StateArchiveTest, BringsBackALearningRateThatAScheduleHasSet) {
  torch::nn::Sequential net = make_net();
  torch::optim::SGD optimizer(net->parameters(), 0.5);
  optimizer.param_groups()[0].options().set_lr(0.125);
  const std::string bytes = write_state(*net, *state_of(optimizer), {}, gather_random(world_));
  torch::optim::SGD fresh(net->parameters(), 0.5);
  read_state(bytes, world_, *net, *state_of(fresh));
  EXPECT_EQ(fresh.param_groups()[0].options().get_lr(), 0.125);
}

TEST_F(StateArchiveTest, BringsBackOurOwnOptimizer) {
  const auto train = [&](DataParallel& parallel, torch::nn::Sequential& net) {
    for (int i = 0; i < 3; ++i) {
      parallel.backward(torch::mse_loss(net->forward(torch::randn({6, 4})), torch::ones({6, 1})));
      parallel.step();
    }
  };
  const DataParallel::Options options{.optimizer = {.name = "adamw", .lr = 0.01}};
  torch::nn::Sequential net = make_net();
  DataParallel parallel(world_, net.ptr(), options);
  parallel.set_lr(0.02);
  train(parallel, net);
  const auto state = state_of(parallel);
  state->gather();
  const std::string bytes = write_state(*net, *state, {}, gather_random(world_));
  train(parallel, net);

  torch::nn::Sequential other = make_net();
  DataParallel fresh(world_, other.ptr(), options);
  read_state(bytes, world_, *other, *state_of(fresh));
  train(fresh, other);
  EXPECT_EQ(all_bits(other), all_bits(net));
}

TEST_F(StateArchiveTest, OfAnotherOfOurOptimizersIsRefused) {
  torch::nn::Sequential net = make_net(), other = make_net();
  DataParallel adam(world_, net.ptr(), {.optimizer = {.name = "adam"}});
  DataParallel lamb(world_, other.ptr(),
                    {.optimizer = {.name = "lamb"}});  // as many arrays, with other meanings
  const auto state = state_of(adam);
  state->gather();
  const std::string bytes = write_state(*net, *state, {}, gather_random(world_));
  try {
    read_state(bytes, world_, *other, *state_of(lamb));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("that of optimizer 'adam', which 'lamb'"), std::string::npos)
        << error.message();
  }
}

TEST_F(StateArchiveTest, OfAnotherModelIsRefusedWithTheParameter) {
  torch::nn::Sequential net = make_net(8), other = make_net(9);
  torch::optim::SGD optimizer(net->parameters(), 0.1), fresh(other->parameters(), 0.1);
  const std::string bytes = write_state(*net, *state_of(optimizer), {}, gather_random(world_));
  const std::string before = all_bits(other);
  try {
    read_state(bytes, world_, *other, *state_of(fresh));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("0.weight Float [8,4]"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("0.weight Float [9,4]"), std::string::npos) << error.message();
  }
  EXPECT_EQ(all_bits(other), before);
}

TEST_F(StateArchiveTest, OfAnotherOptimizerIsRefused) {
  torch::nn::Sequential net = make_net();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  take_step(net, optimizer);
  const std::string bytes = write_state(*net, *state_of(optimizer), {}, gather_random(world_));
  torch::optim::Adam other(net->parameters(), 0.1);
  EXPECT_THROW(read_state(bytes, world_, *net, *state_of(other)), Error);
}

}  // namespace
}  // namespace distbelief::elastic
