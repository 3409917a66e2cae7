#include "distbelief/cli/extension.h"
#include "parts.h"

// Replicas train apart, each on its share of every batch, and the mean of their parameters is the result.
#include <algorithm>

#include "distbelief/base/error.h"

using namespace distbelief;

namespace {

class Apart final : public modes::Mode {
 public:
  Apart(replica::Replica& replica, World& all, TreeNode lanes, bool leads)
      : Mode({.stages = replica.stages(), .outline = &replica.partition().outline(), .writes = leads}),
        replica_(replica),
        all_(all),
        lanes_(lanes) {}

  modes::Reached join(const modes::Entry& entry) override {
    step_ = entry.step;
    steps_ = entry.steps;
    steps_per_epoch_ = entry.steps_per_epoch;
    std::int64_t first = entry.step;
    all_.communicator().broadcast(comm::view(&first, 1), 0);
    if (first != entry.step)
      throw Error(ErrorCode::kBadInput, "replicas that train apart cannot be resumed: start a new run");
    return {.step = step_};
  }

  modes::Work next() override {
    return {.kind = step_ < steps_ ? modes::Work::Kind::kStep : modes::Work::Kind::kDone,
            .at = {.step = step_},
            .continues = step_ % steps_per_epoch_ != 0,
            .lanes = lanes_};
  }

  // Wishes are shared by all at every step, so that all stop at the same one.
  modes::Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) override {
    step_ = plan.step + 1;
    mesh::StepOutcome agreed = own;
    bool* const wishes[] = {&agreed.save, &agreed.snapshot, &agreed.stop, &agreed.pause, &agreed.hand_over};
    std::vector<float> sums;
    for (const bool* wish : wishes) sums.push_back(*wish ? 1.0F : 0.0F);
    all_.communicator().allreduce(comm::view(sums.data(), sums.size()), comm::ReduceOp::kSum);
    for (std::size_t i = 0; i < sums.size(); ++i) *wishes[i] = sums[i] > 0;
    // The last epoch is validated when the mean is there.
    return {.reached = {.step = step_, .closes_epochs = step_ < steps_}, .loss = own.loss, .agreed = agreed};
  }

  void pause(const std::function<void()>& wait) override { wait(); }
  void refresh() override {}
  void save(const modes::Saving&) override {}

  modes::Finished finish() override {
    const mesh::AllreduceGroup& group = replica_.group();
    std::vector<float> mean(group.parameters(), group.parameters() + group.layout().size());
    if (replica_.world().rank() != 0) std::ranges::fill(mean, 0.0F);  // one worker speaks for its replica
    all_.communicator().allreduce(comm::view(mean.data(), mean.size()), comm::ReduceOp::kSum);
    const auto replicas = float(all_.size() / replica_.world().size());
    for (float& value : mean) value /= replicas;
    if (replica_.world().local_rank() == 0) std::ranges::copy(mean, group.parameters());
    replica_.world().communicator().barrier();
    return {.reached = modes::Reached{.step = steps_, .closes_epochs = true, .ends = true}};
  }

 private:
  replica::Replica& replica_;
  World& all_;
  TreeNode lanes_;
  std::int64_t step_ = 0, steps_ = 0, steps_per_epoch_ = 1;
};

std::optional<job::Fault> constrain(const Config& config) {
  const auto replicas = option<std::int64_t>(job::mode_options(config), "replicas");
  if (replicas < 1 || config.parallel.workers % replicas != 0)
    return job::Fault{"apart.replicas", "apart.replicas must divide parallel.workers"};
  const std::int64_t each = config.parallel.lanes / replicas;
  if (config.parallel.lanes % replicas != 0 || (each & (each - 1)) != 0)
    return job::Fault{"parallel.lanes",
                      "each of apart.replicas needs 1, 2, 4 or another power of two of lanes"};
  if (config.train.early_stop_patience > 0 || config.train.target != 0)
    return job::Fault{"parallel.sync", "replicas that train apart do not stop early"};
  return std::nullopt;
}

modes::ModeParts make(const modes::ModeSite& site) {
  const auto replicas = int(option<std::int64_t>(job::mode_options(site.job.config), "replicas"));
  if (site.world.size() % replicas != 0)
    throw Error(ErrorCode::kBadInput, "apart.replicas must divide the number of workers");
  const int number = site.world.rank() / (site.world.size() / replicas);
  const std::int64_t each = site.job.config.parallel.lanes / replicas;
  const TreeNode lanes{number * each, (number + 1) * each};
  return {.terms = {.lanes = lanes},
          .make =
              [&all = site.world, lanes, number](replica::Replica& replica) {
                return std::make_unique<Apart>(replica, all, lanes, number == 0);
              },
          .world = std::make_shared<World>(site.world.split(number)),
          .replica = number};
}

}  // namespace

void register_own_mode() {
  register_mode({.name = "apart",
                 .options = {{"replicas", std::int64_t{2}, "networks that are trained apart"}},
                 .constrain = constrain},
                make);
}
