#include "distbelief/replica/replica_view.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace distbelief::replica {

namespace {

mesh::ReplicaWindow::Shape shape_for(Replica& replica, const ReplicaViewOptions& options) {
  mesh::ReplicaWindow::Shape shape = mesh::window_shape(
      replica.partition().outline(), replica.world().local_size(), options.lanes.end - options.lanes.begin);
  shape.slices = options.slices;
  if (!replica.partition().is_cut()) shape.elements = 0;
  return shape;
}

}  // namespace

ReplicaView::ReplicaView(Replica& replica, const ReplicaViewOptions& options)
    : replica_(replica),
      options_(options),
      layout_(replica.partition().outline().parameters, 1),
      window_(replica.world().host_group(), shape_for(replica, options)) {
  for (const mesh::Stage& stage : replica_.stages()) {
    Held& held =
        held_.emplace_back(Held{.stage = &stage, .buffers = compute::BufferSet(*stage.network).size()});
    held.counts = stage.group->sharing(0).update_counts();
    held.buffers_spoken_for = mesh::buffer_runs(stage, mesh::Which::kSpokenFor);
    held.buffers_all = mesh::buffer_runs(stage, mesh::Which::kAll);
    if (!is_cut()) continue;
    held.spoken_for = mesh::arena_runs(stage, replica_.partition().peers(), mesh::Which::kSpokenFor);
    held.all = mesh::arena_runs(stage, replica_.partition().peers(), mesh::Which::kAll);
  }
}

std::span<float> ReplicaView::gradient() {
  return is_cut() ? window_.gradient() : std::span(replica_.group().state(0), layout_.size());
}

std::span<float> ReplicaView::parameters() {
  return is_cut() ? window_.parameters() : std::span(replica_.group().parameters(), layout_.size());
}

void ReplicaView::from_first(std::vector<std::int64_t>& numbers) {
  World& world = replica_.world();
  if (world.size() == 1) return;
  meet();
  auto count = std::int64_t(numbers.size());
  world.communicator().broadcast(comm::view(&count, 1), 0);
  numbers.resize(std::size_t(count));
  world.communicator().broadcast(comm::view(numbers.data(), numbers.size()), 0);
}

void ReplicaView::put() {
  for (const Held& held : held_) {
    if (is_cut())
      mesh::write_runs(held.spoken_for, held.stage->group->parameters(), window_.parameters().data());
    if (!speaks_for_peers()) continue;
    const compute::BufferSet buffers(*held.stage->network);
    std::vector<float> values(buffers.size());
    buffers.read(values);
    mesh::write_runs(held.buffers_spoken_for, values.data(), window_.mean().data());
  }
  meet();
}

void ReplicaView::take() {
  if (!is_cut()) return;
  for (const Held& held : held_)
    mesh::copy_runs(held.all, window_.parameters().data(), held.stage->group->parameters());
  meet();
}

void ReplicaView::collect() {
  note_touched();
  for (const Held& held : held_)
    if (is_cut()) mesh::write_runs(held.spoken_for, held.stage->group->state(0), window_.gradient().data());
  if (speaks_for_peers()) put_rows();
  meet();
}

void ReplicaView::note_touched() {
  for (Held& held : held_) {
    const std::vector<std::int64_t>& now = held.stage->group->sharing(0).update_counts();
    for (std::size_t i = 0; i < now.size(); ++i)
      if (speaks_for_peers() && held.stage->leads_group)
        window_.touched()[held.stage->outline->first_parameter + i] = now[i] != held.counts[i] ? 1 : 0;
    held.counts = now;
  }
}

// The notes of a lane are spread over the workers that carry it: wishes are on all of them, the loss is
// where the network ends.
void ReplicaView::put_notes(const Held& held, std::int64_t lane) {
  const std::span<const float> values = held.stage->group->sharing(0).lane_values(lane);
  const std::span<float> notes = window_.notes(replica_.world().rank(), lane - options_.lanes.begin);
  if (&held == &held_.front()) std::fill(notes.begin(), notes.end(), 0.0F);
  constexpr std::size_t kLoss = offsetof(mesh::LaneNotes, loss) / sizeof(float);
  for (std::size_t i = 0; i < mesh::kNoteFloats; ++i)
    if (i != kLoss || held.stage->leads_group) notes[i] += values[held.buffers + i];
}

void ReplicaView::put_rows() {
  for (const Held& held : held_)
    for (std::int64_t lane = options_.lanes.begin; lane < options_.lanes.end; ++lane) {
      mesh::write_runs(held.buffers_spoken_for, held.stage->group->sharing(0).lane_values(lane).data(),
                       window_.row(lane - options_.lanes.begin).data());
      put_notes(held, lane);
    }
}

std::span<const float> ReplicaView::lane_rows() {
  for (std::int64_t lane = 0; lane < options_.lanes.end - options_.lanes.begin; ++lane) {
    const std::span<float> notes = window_.row(lane).last(mesh::kNoteFloats);
    std::fill(notes.begin(), notes.end(), 0.0F);
    for (int worker = 0; worker < replica_.world().size(); ++worker)
      for (std::size_t i = 0; i < mesh::kNoteFloats; ++i) notes[i] += window_.notes(worker, lane)[i];
  }
  return window_.rows();
}

// A gradient that was collected in an earlier step must not count again.
std::vector<std::int32_t> ReplicaView::forget_untouched(compute::Span own) {
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

void ReplicaView::take_statistics() {
  replica_.set_statistics([this](std::size_t stage, compute::BufferSet& buffers) {
    std::vector<float> values(buffers.size());
    mesh::copy_runs(held_[stage].buffers_all, window_.mean().data(), values.data());
    buffers.write(values);
  });
}

mesh::LaneNotes ReplicaView::mean_notes() {
  mesh::LaneNotes notes;
  std::memcpy(static_cast<void*>(&notes), window_.mean().last(mesh::kNoteFloats).data(), sizeof(notes));
  return notes;
}

}  // namespace distbelief::replica
