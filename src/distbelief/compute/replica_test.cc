#include "distbelief/compute/replica.h"

#include <gtest/gtest.h>

#include <map>

#include "distbelief/base/error.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/model/placed_linear.h"

namespace distbelief::compute {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(5, 7))),
        norm(register_module("norm", torch::nn::BatchNorm1d(7))),
        last(register_module("last", torch::nn::Linear(7, 3))),
        unused(register_parameter("unused", torch::ones({4}))) {
    register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(norm(first(x)))).pow(2).mean(); }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear last;
  torch::Tensor unused;
};

// A weight that forward uses twice and that is registered under two names.
struct TiedImpl : torch::nn::Module {
  TiedImpl() : weight(register_parameter("weight", torch::randn({4, 4}))) {
    register_parameter("again", weight);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::tanh(x.matmul(weight)).matmul(weight.t()).sum();
  }
  torch::Tensor weight;
};

// A layer that computes its gradient in place, used once or twice.
struct PlacedImpl : torch::nn::Module {
  explicit PlacedImpl(int uses) : uses_(uses), fc(register_module("fc", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(torch::Tensor x) {
    for (int use = 0; use < uses_; ++use) x = torch::tanh(model::placed_linear(x, fc->weight, fc->bias));
    return x.sum();
  }

 private:
  int uses_;

 public:
  torch::nn::Linear fc;
};

template <typename Net>
struct InArena {
  std::shared_ptr<Net> net;
  Layout layout;
  std::vector<float> arena;
  Replica replica;

  explicit InArena(std::shared_ptr<Net> module)
      : net(module),
        layout(trainable_parameters(*module), 4096),
        arena(copied(*module, layout)),
        replica(module, layout, arena.data()) {}

  static std::vector<float> copied(const Net& net, const Layout& layout) {
    std::vector<float> arena(layout.size());
    copy_parameters(net, layout, arena.data());
    return arena;
  }

  // Gradients by name; each is passed on once.
  std::map<std::string, torch::Tensor> gradients(const torch::Tensor& x) {
    std::map<std::string, torch::Tensor> found;
    replica.backward(net->forward(x), 1.0F, [&](int parameter, const float* values) {
      const Entry& entry = layout.entries()[std::size_t(parameter)];
      EXPECT_FALSE(found.count(entry.name)) << entry.name << " given twice";
      found[entry.name] = torch::tensor(torch::ArrayRef<float>(values, entry.count)).view(entry.shape);
    });
    return found;
  }
};

TEST(Replica, GivesGradientsThatWereComputedInTheirPlaceThere) {
  torch::manual_seed(4);
  for (const int uses : {1, 2}) {
    const auto net = std::make_shared<PlacedImpl>(uses);
    const torch::Tensor x = torch::randn({6, 4});
    net->forward(x).backward();
    const torch::Tensor wanted = net->fc->weight.grad().clone();
    net->zero_grad(/*set_to_none=*/true);
    InArena<PlacedImpl> in_arena(net);
    std::vector<float> place(16, -1.0F);
    std::vector<const float*> given(2, nullptr);
    in_arena.replica.backward(
        net->forward(x), 1.0F,
        [&](int parameter, const float* values) { given[std::size_t(parameter)] = values; },
        [&](int parameter) { return parameter == 0 ? place.data() : nullptr; });
    EXPECT_EQ(given[0], place.data()) << uses;
    EXPECT_NE(given[1], nullptr) << uses;
    EXPECT_TRUE(torch::tensor(place).view_as(wanted).equal(wanted)) << uses;
    EXPECT_FALSE(net->fc->weight.grad().defined());
  }
}

TEST(Replica, GivesEachGradientOnceWithTorchsBits) {
  torch::manual_seed(3);
  const auto net = std::make_shared<NetImpl>();
  const torch::Tensor x = torch::randn({6, 5});
  net->forward(x).backward();
  std::map<std::string, torch::Tensor> wanted;
  for (const auto& item : net->named_parameters())
    if (item.value().grad().defined()) wanted[item.key()] = item.value().grad().clone();
  net->zero_grad(/*set_to_none=*/true);

  InArena<NetImpl> arena(net);
  for (int round = 0; round < 2; ++round) {
    const auto found = arena.gradients(x);
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [name, gradient] : wanted) EXPECT_TRUE(torch::equal(found.at(name), gradient)) << name;
  }
  for (const auto& item : net->named_parameters()) EXPECT_FALSE(item.value().grad().defined()) << item.key();
}

TEST(Replica, LeavesOutWhatAnotherBackwardHasLeftThere) {
  torch::manual_seed(3);
  InArena<NetImpl> arena(std::make_shared<NetImpl>());
  const torch::Tensor x = torch::randn({6, 5});
  const auto wanted = arena.gradients(x);
  (7 * arena.net->forward(torch::randn({6, 5}))).backward();  // e.g. a generator through its discriminator
  EXPECT_TRUE(arena.net->first->weight.grad().defined());
  const auto found = arena.gradients(x);
  for (const auto& [name, gradient] : wanted) EXPECT_TRUE(torch::equal(found.at(name), gradient)) << name;
}

TEST(Replica, DoesNotGiveAParameterWithoutGradientNorAFrozenOne) {
  InArena<NetImpl> arena(std::make_shared<NetImpl>());
  const auto found = arena.gradients(torch::randn({6, 5}));
  EXPECT_EQ(found.size(), 6U);
  EXPECT_EQ(found.count("unused"), 0U);
  EXPECT_EQ(arena.layout.entries().size(), 7U) << "frozen parameters are not in the arena";
}

TEST(Replica, GivesATiedWeightOnceAndKeepsItTied) {
  torch::manual_seed(4);
  const auto net = std::make_shared<TiedImpl>();
  const torch::Tensor x = torch::randn({3, 4});
  net->forward(x).backward();
  const torch::Tensor wanted = net->weight.grad().clone();
  net->zero_grad(/*set_to_none=*/true);

  InArena<TiedImpl> arena(net);
  ASSERT_EQ(arena.layout.entries().size(), 1U);
  const auto found = arena.gradients(x);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(torch::equal(found.begin()->second, wanted));
  EXPECT_EQ(net->weight.data_ptr<float>(), arena.arena.data() + arena.layout.entries()[0].offset);
}

TEST(Replica, ParametersAreTheArena) {
  const auto net = std::make_shared<NetImpl>();
  const torch::Tensor before = net->first->weight.detach().clone();
  InArena<NetImpl> arena(net);
  EXPECT_TRUE(torch::equal(net->first->weight.detach(), before));
  arena.arena[arena.layout.entries()[1].offset] = 42;
  bool seen = false;
  for (const auto& item : net->named_parameters())
    if (item.key() == arena.layout.entries()[1].name) seen = item.value().flatten()[0].item<float>() == 42;
  EXPECT_TRUE(seen);
}

TEST(Replica, AnErrorOfTheSinkComesOutOfBackwardAsItself) {
  InArena<NetImpl> arena(std::make_shared<NetImpl>());
  const torch::Tensor loss = arena.net->forward(torch::randn({6, 5}));
  try {
    arena.replica.backward(loss, 1.0F, [](int, const float*) { throw Error(ErrorCode::kTimeout, "late"); });
    FAIL() << "the sink threw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  }
}

TEST(Replica, TheModuleOutlivesItAlsoWhileAGraphIsAlive) {
  const auto net = std::make_shared<NetImpl>();
  const torch::Tensor x = torch::randn({6, 5});
  std::vector<float> memory;
  torch::Tensor loss;
  {
    InArena<NetImpl> arena(net);
    loss = net->forward(x);
    memory.swap(arena.arena);  // the views stay valid
  }
  loss.backward();
  EXPECT_TRUE(net->first->weight.grad().defined());
}

TEST(Replica, RefusesAParameterThatIsNotFloat) {
  const auto net = std::make_shared<NetImpl>();
  net->to(torch::kFloat64);
  try {
    trainable_parameters(*net);
    FAIL() << "float64 parameters";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("'unused'"), std::string::npos) << error.what();
  }
}

TEST(BufferSet, WritesBackWhatItRead) {
  const auto net = std::make_shared<NetImpl>();
  net->forward(torch::randn({6, 5}));
  net->norm->num_batches_tracked.fill_((std::int64_t{1} << 40) + 12345);
  BufferSet buffers(*net);
  EXPECT_EQ(buffers.size(), 7U + 7 + 2);
  std::vector<float> saved(buffers.size());
  buffers.read(saved);
  const torch::Tensor mean = net->norm->running_mean.clone();
  net->forward(torch::randn({6, 5}));
  net->norm->num_batches_tracked.zero_();
  EXPECT_FALSE(torch::equal(net->norm->running_mean, mean));
  buffers.write(saved);
  EXPECT_TRUE(torch::equal(net->norm->running_mean, mean));
  EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), (std::int64_t{1} << 40) + 12345);
}

