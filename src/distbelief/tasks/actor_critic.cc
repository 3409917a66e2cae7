#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/data/generated/environment.h"
#include "distbelief/model/actor_critic.h"
#include "distbelief/model/device.h"
#include "distbelief/model/lane_place.h"
#include "distbelief/model/random.h"
#include "distbelief/tasks/election.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr double kValueWeight = 0.5;

// The experience of a lane's environments in one step: [rollout, environments] each, except observations.
struct Rollout {
  std::vector<torch::Tensor> seen;               // [environments, observed]; one entry more than steps
  std::vector<std::vector<std::int64_t>> votes;  // [environments * voters]
  std::vector<std::vector<float>> rewards;
  std::vector<std::vector<char>> over;    // the episode ended, by failure or by its length
  std::vector<std::vector<char>> failed;  // the episode failed: no reward can follow
};

// Advantage actor-critic (Mnih et al., 2016) with generalized advantage estimation (Schulman et al., 2015).
// The samples of a lane are places of environments, which continue from step to step. In a step each
// environment takes `rollout` actions with the current policy; then one backward covers them all: policy
// gradient, value and entropy. Advantages are normalized to mean 0 and deviation 1 within the lane.
// Validation plays one episode from every test state with the likeliest actions.
//
// Several voters may share an environment: each draws an action from its own policy, and the action with the
// most votes is taken (tasks/election.h). For the voters together this is one policy over all their votes, so
// its gradient is that of each voter's own vote, weighted by the advantage from the voter's own value. An
// election costs no message, because every worker has the weights of all voters.
class ActorCritic final : public Task {
 public:
  ActorCritic(const TaskSite& site, const OptionMap& options)
      : environment_(data::make_environment(site.data.name)),
        voters_(option<std::int64_t>(options, "voters")),
        rollout_(option<std::int64_t>(options, "rollout")),
        discount_(option<double>(options, "discount")),
        trace_(option<double>(options, "trace")),
        entropy_(option<double>(options, "entropy")) {}

  std::int64_t items_per_sample() const override { return rollout_; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    std::vector<data::EnvironmentState> worlds = taken(network, batch);
    const Rollout rollout = act(network, worlds);
    leave(network, worlds);
    return loss_of(network, rollout);
  }

