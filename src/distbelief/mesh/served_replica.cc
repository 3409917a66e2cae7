#include "distbelief/mesh/served_replica.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace distbelief::mesh {

ServedWindow::Shape ServedReplica::window_shape(const NetworkOutline& outline, int workers,
                                                std::int64_t lanes) {
  return {.workers = workers,
          .parameters = outline.parameters.size(),
          .elements = compute::Layout(outline.parameters, 1).size(),
          .lane_values = outline.buffers + kNoteFloats,
          .note_values = kNoteFloats,
          .lanes = lanes};
}

namespace {

ServedWindow::Shape shape_for(const ServedReplica::Options& options) {
  const TreeNode lanes = options.link->lanes();
  ServedWindow::Shape shape =
      ServedReplica::window_shape(*options.outline, options.world->local_size(),
                                  options.link->is_synchronous() ? lanes.end - lanes.begin : 0);
  shape.slices = options.link->slices(shape.elements);
  if (options.peers->size() == options.world->size()) shape.elements = 0;
  return shape;
}

}  // namespace

ServedReplica::ServedReplica(const Options& options)
    : options_(options),
      layout_(options.outline->parameters, 1),
      window_(options.world->host_group(), shape_for(options)) {
  for (const Stage& stage : options.stages) {
    Held& held =
        held_.emplace_back(Held{.stage = &stage, .buffers = compute::BufferSet(*stage.network).size()});
    held.counts = stage.group->sharing(0).update_counts();
    held.buffers_spoken_for = buffer_runs(stage, Which::kSpokenFor);
    held.buffers_all = buffer_runs(stage, Which::kAll);
    if (!is_cut()) continue;
    held.spoken_for = arena_runs(stage, *options.peers, Which::kSpokenFor);
    held.all = arena_runs(stage, *options.peers, Which::kAll);
  }
}

std::span<float> ServedReplica::gradient() {
  return is_cut() ? window_.gradient() : std::span(group().state(0), layout_.size());
}

std::span<float> ServedReplica::parameters() {
  return is_cut() ? window_.parameters() : std::span(group().parameters(), layout_.size());
}

void ServedReplica::put_parameters() {
  for (const Held& held : held_)
    if (is_cut()) write_runs(held.spoken_for, held.stage->group->parameters(), window_.parameters().data());
}

void ServedReplica::put_buffers() {
  for (const Held& held : held_) {
    if (!speaks_for_peers()) return;
    const compute::BufferSet buffers(*held.stage->network);
    std::vector<float> values(buffers.size());
    buffers.read(values);
    write_runs(held.buffers_spoken_for, values.data(), window_.mean().data());
  }
}

// Once all of the replica have met: what the first worker brought.
void ServedReplica::take_parameters() {
  if (!is_cut()) return;
  for (const Held& held : held_)
    copy_runs(held.all, window_.parameters().data(), held.stage->group->parameters());
  meet();
}

std::int64_t ServedReplica::join(ParameterLink::Start start) {
  put_parameters();
  put_buffers();
  meet();
  const auto workers = std::size_t(options_.world->local_size());
  start.layout = &layout_;
  start.parameters = parameters();
  start.lane_values = window_.mean();
  ParameterLink& link = *options_.link;
  if (is_first()) window_.versions()[0] = link.join(start);
  meet();  // the job is there, for the others to join
  if (!is_first() && has_link())
    window_.versions()[std::size_t(options_.world->local_rank())] = link.join(start);
  meet();
  const std::span<const std::int64_t> versions = window_.versions().first(link.is_shared_out() ? workers : 1);
  if (is_first()) window_.step() = link.agree(*std::ranges::min_element(versions));
  meet();
  if (has_link()) link.begin(window_.step(), start);
  meet();
  take_parameters();
  return window_.step();
}

void ServedReplica::end_step(const StepPlan& plan) {
  note_touched();
  for (const Held& held : held_)
    if (is_cut()) write_runs(held.spoken_for, held.stage->group->state(0), window_.gradient().data());
  if (is_synchronous()) put_rows();
  meet();
  if (pushes()) exchange(plan);
  meet();  // the parameters are there, however long the servers took
  if (is_first()) options_.link->acknowledge(window_.answers());
  if (is_first() && is_synchronous()) meet_lanes(plan);
  if (is_synchronous()) meet();
  if (is_synchronous() && next_step() > plan.step + 1) catch_up();
  take_parameters();
}

// What came with the answer to its push may be older than the step that the others have come to meanwhile.
void ServedReplica::catch_up() {
  const compute::Span own = options_.link->own(layout_.size());
  if (pushes()) options_.link->catch_up(parameters().subspan(own.begin, own.size()));
  meet();
}

void ServedReplica::refresh() {
  catch_up();
  take_parameters();
}

ParameterLink::Finished ServedReplica::finish() {
  ParameterLink::Finished finished;
  const compute::Span own = options_.link->own(layout_.size());
  if (has_link()) finished = options_.link->finish(parameters().subspan(own.begin, own.size()));
  meet();
  take_parameters();
  return finished;
}

