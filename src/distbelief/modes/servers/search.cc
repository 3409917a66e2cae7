#include "distbelief/modes/servers/search.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::modes {
namespace {

constexpr std::int64_t kAnnouncedAhead = 2;
constexpr std::int64_t kNoPortion = -1, kSearchBrokenOff = -2;  // instead of a step

bool all_finite(std::span<const float> values) {
  int bad = 0;
  for (const float value : values) bad |= !(std::fabs(value) <= std::numeric_limits<float>::max());
  return bad == 0;
}

}  // namespace

ModeParts Search::parts(SearchOptions options) {
  const auto shared = std::make_shared<SearchOptions>(std::move(options));
  return {.terms = {.update = replica::ReplicaTerms::Update::kCollectGradient,
                    .feed = replica::LaneFeedOptions::Order::kAnnounced},
          .make = [shared](replica::Replica& replica) { return std::make_unique<Search>(replica, shared); }};
}

Search::Search(replica::Replica& replica, std::shared_ptr<SearchOptions> options)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline(), .writes = options->leads}),
      replica_(replica),
      options_(std::move(options)),
      method_{.weight_decay = replica.job().config.train.optimizer.weight_decay,
              .tolerance = replica.job().config.train.optimizer.eps} {}

Search::~Search() = default;

Reached Search::join(const Entry& entry) {
  if (replica_.world().hosts() > 1)
    throw Error(ErrorCode::kBadInput,
                "train.optimizer = \"lbfgs\" without parameter servers keeps its vectors on one host; start "
                "on one, or use parallel.sync = \"parameter_server\" with parallel.mode = \"sandblaster\"");
  view_.emplace(replica_, replica::ReplicaViewOptions{});
  view_->put();
  portions_ = entry.steps_per_epoch;
  samples_ = entry.samples;
  // Replicas may know of different checkpoints, but not of different jobs.
  first_ = options_->is_in_order ? (entry.step + portions_ - 1) / portions_ : 0;
  method_.evaluations = std::max<std::int64_t>(1, entry.steps / portions_ - first_);
  if (store()) open_store();
  view_->meet();
  view_->take();
  const std::int64_t goes_on_from = options_->is_in_order ? entry.step : options_->first_step;
  return {.step = entry.step,
          .begins_anew = !options_->is_in_order,
          .bits_lost = goes_on_from > 0 ? "L-BFGS went on without the history of the steps before" : ""};
}

void Search::open_store() {
  BatchStore::Opening opening{.point = view_->parameters(),
                              .portions = portions_,
                              .evaluations = method_.evaluations,
                              .vectors = std::int64_t(compute::lbfgs_vectors(method_.history))};
  for (const compute::Entry& entry : view_->layout().entries())
    opening.parameters.emplace_back(entry.offset, entry.count);
  store()->open(opening);
  store()->fetch(view_->parameters());
}

// A number of the first worker's, on all.
std::int64_t Search::shared(std::int64_t number) {
  World& world = replica_.world();
  if (world.size() > 1) world.communicator().broadcast(comm::view(&number, 1), 0);
  return number;
}

// The same state leads to the same next one, so it does not matter who coordinates, or how many do.
void Search::coordinate(std::int64_t evaluation) {
  BatchStore::Coordinator known = store()->coordinator();
  if (known.evaluation == evaluation) {
    const compute::LbfgsState state =
        compute::advance(compute::LbfgsState::from(known.numbers, method_), method_, *store());
    spdlog::info("evaluation {}: iteration {}, loss {:.9g}, gradient {:.3g}, step {:.3g}, {} pairs",
                 state.evaluations, state.iterations, state.loss, state.gradient_norm, state.step,
                 state.pairs);
    known = {.evaluation = evaluation + 1,
             .numbers = state.numbers(),
             .ends = state.end != compute::LbfgsState::End::kNot};
  }
  store()->advance(known);
}

