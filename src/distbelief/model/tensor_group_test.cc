#include "distbelief/model/tensor_group.h"

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <mutex>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/model/loss.h"
#include "distbelief/model/random.h"
#include "distbelief/model/registry.h"

namespace distbelief::model {
namespace {

// A group whose parts are threads of this process.
struct Meeting {
  explicit Meeting(int parts) : values(std::size_t(parts)), barrier(parts) {}
  std::vector<torch::Tensor> values;
  std::barrier<> barrier;
};

class ThreadGroup final : public TensorGroup {
 public:
  ThreadGroup(Meeting& meeting, int part)
      : TensorGroup(part, int(meeting.values.size())),
        meeting_(meeting) {}
  void start_sum(const torch::Tensor& values) override {
    meeting_.values[std::size_t(part())] = values;
    meeting_.barrier.arrive_and_wait();
  }
  torch::Tensor finish_sum() override {
    torch::Tensor sum = meeting_.values[0].clone();
    for (int i = 1; i < parts(); ++i) sum.add_(meeting_.values[std::size_t(i)]);
    meeting_.barrier.arrive_and_wait();
    return sum;
  }

 private:
  Meeting& meeting_;
};

struct Case {
  ModelConfig model;
  DataShape shape;
  double label_smoothing = 0;
};

torch::Tensor input_of(const Case& which, int batch) {
  std::vector<std::int64_t> shape = which.shape.input;
  shape.insert(shape.begin(), batch);
  torch::manual_seed(5);
  return which.shape.tokens ? torch::randint(which.shape.classes, shape, torch::kInt64)
                            : torch::randn(shape, torch::kFloat64);
}

torch::Tensor target_of(const Case& which, int batch) {
  torch::manual_seed(6);
  const std::int64_t items = which.shape.tokens ? batch * which.shape.input[0] : batch;
  return torch::randint(which.shape.classes, {items}, torch::kInt64);
}

struct Trained {
  std::shared_ptr<Network> network;
  std::vector<double> losses;
};

// Uses plain gradient descent: an optimizer that scales gradients would hide errors.
Trained train(const Case& which, std::shared_ptr<Network> network, TensorGroup* group, torch::Dtype type,
              int steps, const torch::Tensor& input, const torch::Tensor& target) {
  Trained trained{std::move(network), {}};
  const torch::Tensor typed = which.shape.tokens ? input : input.to(type);
  for (int step = 0; step < steps; ++step) {
    const GeneratorScope randomness(std::uint64_t(100 + step));
    const torch::Tensor output = trained.network->forward(typed);
    torch::Tensor loss;
    if (output.size(1) < which.shape.classes) {
      const SliceRange range = share_of(which.shape.classes, group->part(), group->parts());
      loss = sliced_cross_entropy(*group, output, target, slice_of({which.shape.classes}, 0, range),
                                  which.label_smoothing);
    } else {
      loss = find_loss("cross_entropy").sum(output, target, which.label_smoothing);
    }
    loss = loss / double(target.size(0));
    trained.losses.push_back(loss.item<double>());
    trained.network->zero_grad();
    loss.backward();
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : trained.network->parameters())
      if (parameter.grad().defined() && step + 1 < steps) parameter.add_(parameter.grad(), -0.05);
  }
  return trained;
}

std::shared_ptr<Network> network_of(const Case& which, TensorGroup* group, torch::Dtype type) {
  static std::mutex one_at_a_time;  // torch's default generator is one per process
  const std::lock_guard lock(one_at_a_time);
  const Blueprint blueprint = model_blueprint(which.model, which.shape);
  auto network = std::make_shared<Network>(blueprint, BlockRange{0, int(blueprint.size())}, 7, group);
  network->to(type);
  return network;
}

torch::Tensor slice_from(const torch::Tensor& whole, const SlicedTensor& part) {
  return whole.reshape({part.slice.outer, part.slice.whole, part.slice.inner})
      .narrow(1, part.slice.begin, part.slice.count)
      .reshape(part.tensor.sizes());
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / (b.norm() + 1e-30)).item<double>();
}

// The largest relative difference between a tensor of any part and the same slice on one worker.
struct Distances {
  double weights = 0;
  double gradients = 0;
  double losses = 0;
  int sliced = 0;
};