void ServedReplica::note_touched() {
  for (Held& held : held_) {
    const std::vector<std::int64_t>& now = held.stage->group->sharing(0).update_counts();
    for (std::size_t i = 0; i < now.size(); ++i)
      if (speaks_for_peers() && held.stage->leads_group)
        window_.touched()[held.stage->outline->first_parameter + i] = now[i] != held.counts[i] ? 1 : 0;
    held.counts = now;
  }
}

// Every worker that holds a part of the network has its own notes of a lane: what each wishes, and the loss
// where the network ends.
void ServedReplica::put_notes(const Held& held, std::int64_t lane) {
  const TreeNode lanes = options_.link->lanes();
  const std::span<const float> values = held.stage->group->sharing(0).lane_values(lane);
  const std::span<float> notes = window_.notes(options_.world->rank(), lane - lanes.begin);
  if (&held == &held_.front()) std::fill(notes.begin(), notes.end(), 0.0F);
  constexpr std::size_t kLoss = offsetof(LaneNotes, loss) / sizeof(float);
  for (std::size_t i = 0; i < kNoteFloats; ++i)
    if (i != kLoss || held.stage->leads_group) notes[i] += values[held.buffers + i];
}

void ServedReplica::put_rows() {
  if (!speaks_for_peers()) return;
  const TreeNode lanes = options_.link->lanes();
  for (const Held& held : held_)
    for (std::int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
      write_runs(held.buffers_spoken_for, held.stage->group->sharing(0).lane_values(lane).data(),
                 window_.row(lane - lanes.begin).data());
      put_notes(held, lane);
    }
}

// What was collected for a parameter in an earlier step must not count again, in those elements.
std::vector<std::int32_t> ServedReplica::forget_untouched(compute::Span own) {
  std::vector<std::int32_t> untouched;
  const std::vector<compute::Entry>& entries = layout_.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (window_.touched()[i] != 0) continue;
    untouched.push_back(std::int32_t(i));
    const std::size_t begin = std::max(own.begin, entries[i].offset);
    const std::size_t end = std::min(own.end, entries[i].offset + entries[i].count);
    if (begin < end) std::fill_n(gradient().data() + begin, end - begin, 0.0F);
  }
  return untouched;
}

// Asked for where a method searches, whose workers hold the network whole.
double ServedReplica::loss(const StepPlan& plan) const {
  if (is_cut()) return 0;
  const std::span<const float> mean = group().sharing(0).mean_buffers();
  LaneNotes notes;
  std::memcpy(static_cast<void*>(&notes), mean.data() + (mean.size() - kNoteFloats), sizeof(notes));
  return outcome_of(notes, size_of(plan).filled_lanes).loss;
}

void ServedReplica::exchange(const StepPlan& plan) {
  const TreeNode lanes = options_.link->lanes();
  const auto first = plan.lane_samples.begin();
  const compute::Span own = options_.link->own(layout_.size());
  options_.link->exchange(
      {.step = plan.step,
       .lr = plan.lr,
       .samples = std::accumulate(first + lanes.begin, first + lanes.end, std::int64_t{0}),
       .step_samples = std::accumulate(first, plan.lane_samples.end(), std::int64_t{0}),
       .untouched = forget_untouched(own),
       .loss = loss(plan),
       .lane_values = is_cut() ? std::span<const float>() : group().sharing(0).mean_buffers()},
      gradient().subspan(own.begin, own.size()), parameters().subspan(own.begin, own.size()));
  options_.link->read_answers(window_.answers());
}

void ServedReplica::meet_lanes(const StepPlan& plan) {
  const TreeNode lanes = options_.link->lanes();
  std::vector<std::int32_t> empty;
  for (std::int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
    const std::span<float> notes = window_.row(lane - lanes.begin).last(kNoteFloats);
    std::fill(notes.begin(), notes.end(), 0.0F);
    for (int worker = 0; worker < options_.world->size(); ++worker)
      for (std::size_t i = 0; i < kNoteFloats; ++i) notes[i] += window_.notes(worker, lane - lanes.begin)[i];
    if (plan.lane_samples[std::size_t(lane)] == 0) empty.push_back(std::int32_t(lane));
  }
  window_.step() = options_.link->meet(plan.step, window_.rows(), empty, window_.mean()) + 1;
}

void ServedReplica::read_mean(std::size_t stage, compute::BufferSet& buffers) {
  std::vector<float> values(buffers.size());
  copy_runs(held_[stage].buffers_all, window_.mean().data(), values.data());
  buffers.write(values);
}

LaneNotes ServedReplica::mean_notes() {
  LaneNotes notes;
  std::memcpy(static_cast<void*>(&notes), window_.mean().last(kNoteFloats).data(), sizeof(notes));
  return notes;
}

}  // namespace distbelief::mesh
