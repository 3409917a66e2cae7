#include "distbelief/modes/servers/sync_servers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace distbelief::modes {
namespace {

TreeNode lanes_of(const ServerShareOptions& options) {
  const std::int64_t each = options.config.parallel.lanes / options.replicas;
  return {options.replica * each, (options.replica + 1) * each};
}

}  // namespace

ModeParts SyncServers::parts(const ServerShareOptions& options) {
  const auto share = std::make_shared<ServerShare>(options);
  return {
      .terms = {.lanes = lanes_of(options), .update = replica::ReplicaTerms::Update::kCollectGradient},
      .make = [share](replica::Replica& replica) { return std::make_unique<SyncServers>(replica, share); }};
}

SyncServers::SyncServers(replica::Replica& replica, std::shared_ptr<ServerShare> share)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline(), .writes = share->leads()}),
      replica_(replica),
      share_(std::move(share)),
      lanes_(lanes_of(share_->options())) {}

comm::SpaceSpec SyncServers::spec() const {
  const ParallelConfig& parallel = share_->parallel();
  comm::SpaceSpec spec = share_->spec(
      view_->layout(), replica_.partition().outline().buffers + mesh::kNoteFloats, replica_.task().tables());
  spec.mode = "sync";
  spec.lanes = parallel.lanes;
  spec.spare_lanes = parallel.spare_replicas * (parallel.lanes / share_->options().replicas);
  return spec;
}

Reached SyncServers::join(const Entry& entry) {
  steps_ = entry.steps;
  steps_per_epoch_ = entry.steps_per_epoch;
  const std::size_t elements = compute::Layout(replica_.partition().outline().parameters, 1).size();
  view_.emplace(replica_, replica::ReplicaViewOptions{.lanes = lanes_, .slices = slices_of(elements)});
  view_->put();
  // A run that goes on has its values from the leader alone.
  const bool brings_values = share_->leads() || share_->first_step() == 0;
  const auto join_here = [&] {
    share_->join(spec(), brings_values ? view_->parameters().data() : nullptr);
    view_->numbers()[std::size_t(replica_.world().local_rank())] =
        share_->fetch(share_->own_of(view_->parameters()));
  };
  if (view_->is_first()) join_here();
  view_->meet();  // the job is there, for the others to join
  if (!view_->is_first()) join_here();
  view_->meet();
  // Some slices, or what lanes meet for, may be a step further than others: this replica was killed in the
  // middle of it. Unless the others go on without it, none can be two.
  const std::int64_t meeting_step = share_->client().meeting_step();
  if (view_->is_first())
    view_->number() =
        share_->first_step() + std::min(*std::ranges::min_element(view_->numbers()), meeting_step);
  view_->meet();
  step_ = view_->number();
  const std::int64_t version = step_ - share_->first_step();
  if (version > 0 && share_->parallel().spare_replicas == 0)
    share_->client().pull(share_->own_of(view_->parameters()), version);
  if (view_->is_first()) {
    if (meeting_step > 0)
      share_->client().meet_again(std::min(version, meeting_step) - 1, view_->mean());
    else if (share_->first_step() > 0)
      share_->share_statistics(view_->mean());
  }
  view_->meet();
  view_->take();
  if (step_ == 0) return {.step = step_};
  view_->take_statistics();
  spdlog::info("the servers are at step {}", step_);
  return {.step = step_,
          .of_all = true,
          .bits_lost = share_->first_step() > 0 ? share_->lost_state() : std::string()};
}

Work SyncServers::next() {
  return {.kind = step_ < steps_ ? Work::Kind::kStep : Work::Kind::kDone,
          .at = {.step = step_},
          .continues = step_ % steps_per_epoch_ != 0};
}

// The lanes of all replicas hand over their values. Gives the next step.
std::int64_t SyncServers::meet_lanes(const mesh::StepPlan& plan) {
  std::vector<std::int32_t> empty;
  for (std::int64_t lane = lanes_.begin; lane < lanes_.end; ++lane)
    if (plan.lane_samples[std::size_t(lane)] == 0) empty.push_back(std::int32_t(lane));
  return share_->first_step() +
         share_->client().meet(share_->ticket_of(plan.step), lanes_.begin, lanes_.end, empty,
                               view_->lane_rows(), view_->mean()) +
         1;
}

Settled SyncServers::settle(const mesh::StepPlan& plan, const mesh::StepOutcome&) {
  report::PhaseClock& clock = replica_.team().clock();
  clock.start(report::Phase::kExchange);
  view_->collect();
  const compute::Span own = share_->own();
  const auto first = plan.lane_samples.begin();
  share_->client().push_pull(
      {.ticket = share_->ticket_of(plan.step),
       .lr = plan.lr,
       .first_lane = lanes_.begin,
       .end_lane = lanes_.end,
       .samples = std::accumulate(first + lanes_.begin, first + lanes_.end, std::int64_t{0}),
       .step_samples = std::accumulate(first, plan.lane_samples.end(), std::int64_t{0}),
       .untouched = view_->forget_untouched(own)},
      view_->gradient().subspan(own.begin, own.size()), share_->own_of(view_->parameters()));
  share_->tell_answers(view_->answers());
  view_->meet();  // the parameters are there, however long the servers took
  if (view_->is_first()) {
    share_->log_answers(share_->ticket_of(plan.step), view_->answers());
    view_->number() = meet_lanes(plan);
  }
  view_->meet();
  step_ = view_->number();
  if (step_ > plan.step + 1) {  // the answer to its push may be older than the step of the others
    share_->fetch(share_->own_of(view_->parameters()));
    view_->meet();
  }
  view_->take();
  view_->take_statistics();
  replica_.share_changed();
  clock.start(report::Phase::kOther);
  pass_over(plan.step + 1, step_);
  const mesh::StepOutcome agreed = mesh::outcome_of(view_->mean_notes(), mesh::size_of(plan).filled_lanes);
  return {
      .reached = {.step = step_, .closes_epochs = true, .completes = true, .of_all = step_ > plan.step + 1},
      .loss = agreed.loss,
      .agreed = agreed};
}

// The others have not waited for this replica (parallel.spare_replicas): it goes on where they are.
void SyncServers::pass_over(std::int64_t after, std::int64_t next) {
  const std::int64_t steps = next - after;
  if (steps <= 0) return;
  replica_.feed().skip(steps);
  const std::int64_t before = std::exchange(passed_over_, passed_over_ + steps);
  if (std::bit_width(std::uint64_t(before)) == std::bit_width(std::uint64_t(passed_over_))) return;
  spdlog::info("this replica came too late for {} steps so far, and goes on at step {}", passed_over_, next);
}

}  // namespace distbelief::modes