TEST(BufferSet, AveragesCountsAcrossTheirWords) {
  const auto net = std::make_shared<NetImpl>();
  BufferSet buffers(*net);
  const auto mean = [&](std::vector<std::int64_t> lanes) {
    std::vector<float> sum(buffers.size()), one(buffers.size());
    for (const std::int64_t count : lanes) {
      net->norm->num_batches_tracked.fill_(count);
      buffers.read(one);
      for (std::size_t i = 0; i < one.size(); ++i) sum[i] += one[i] / float(lanes.size());
    }
    buffers.write(sum);
    return net->norm->num_batches_tracked.item<std::int64_t>();
  };
  constexpr std::int64_t kWord = std::int64_t{1} << 20;
  EXPECT_EQ(mean({kWord, kWord - 1}), kWord);
  EXPECT_EQ(mean({kWord - 4, kWord + 4}), kWord);
  EXPECT_EQ(mean({3 * kWord + 5, 3 * kWord + 5, 3 * kWord + 5}), 3 * kWord + 5);
  EXPECT_EQ(mean({7, 9}), 8);
  net->norm->num_batches_tracked.fill_(std::int64_t{1} << 44);
  std::vector<float> one(buffers.size());
  EXPECT_THROW(buffers.read(one), Error);
}

TEST(BufferSet, SaysHowABufferCanBeAveraged) {
  const auto refusal = [](const torch::Tensor& buffer) -> std::string {
    torch::nn::BatchNorm1d norm(3);
    norm->register_buffer("mask", buffer);
    try {
      BufferSet{*norm};
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(refusal(torch::ones({2, 3}).t()),
            "buffer 'mask' does not lie in one piece; register its .contiguous()");
  EXPECT_NE(refusal(torch::ones({3}, torch::kBool)).find("is Bool"), std::string::npos);
}

TEST(BufferSet, RefusesABufferThatCannotBeAveraged) {
  torch::nn::BatchNorm1d norm(3);
  norm->register_buffer("mask", torch::ones({3}, torch::kBool));
  EXPECT_THROW(BufferSet{*norm}, Error);
}

}  // namespace
}  // namespace distbelief::compute