std::int64_t Search::find_step() {
  const auto announce = [this](std::int64_t portion) {
    if (!options_->is_in_order) replica_.feed().announce(portion);
  };
  for (;;) {
    const BatchStore::Work work = store()->next(announce);
    if (work.kind == BatchStore::Work::Kind::kEnd) return kNoPortion;
    if (work.kind == BatchStore::Work::Kind::kCoordinate) {
      coordinate(work.evaluation);
      continue;
    }
    if (work.evaluation != fetched_) store()->fetch(view_->parameters());
    fetched_ = work.evaluation;
    return (first_ + work.evaluation) * portions_ + work.portion;
  }
}

// Portions in order are known to every worker by itself.
void Search::announce_ahead() {
  for (; options_->is_in_order && announced_ < taken_ + kAnnouncedAhead; ++announced_)
    replica_.feed().announce(announced_ % portions_);
}

Work Search::next() {
  announce_ahead();
  std::int64_t step = kNoPortion;
  if (store()) try {
      step = find_step();
    } catch (const Error&) {
      if (!options_->goes_on || options_->goes_on()) throw;
      step = kSearchBrokenOff;
    }
  step = shared(step);
  ++taken_;
  if (step == kSearchBrokenOff) return {.kind = Work::Kind::kBrokenOff};
  if (step == kNoPortion) return {.kind = Work::Kind::kDone};
  return {.at = {.step = step, .closes_epochs = options_->leads}, .continues = continues_};
}

// A loss that is no number means that the step was too long: it counts as infinite, and nothing else matters.
Settled Search::settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) {
  report::PhaseClock& clock = replica_.team().clock();
  clock.start(report::Phase::kExchange);
  view_->collect();
  if (store()) {
    view_->forget_untouched({0, view_->layout().size()});
    const std::span<const float> gradient = view_->gradient();
    BatchStore::Portion portion{
        .evaluation = plan.step / portions_ - first_,
        .portion = plan.step % portions_,
        .samples = std::accumulate(plan.lane_samples.begin(), plan.lane_samples.end(), std::int64_t{0}),
        .batch_samples = samples_,
        .loss = own.loss,
        .gradient = gradient};
    if (!std::isfinite(own.loss) || !all_finite(gradient)) {
      zeros_.assign(gradient.size(), 0.0F);
      portion.gradient = zeros_;
      portion.loss = std::numeric_limits<double>::infinity();
    }
    store()->add(portion);
  }
  view_->meet();
  clock.start(report::Phase::kOther);
  continues_ = mesh::size_of(plan).samples == replica_.job().config.train.batch_size;
  return {.reached = {.step = plan.step + 1},
          .loss = std::isfinite(own.loss) ? std::optional(own.loss) : std::nullopt,
          .agreed = own};
}

// Replicas of parameter servers go on with what this one has not begun.
void Search::pause(const std::function<void()>& wait) {
  const std::int64_t dropped = shared(store() ? store()->rest().value_or(-1) : 0);
  if (dropped > 0) replica_.feed().skip(dropped);
  wait();
  if (dropped >= 0 && store()) store()->wake();
}

Finished Search::finish() {
  std::int64_t steps = 0;
  std::optional<double> loss;
  if (store()) {
    const BatchStore::Coordinator known = store()->coordinator();
    const auto state = compute::LbfgsState::from(known.numbers, method_);
    store()->fetch(view_->parameters());
    spdlog::info("{} after {} evaluations, {} iterations: loss {:.9g}, gradient {:.3g}",
                 compute::describe(state.end), state.evaluations, state.iterations, state.loss,
                 state.gradient_norm);
    loss = state.loss;
    steps = (first_ + state.evaluations) * portions_;
  }
  steps = shared(steps);
  view_->meet();
  view_->take();
  return {.reached = Reached{.step = steps, .closes_epochs = options_->leads, .of_all = true, .ends = true},
          .loss = loss};
}

}  // namespace distbelief::modes
