#include "distbelief/mesh/pipeline_time.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

using Kind = PipelineAction::Kind;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Event-driven simulation. An event is the end of an action or the arrival of data that a place waits for.
// Between two events the running places progress at one speed.
class StepSimulation {
 public:
  StepSimulation(PipelineSchedule schedule, const PipelineShape& shape, std::span<const StageCost> costs,
                 double cores)
      : shape_(shape),
        costs_(costs),
        cores_(cores),
        places_(std::size_t(shape.pipeline)),
        input_(std::size_t(shape.stages()) * std::size_t(shape.lanes), kNever),
        gradient_(input_),
        link_free_(std::size_t(shape.pipeline) * std::size_t(shape.pipeline), 0.0) {
    for (int place = 0; place < shape.pipeline; ++place)
      places_[std::size_t(place)].actions = pipeline_actions(schedule, shape, place);
    for (std::int64_t lane = 0; lane < shape.lanes; ++lane) arrival({Kind::kForward, 0, lane}) = 0;
  }

  double run() {
    while (start_what_can() || running() > 0 || next_arrival() < kNever) {
      const double speed = std::min(1.0, cores_ / std::max(1, running()));
      double step = next_arrival() - now_;
      for (const Place& place : places_)
        if (place.runs) step = std::min(step, place.left / speed);
      DISTBELIEF_INVARIANT(step < kNever);
      now_ += step;
      for (Place& place : places_)
        if (place.runs) place.left -= step * speed;
      end_what_is_done();
    }
    return now_;
  }

 private:
  struct Place {
    std::vector<PipelineAction> actions;
    std::size_t next = 0;
    bool runs = false;
    double left = 0;  // seconds left of the running action on a core of its own
  };

  double& arrival(const PipelineAction& action) {
    auto& times = action.kind == Kind::kForward ? input_ : gradient_;
    return times[std::size_t(action.stage) * std::size_t(shape_.lanes) + std::size_t(action.lane)];
  }

  int running() const {
    return int(std::count_if(places_.begin(), places_.end(), [](const Place& place) { return place.runs; }));
  }

  // The earliest arrival of data that a place waits for.
  double next_arrival() {
    double next = kNever;
    for (const Place& place : places_)
      if (!place.runs && place.next < place.actions.size())
        next = std::min(next, std::max(now_, arrival(place.actions[place.next])));
    return next;
  }

  bool start_what_can() {
    bool started = false;
    for (Place& place : places_) {
      if (place.runs || place.next == place.actions.size()) continue;
      const PipelineAction& action = place.actions[place.next];
      if (arrival(action) > now_) continue;
      const StageCost& cost = costs_[std::size_t(action.stage)];
      place.left = action.kind == Kind::kForward ? cost.forward : cost.backward;
      place.runs = started = true;
    }
    return started;
  }

  void end_what_is_done() {
    constexpr double kDone = 1e-12;  // seconds; absorbs rounding
    for (Place& place : places_) {
      if (!place.runs || place.left > kDone) continue;
      place.runs = false;
      hand_on(place.actions[place.next++]);
    }
  }

  void hand_on(const PipelineAction& done) {
    const int last = shape_.stages() - 1;
    if (done.kind == Kind::kForward && done.stage == last)
      arrival({Kind::kBackward, last, done.lane}) = now_;
    else if (done.kind == Kind::kForward)
      send(done.stage, {Kind::kForward, done.stage + 1, done.lane}, costs_[std::size_t(done.stage)]);
    else if (done.stage > 0)
      send(done.stage, {Kind::kBackward, done.stage - 1, done.lane}, costs_[std::size_t(done.stage) - 1]);
  }

  void send(int from_stage, const PipelineAction& to, const StageCost& edge) {
    const int from = shape_.place_of_stage(from_stage), towards = shape_.place_of_stage(to.stage);
    double arrived = now_;
    if (from != towards) {
      double& link = link_free_[std::size_t(from) * std::size_t(shape_.pipeline) + std::size_t(towards)];
      link = arrived = std::max(now_, link) + edge.transfer;
    }
    arrival(to) = arrived;
  }

  PipelineShape shape_;
  std::span<const StageCost> costs_;
  double cores_;
  double now_ = 0;
  std::vector<Place> places_;
  std::vector<double> input_, gradient_;  // arrival time per stage x lane
  std::vector<double> link_free_;         // per place x place: when the link is free
};

}  // namespace

double simulate_step(PipelineSchedule schedule, const PipelineShape& shape, std::span<const StageCost> costs,
                     double cores) {
  require_schedulable(schedule, shape);
  DISTBELIEF_INVARIANT(costs.size() == std::size_t(shape.stages()) && cores > 0);
  return StepSimulation(schedule, shape, costs, cores).run();
}

}  // namespace distbelief::mesh
