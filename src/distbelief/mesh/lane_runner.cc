#include "distbelief/mesh/lane_runner.h"

#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

namespace distbelief::mesh {

using report::Phase;

namespace {

// For each backward of the task, the parameters that it moves.
std::vector<std::vector<bool>> moved_parameters(const tasks::Task& task,
                                                const std::vector<compute::Entry>& parameters) {
  std::vector<std::vector<bool>> moved;
  for (const tasks::Backward& backward : task.backwards()) {
    moved.emplace_back();
    for (const auto& parameter : parameters)
      moved.back().push_back(parameter.name.starts_with(backward.moves));
  }
  return moved;
}

}  // namespace

LaneRunner::LaneRunner(Options options)
    : options_(std::move(options)),
      replica_(options_.network, *options_.layout,
               options_.gather ? options_.gather->arena() : options_.arena),
      buffers_(*options_.network),
      step_buffers_(buffers_.size()),
      moved_(moved_parameters(*options_.task, options_.layout->entries())),
      sink_([this](int parameter, const float* values) {
        if (!moved_[backward_][std::size_t(parameter)]) return;
        options_.sharing->gradient(parameter, values);
        if (options_.in_backward && !std::exchange(in_backward_, true)) options_.in_backward();
      }),
      place_([this](int parameter) {
        return moved_[backward_][std::size_t(parameter)] ? options_.sharing->gradient_place(parameter)
                                                         : nullptr;
      }) {}

StepOutcome LaneRunner::step(const StepPlan& plan, const LaneNotes& wishes) {
  const StepSize size = size_of(plan);
  buffers_.read(step_buffers_);
  options_.sharing->begin_step(plan);
  const double items = double(size.samples * options_.task->items_per_sample());
  for (const std::int64_t lane : options_.lanes) run_lane(lane, plan, wishes, items);
  const auto begin = clock_.start(Phase::kExchange);
  // Rows are pushed before the step counts as done.
  if (options_.rows)
    row_gradients_.push(*options_.rows, int(options_.task->tables().size()), plan.step, plan.lr);
  options_.sharing->end_step();
  traced("exchange and update", begin, clock_.start(Phase::kOther));

  const std::span<const float> mean = options_.sharing->mean_buffers();
  buffers_.write(mean);
  LaneNotes notes;
  std::memcpy(static_cast<void*>(&notes), mean.data() + buffers_.size(), sizeof(notes));
  return outcome_of(notes, size.filled_lanes);
}

void LaneRunner::dawdle() const {
  const double times = options_.slowness ? options_.slowness() : 1;
  if (times > 1) std::this_thread::sleep_for(lane_time_ * (times - 1));
}

void LaneRunner::run_lane(std::int64_t lane, const StepPlan& plan, const LaneNotes& wishes, double items) {
  auto begin = clock_.start(Phase::kData);
  options_.sharing->begin_lane(lane);
  if (options_.gather) options_.gather->begin(Pass::kThereAndBack);
  const data::Batch& batch = options_.next_batch();
  auto now = clock_.start(Phase::kForward);
  traced("data", begin, now);
  if (batch.size > 0) {
    dawdle();
    const auto lane_begin = std::chrono::steady_clock::now();
    const tasks::TensorBatch tensors =
        tasks::prepared_for_lane(*options_.task, tasks::as_tensors(batch),
                                 lane_seed(options_.seed, plan.step, lane), options_.network->device());
    const LaneContext context(options_.seed, plan, lane);
    buffers_.write(step_buffers_);
    LaneNotes notes = wishes;
    in_backward_ = false;
    for (backward_ = 0; backward_ < moved_.size(); ++backward_) run_backward(tensors, notes, items);
    row_gradients_.add(tensors.rows);
    const auto end = clock_.start(Phase::kOther);
    lane_time_ = end - lane_begin;
  }
  if (options_.gather) options_.gather->finish();
  options_.sharing->end_lane();
}

void LaneRunner::run_backward(const tasks::TensorBatch& tensors, LaneNotes& notes, double items) {
  const auto begin = clock_.start(Phase::kForward);
  const torch::Tensor loss = options_.task->loss_sum(*options_.network, tensors, backward_);
  notes.loss += float(loss.item<double>() / items);
  if (backward_ + 1 == moved_.size()) {
    const std::span<float> values = options_.sharing->lane_buffers();
    buffers_.read(values);
    std::memcpy(values.data() + buffers_.size(), &notes, sizeof(notes));
  }
  const auto now = clock_.start(Phase::kBackward);
  traced("forward", begin, now);
  replica_.backward(loss, float(1.0 / items), sink_, place_);
  if (options_.gather) options_.gather->finish();
  traced("backward", now, std::chrono::steady_clock::now());
}

void LaneRunner::traced(const char* name, std::chrono::steady_clock::time_point begin,
                        std::chrono::steady_clock::time_point end) {
  if (options_.trace) options_.trace->span(name, "step", begin, end, options_.thread);
}

}  // namespace distbelief::mesh