  ScoreShape score_shape() const override { return {.sums = 2, .counts = 0}; }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    std::vector<data::EnvironmentState> worlds = as_worlds(batch.input);
    std::vector<char> over(worlds.size(), 0);
    double sum = 0;
    for (std::int64_t step = 0; step < environment_->most_steps(); ++step) {
      const torch::Tensor found = chances_of(network.forward(observed(worlds, network.device())));
      const model::HostValues<float> chances(found);
      const model::HostValues<std::int64_t> likeliest(found.argmax(2));
      for (std::size_t i = 0; i < worlds.size(); ++i) {
        if (over[i]) continue;
        const std::int64_t* votes = likeliest.data() + i * std::size_t(voters_);
        const auto outcome =
            environment_->step(worlds[i], elected(chances, i, {votes, std::size_t(voters_)}));
        sum += double(outcome.reward);
        over[i] = outcome.ended;
      }
    }
    return {{-sum * double(rollout_), sum}, {}};  // cancels the mean over items
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    return {{"mean_return", tally.mean(1) * double(rollout_)}};
  }

 private:
  static std::vector<data::EnvironmentState> as_worlds(const torch::Tensor& rows) {
    std::vector<data::EnvironmentState> worlds(std::size_t(rows.size(0)));
    const model::HostValues<float> values(rows);
    const auto width = std::size_t(rows.size(1));
    for (std::size_t i = 0; i < worlds.size(); ++i) {
      const float* row = values.data() + i * width;
      std::copy_n(row, data::kObserved, worlds[i].values.begin());
      if (width > data::kObserved) worlds[i].steps = row[data::kObserved];
    }
    return worlds;
  }

  static torch::Tensor observed(const std::vector<data::EnvironmentState>& worlds,
                                const torch::Device& device) {
    const torch::Tensor rows = torch::empty({std::int64_t(worlds.size()), std::int64_t(data::kObserved)});
    float* const values = model::host_elements<float>(rows).data();
    for (std::size_t i = 0; i < worlds.size(); ++i)
      std::copy(worlds[i].values.begin(), worlds[i].values.end(), values + i * data::kObserved);
    return model::on_device(rows, device);
  }

  // The lane's environments. Outside a step, and after a fresh start, they are at the first states of the
  // batch.
  static std::vector<data::EnvironmentState> taken(const model::Network& network, const TensorBatch& batch) {
    const model::LanePlace* place = model::current_lane();
    if (place == nullptr || place->fresh) return as_worlds(batch.input);
    return as_worlds(model::carried_worlds(network).narrow(0, place->first, batch.size));
  }

  static void leave(const model::Network& network, const std::vector<data::EnvironmentState>& worlds) {
    const model::LanePlace* place = model::current_lane();
    if (place == nullptr) return;
    const torch::Tensor carried = model::carried_worlds(network);
    std::vector<float> rows(std::size_t(carried.numel()));  // zeros at the worlds of other lanes
    for (std::size_t i = 0; i < worlds.size(); ++i) {
      float* row = rows.data() + (std::size_t(place->first) + i) * std::size_t(carried.size(1));
      for (std::size_t d = 0; d < data::kObserved; ++d)
        row[d] = worlds[i].values[d] * float(place->filled_lanes);
      row[data::kObserved] = worlds[i].steps * float(place->filled_lanes);
    }
    model::write_from_host(carried, std::as_bytes(std::span(rows)));
  }

  // Draws the seed first; actions and first states come from the lane's randomness.
  Rollout act(model::Network& network, std::vector<data::EnvironmentState>& worlds) const {
    const torch::NoGradGuard no_grad;
    Rollout rollout;
    auto generator = model::current_generator();
    const torch::Tensor seed = torch::empty({1}, torch::kInt64);
    SplitMix64 random(
        std::uint64_t((generator ? torch::Tensor(seed).random_(*generator) : torch::Tensor(seed).random_())
                          .item<std::int64_t>()));
    for (std::int64_t t = 0; t < rollout_; ++t) {
      rollout.seen.push_back(observed(worlds, network.device()));
      const model::HostValues<float> chances(chances_of(network.forward(rollout.seen.back())));
      step_all(worlds, chances, random, rollout);
    }
    rollout.seen.push_back(observed(worlds, network.device()));
    return rollout;
  }

  // Converts the network's output to probabilities [environments, voters, actions].
  torch::Tensor chances_of(const torch::Tensor& output) const {
    const std::int64_t actions = environment_->actions();
    return output.narrow(1, 0, voters_ * actions).reshape({output.size(0), voters_, actions}).softmax(2);
  }

  std::int64_t elected(const model::HostValues<float>& chances, std::size_t world,
                       std::span<const std::int64_t> votes) const {
    const auto actions = std::size_t(environment_->actions());
    const float* row = chances.data() + world * std::size_t(voters_) * actions;
    std::vector<double> together(actions);
    for (std::size_t i = 0; i < std::size_t(voters_) * actions; ++i) together[i % actions] += double(row[i]);
    return elect(votes, together);
  }

  std::int64_t drawn_action(const float* chance, SplitMix64& random) const {
    double left = random.uniform();
    std::int64_t action = 0;
    while (action + 1 < environment_->actions() && left >= double(chance[action]))
      left -= double(chance[action++]);
    return action;
  }

  void step_all(std::vector<data::EnvironmentState>& worlds, const model::HostValues<float>& chances,
                SplitMix64& random, Rollout& rollout) const {
    rollout.votes.emplace_back();
    rollout.rewards.emplace_back();
    rollout.over.emplace_back();
    rollout.failed.emplace_back();
    std::vector<std::int64_t>& votes = rollout.votes.back();
    for (std::size_t i = 0; i < worlds.size(); ++i) {
      for (std::int64_t v = 0; v < voters_; ++v)
        votes.push_back(
            drawn_action(chances.data() + (std::int64_t(i) * voters_ + v) * environment_->actions(), random));
      const std::int64_t action = elected(chances, i, std::span(votes).last(std::size_t(voters_)));
      const auto outcome = environment_->step(worlds[i], action);
      const bool over = outcome.ended || worlds[i].steps >= float(environment_->most_steps());
      rollout.rewards.back().push_back(outcome.reward);
      rollout.over.back().push_back(over);
      rollout.failed.back().push_back(outcome.ended);
      if (over) worlds[i] = environment_->first(random);
    }
  }

  torch::Tensor loss_of(model::Network& network, const Rollout& rollout) const {
    const torch::Tensor output = network.forward(torch::cat(rollout.seen));
    torch::Tensor loss = voter_loss(output, rollout, 0);
    for (std::int64_t v = 1; v < voters_; ++v) loss = loss + voter_loss(output, rollout, v);
    return loss;
  }

  torch::Tensor voter_loss(const torch::Tensor& output, const Rollout& rollout, std::int64_t voter) const {
    const std::int64_t worlds = rollout.seen[0].size(0), actions = environment_->actions();
    const torch::Tensor values = output.select(1, voters_ * actions + voter);
    const torch::Tensor logits = output.narrow(0, 0, rollout_ * worlds).narrow(1, voter * actions, actions);
    const torch::Tensor now = values.detach().view({rollout_ + 1, worlds}).contiguous();
    torch::Tensor advantage = model::on_device(advantages(rollout, now), output.device());
    const torch::Tensor wanted = (advantage + now.narrow(0, 0, rollout_)).flatten();
    advantage = ((advantage - advantage.mean()) / (advantage.std(false) + 1e-6)).flatten();
    std::vector<std::int64_t> flat;
    for (const auto& row : rollout.votes)
      for (auto at = std::size_t(voter); at < row.size(); at += std::size_t(voters_)) flat.push_back(row[at]);
    const torch::Tensor chosen =
        model::on_device(torch::tensor(flat, torch::kInt64).unsqueeze(1), output.device());
    const torch::Tensor log_chances = logits.log_softmax(1);
    const torch::Tensor policy = -(log_chances.gather(1, chosen).squeeze(1) * advantage).sum();
    const torch::Tensor entropy = -(log_chances.exp() * log_chances).sum();
    const torch::Tensor value =
        torch::mse_loss(values.narrow(0, 0, rollout_ * worlds), wanted, at::Reduction::Sum);
    return policy + value * kValueWeight - entropy * entropy_;
  }

  // An episode that ended by its length would have continued with the value of the state that it left. The
  // state after it is the first of another episode, so that state's own value stands in.
  torch::Tensor advantages(const Rollout& rollout, const torch::Tensor& values) const {
    const std::int64_t worlds = values.size(1);
    torch::Tensor advantage = torch::empty({rollout_, worlds});
    const model::HostValues<float> held(values);
    const float* value = held.data();
    float* out = model::host_elements<float>(advantage).data();
    for (std::int64_t i = 0; i < worlds; ++i) {
      double later = 0;
      for (std::int64_t t = rollout_ - 1; t >= 0; --t) {
        const auto at = std::size_t(t), world = std::size_t(i);
        const double own = double(value[t * worlds + i]);
        double next = double(value[(t + 1) * worlds + i]);
        if (rollout.over[at][world]) next = rollout.failed[at][world] ? 0.0 : own;
        const double surprise = double(rollout.rewards[at][world]) + discount_ * next - own;
        later = surprise + (rollout.over[at][world] ? 0.0 : discount_ * trace_ * later);
        out[t * worlds + i] = float(later);
      }
    }
    return advantage;
  }

  std::unique_ptr<data::Environment> environment_;
  std::int64_t voters_;
  std::int64_t rollout_;
  double discount_;
  double trace_;
  double entropy_;
};

}  // namespace

std::unique_ptr<Task> make_actor_critic(const TaskSite& site) {
  if (data::make_environment(site.data.name) == nullptr || site.model.name != "actor_critic")
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task 'actor_critic' wants model actor_critic and data cartpole or grid_world, found "
                    "model '{}' and data '{}'",
                    site.model.name, site.data.name));
  const OptionMap options = model::resolved_options(site.model);
  if (option<std::int64_t>(options, "environments") != site.train.batch_size ||
      option<std::int64_t>(options, "rollout") < 1)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "task 'actor_critic' wants model.environments = train.batch_size and model.rollout of 1 or "
            "more, found {}, {} and {}",
            option<std::int64_t>(options, "environments"), site.train.batch_size,
            option<std::int64_t>(options, "rollout")));
  return std::make_unique<ActorCritic>(site, options);
}

}  // namespace distbelief::tasks
