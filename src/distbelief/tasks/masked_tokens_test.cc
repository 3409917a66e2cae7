#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <thread>

#include "distbelief/data/source.h"
#include "distbelief/model/tensor_group.h"
#include "distbelief/tasks/task.h"

namespace distbelief::tasks {
namespace {

constexpr std::int64_t kLength = 40;
constexpr std::int64_t kWords = 12;

data::SampleSpec sentences(double target_share) {
  data::SampleSpec spec;
  spec.input_type = ElementType::kInt64;
  spec.input_shape = spec.target_shape = {kLength};
  spec.classes = kWords;
  spec.target_share = target_share;
  return spec;
}

std::unique_ptr<Task> masked_tokens(double target_share) {
  Config config;
  config.train.task = "masked_tokens";
  return make_task(config, sentences(target_share));
}

// Sample i has i + 1 tokens of its own, each 3, and then padding (token 0).
TensorBatch filled_up(std::int64_t samples) {
  TensorBatch batch{.input = torch::zeros({samples, kLength}, torch::kInt64),
                    .target = torch::full({samples, kLength}, data::kNoTarget, torch::kInt64),
                    .size = samples};
  for (std::int64_t i = 0; i < samples; ++i) {
    batch.input[i].narrow(0, 0, i + 1).fill_(3);
    batch.target[i].narrow(0, 0, i + 1).fill_(3);
  }
  return batch;
}

// Connects two workers that are threads of this process.
struct Meeting {
  std::array<torch::Tensor, 2> values;
  std::barrier<> barrier{2};
};
class ThreadGroup final : public model::TensorGroup {
 public:
  ThreadGroup(Meeting& meeting, int part) : TensorGroup(part, 2), meeting_(meeting) {}
  void start_sum(const torch::Tensor& values) override {
    meeting_.values[std::size_t(part())] = values;
    meeting_.barrier.arrive_and_wait();
  }
  torch::Tensor finish_sum() override {
    const torch::Tensor sum = meeting_.values[0] + meeting_.values[1];
    meeting_.barrier.arrive_and_wait();
    return sum;
  }

 private:
  Meeting& meeting_;
};

// Returns fixed logits for the words of `range`, for any input.
class Logits final : public model::Block {
 public:
  explicit Logits(SliceRange range) : range_(range) {}
  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor all = torch::arange(input.numel() * kWords).remainder(7).to(torch::kFloat32);
    return all.view({input.numel(), kWords}).narrow(1, range_.begin, range_.count);
  }

 private:
  SliceRange range_;
};

struct Found {
  double loss;
  Score score;
};

Found found_by(const Task& task, SliceRange range) {
  const model::Blueprint blueprint{
      {"", [range](const model::BlockSite&) { return std::make_shared<Logits>(range); }}};
  model::Network network(blueprint, {0, 1}, 1);
  const TensorBatch batch = prepared_for_lane(task, filled_up(kLength), 1, torch::kCPU);
  const double loss = task.loss_sum(network, batch).item<double>();
  return {loss, task.score(network, batch)};
}

TEST(MaskedTokens, HasTheSameLossWhereATensorGroupHoldsTheWordsInSlices) {
  Config config;
  config.train.task = "masked_tokens";
  for (const double target_share : {0.0, 0.5}) {
    const Found whole = found_by(*masked_tokens(target_share), {0, kWords});
    Meeting meeting;
    std::array<Found, 2> found;
    {
      std::vector<std::jthread> threads;
      for (int part = 0; part < 2; ++part)
        threads.emplace_back([&, part] {
          ThreadGroup group(meeting, part);
          const auto task = make_task(config, sentences(target_share), &group);
          found[std::size_t(part)] = found_by(*task, share_of(kWords, part, 2));
        });
    }
    for (const Found& each : found) {
      EXPECT_NEAR(each.loss, whole.loss, 1e-3);
      EXPECT_NEAR(each.score.sums[0], whole.score.sums[0], 1e-3);
      EXPECT_EQ(each.score.counts, whole.score.counts);
    }
  }
}

TEST(MaskedTokens, LeavesWhatFillsASentenceUpAlone) {
  const auto task = masked_tokens(0.5);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const TensorBatch before = filled_up(kLength);
    const TensorBatch batch = prepared_for_lane(*task, filled_up(kLength), seed, torch::kCPU);
    const torch::Tensor filling = before.target.lt(0);
    EXPECT_EQ(batch.target.masked_select(filling).ge(0).sum().item<std::int64_t>(), 0);
    EXPECT_TRUE(torch::equal(batch.input.masked_select(filling), before.input.masked_select(filling)));
    EXPECT_TRUE(batch.target.masked_select(batch.target.ge(0)).eq(3).all().item<bool>());
  }
}

TEST(MaskedTokens, MasksTheSameShareOfEverySentence) {
  const TensorBatch batch = prepared_for_lane(*masked_tokens(0.5), filled_up(kLength), 1, torch::kCPU);
  const torch::Tensor masked = batch.target.ge(0).sum(1);
  EXPECT_EQ(masked[0].item<std::int64_t>(), 1);  // at least one
  EXPECT_EQ(masked[9].item<std::int64_t>(), 2);  // 15 % of 10, rounded to even
  EXPECT_EQ(masked[19].item<std::int64_t>(), 3);
  EXPECT_EQ(masked[39].item<std::int64_t>(), 6);
}

TEST(MaskedTokens, CountsInAScoreWhatWasMaskedAlone) {
  EXPECT_EQ(masked_tokens(0.5)->score_shape().items, std::optional<std::size_t>(1));
  EXPECT_EQ(masked_tokens(0)->score_shape().items, std::nullopt);
}

TEST(MaskedTokens, MasksAsManyOfEverySampleThatIsFull) {
  TensorBatch full = filled_up(4);
  full.input.fill_(3);
  const TensorBatch batch = prepared_for_lane(*masked_tokens(0), full, 1, torch::kCPU);
  EXPECT_TRUE(batch.target.ge(0).sum(1).eq(6).all().item<bool>());
}

}  // namespace
}  // namespace distbelief::tasks