Distances compare(const Case& which, int parts, torch::Dtype type, int steps) {
  const torch::Tensor input = input_of(which, 4), target = target_of(which, 4);
  const Trained whole = train(which, network_of(which, nullptr, type), nullptr, type, steps, input, target);
  Meeting meeting(parts);
  std::vector<Trained> trained(static_cast<std::size_t>(parts));
  {
    std::vector<std::unique_ptr<ThreadGroup>> groups;
    std::vector<std::jthread> threads;
    for (int part = 0; part < parts; ++part) {
      groups.push_back(std::make_unique<ThreadGroup>(meeting, part));
      auto network = network_of(which, groups.back().get(), type);
      threads.emplace_back([&, part, network, group = groups.back().get()] {
        trained[std::size_t(part)] = train(which, network, group, type, steps, input, target);
      });
    }
    threads.clear();
  }
  Distances found;
  const auto wholes = whole.network->named_parameters();
  for (const Trained& part : trained)
    for (const auto& item : part.network->named_parameters()) {
      const SlicedTensor sliced = part.network->sliced(item.value());
      found.sliced += sliced.slice.is_whole() ? 0 : 1;
      const torch::Tensor& mine = wholes[item.key()];
      found.weights = std::max(found.weights, distance(item.value(), slice_from(mine, sliced)));
      found.gradients =
          std::max(found.gradients, distance(item.value().grad(), slice_from(mine.grad(), sliced)));
    }
  for (std::size_t i = 0; i < whole.losses.size(); ++i)
    for (const Trained& part : trained)
      found.losses = std::max(found.losses, std::abs(part.losses[i] - whole.losses[i]));
  return found;
}

const Case kMlp{.model = {.name = "mlp",
                          .options = {{"hidden", std::vector<std::int64_t>{24, 36, 12}}, {"dropout", 0.2}}},
                .shape = {.tokens = false, .input = {1, 6, 6}, .classes = 5}};
const Case kGpt{.model = {.name = "gpt",
                          .options = {{"layers", std::int64_t{2}},
                                      {"width", std::int64_t{24}},
                                      {"heads", std::int64_t{6}},
                                      {"dropout", 0.1}}},
                .shape = {.tokens = true, .input = {8}, .classes = 19},
                .label_smoothing = 0.1};
Case tied_gpt() {
  Case which = kGpt;
  which.model.options["tied"] = true;
  which.label_smoothing = 0;
  return which;
}
const Case kResNet18{.model = {.name = "resnet18", .options = {}},
                     .shape = {.tokens = false, .input = {3, 12, 12}, .classes = 5}};
const Case kResNet50{.model = {.name = "resnet50", .options = {}},
                     .shape = {.tokens = false, .input = {3, 12, 12}, .classes = 5}};

void expect_same_training(const Case& which, int parts, int steps = 20) {
  const Distances found = compare(which, parts, torch::kFloat64, steps);
  EXPECT_GT(found.sliced, 0);
  EXPECT_LT(found.weights, 1e-9) << which.model.name << " over " << parts;
  EXPECT_LT(found.gradients, 1e-9);
  EXPECT_LT(found.losses, 1e-9);
}

TEST(SlicedNetwork, TrainsLikeOneWorkerInDoublePrecisionOverTwentySteps) {
  expect_same_training(kMlp, 2);
  expect_same_training(kMlp, 3);
  expect_same_training(kGpt, 2);
  expect_same_training(kGpt, 3);  // 19 words: slices of 6, 6 and 7
  expect_same_training(tied_gpt(), 2);
  expect_same_training(kResNet18, 2);
}

TEST(SlicedNetwork, TrainsLikeOneWorkerWithBottlenecks) { expect_same_training(kResNet50, 2, 3); }

TEST(SlicedNetwork, GivesTheFirstGradientsOfOneWorkerInSinglePrecision) {
  for (const Case& which : {kMlp, kGpt, tied_gpt(), kResNet18})
    EXPECT_LT(compare(which, 2, torch::kFloat32, 1).gradients, 1e-5) << which.model.name;
}

TEST(SlicedNetwork, RefusesWidthsThatDoNotDivideAndNamesTheLayer) {
  Meeting meeting(5);
  ThreadGroup group(meeting, 0);
  try {
    network_of(kMlp, &group, torch::kFloat32);
    FAIL() << "24 was divided by 5";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("fc1"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("tensor may be 2, 3, 4, 6, 8"), std::string::npos) << error.message();
  }
}

TEST(Slice, VisitsEachOfItsElementsOnceInBothPlaces) {
  std::vector<int> seen(3 * 4 * 2);
  for (int part = 0; part < 2; ++part) {
    const Slice slice = slice_of({3, 4, 2}, 1, share_of(4, part, 2));
    std::int64_t local = 0;
    for_each_run(slice, [&](const SliceRun& run) {
      EXPECT_EQ(run.local, local);
      local += run.count;
      for (std::int64_t i = 0; i < run.count; ++i) ++seen[std::size_t(run.whole + i)];
    });
    EXPECT_EQ(local, slice.elements());
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(Slice, SharesAreAsEvenAsCanBeAndCoverAll) {
  EXPECT_EQ(share_of(19, 0, 3).count, 6);
  EXPECT_EQ(share_of(19, 2, 3).begin + share_of(19, 2, 3).count, 19);
  EXPECT_EQ(share_of(19, 1, 3).begin, 6);
}

}  // namespace
}  // namespace distbelief::model
