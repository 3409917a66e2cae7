#include "distbelief/modes/servers/lbfgs_link.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "distbelief/base/error.h"

namespace distbelief::modes {
namespace {

constexpr std::int64_t kAnnouncedAhead = 2;
constexpr std::int64_t kEnd = -1, kCutShort = -2;  // instead of a step

bool all_finite(std::span<const float> values) {
  int bad = 0;
  for (const float value : values) bad |= !(std::fabs(value) <= std::numeric_limits<float>::max());
  return bad == 0;
}

}  // namespace

LbfgsLink::LbfgsLink(Options options) : options_(std::move(options)) {
  const TrainConfig& train = options_.config.train;
  method_ = {.weight_decay = train.optimizer.weight_decay, .tolerance = train.optimizer.eps};
}

LbfgsLink::~LbfgsLink() = default;

std::int64_t LbfgsLink::join(const Start& start) {
  if (options_.world->hosts() > 1)
    throw Error(ErrorCode::kBadInput,
                "train.optimizer = \"lbfgs\" without parameter servers keeps its vectors on one host; start "
                "on one, or use parallel.sync = \"parameter_server\" with parallel.mode = \"sandblaster\"");
  portions_ = start.steps_per_epoch;
  samples_ = start.samples;
  parameters_ = start.parameters;
  // Replicas may know of different checkpoints, but not of different jobs.
  first_ = options_.is_in_order ? (start.step + portions_ - 1) / portions_ : 0;
  method_.evaluations = std::max<std::int64_t>(1, start.steps / portions_ - first_);
  if (!options_.store) return 0;
  BatchStore::Opening opening{.point = start.parameters,
                              .portions = portions_,
                              .evaluations = method_.evaluations,
                              .vectors = std::int64_t(compute::lbfgs_vectors(method_.history))};
  for (const compute::Entry& entry : start.layout->entries())
    opening.parameters.emplace_back(entry.offset, entry.count);
  options_.store->open(opening);
  options_.store->fetch(parameters_);
  return 0;
}

// A number of the first worker's, on all. Collective.
std::int64_t LbfgsLink::shared(std::int64_t number) {
  if (options_.world->size() > 1) options_.world->communicator().broadcast(comm::view(&number, 1), 0);
  return number;
}

// What the same state leads to is the same, so that it does not matter who does it, or how many.
void LbfgsLink::coordinate(std::int64_t evaluation) {
  BatchStore::Coordinator known = options_.store->coordinator();
  if (known.evaluation == evaluation) {
    const compute::LbfgsState state =
        compute::advance(compute::LbfgsState::from(known.numbers, method_), method_, *options_.store);
    spdlog::info("evaluation {}: iteration {}, loss {:.9g}, gradient {:.3g}, step {:.3g}, {} pairs",
                 state.evaluations, state.iterations, state.loss, state.gradient_norm, state.step,
                 state.pairs);
    known = {.evaluation = evaluation + 1,
             .numbers = state.numbers(),
             .ends = state.end != compute::LbfgsState::End::kNot};
  }
  options_.store->advance(known);
}

std::int64_t LbfgsLink::find_step(const std::function<void(std::int64_t)>& announce) {
  for (;;) {
    const BatchStore::Work work = options_.store->next(announce);
    if (work.kind == BatchStore::Work::Kind::kEnd) return kEnd;
    if (work.kind == BatchStore::Work::Kind::kCoordinate) {
      coordinate(work.evaluation);
      continue;
    }
    if (work.evaluation != fetched_) options_.store->fetch(parameters_);
    fetched_ = work.evaluation;
    return (first_ + work.evaluation) * portions_ + work.portion;
  }
}

std::optional<std::int64_t> LbfgsLink::next(const std::function<void(std::int64_t)>& announce) {
  for (; options_.is_in_order && announced_ < taken_ + kAnnouncedAhead; ++announced_)
    announce(announced_ % portions_);
  std::int64_t step = kEnd;
  if (options_.store) try {
      step = find_step(options_.is_in_order ? [](std::int64_t) {} : announce);
    } catch (const Error&) {
      if (!options_.goes_on || options_.goes_on()) throw;
      step = kCutShort;
    }
  step = shared(step);
  ++taken_;
  cut_short_ = step == kCutShort;
  if (step < 0) return std::nullopt;
  return step;
}

// Where the loss is no number the step was too long: it counts as infinite, and nothing else matters.
void LbfgsLink::exchange(const Share& share, std::span<const float> gradient, std::span<float>) {
  BatchStore::Portion portion{.evaluation = share.step / portions_ - first_,
                              .portion = share.step % portions_,
                              .samples = share.step_samples,
                              .batch_samples = samples_,
                              .loss = share.loss,
                              .gradient = gradient};
  if (!std::isfinite(share.loss) || !all_finite(gradient)) {
    zeros_.assign(gradient.size(), 0.0F);
    portion.gradient = zeros_;
    portion.loss = std::numeric_limits<double>::infinity();
  }
  options_.store->add(portion);
}

mesh::ParameterLink::Finished LbfgsLink::finish(std::span<float> parameters) {
  Finished finished;
  if (options_.store) {
    const BatchStore::Coordinator known = options_.store->coordinator();
    const auto state = compute::LbfgsState::from(known.numbers, method_);
    options_.store->fetch(parameters);
    spdlog::info("{} after {} evaluations, {} iterations: loss {:.9g}, gradient {:.3g}",
                 compute::describe(state.end), state.evaluations, state.iterations, state.loss,
                 state.gradient_norm);
    finished.loss = state.loss;
    finished.steps = (first_ + state.evaluations) * portions_;
  }
  finished.steps = shared(finished.steps.value_or(0));
  return finished;
}

}  // namespace distbelief::modes
