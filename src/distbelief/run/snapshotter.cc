#include "distbelief/run/snapshotter.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/json_text.h"
#include "distbelief/comm/texts.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/run/checkpointer.h"

namespace distbelief::run {
namespace {

using checkpoint::SnapshotMemory;
using Clock = std::chrono::steady_clock;
using Parameters = std::vector<compute::Layout::Parameter>;

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;  // sent at a time

std::vector<SnapshotMemory::Place> in_chunks(const SnapshotMemory::Place& place) {
  std::vector<SnapshotMemory::Place> chunks;
  const std::uint64_t together = kChunkBytes / std::max<std::uint64_t>(1, place.bytes);  // runs
  for (std::uint64_t run = 0; run < place.runs; run += std::max<std::uint64_t>(1, together)) {
    const std::uint64_t at = place.at + run * place.stride;
    if (together > 0) chunks.push_back({at, place.bytes, std::min(together, place.runs - run), place.stride});
    for (std::uint64_t begin = 0; together == 0 && begin < place.bytes; begin += kChunkBytes)
      chunks.push_back({at + begin, std::min<std::uint64_t>(kChunkBytes, place.bytes - begin)});
  }
  return chunks;
}

// Identifies the layout of a snapshot: each parameter with its position, and the optimizer's arrays.
std::uint64_t fingerprint(const compute::Layout& layout, const std::vector<std::string>& states) {
  Xxh3 sum;
  const auto add = [&](const std::string& text) { sum.update(text.c_str(), text.size() + 1); };
  for (const compute::Entry& entry : layout.entries()) {
    add(entry.name);
    add(to_string(entry.shape));
    sum.update(&entry.offset, sizeof(entry.offset));
  }
  for (const std::string& state : states) add(state);
  return sum.value();
}

SnapshotMemory::Shape shape_for(const Parameters& parameters, const mesh::AllreduceGroup::Options& group,
                                std::size_t buffers) {
  const compute::Layout layout(parameters, group.bucket_bytes);
  const auto states = compute::make_optimizer(group.optimizer)->state_names();
  return {.state_bytes = (layout.size() * (1 + states.size()) + buffers) * sizeof(float),
          .text_bytes = 4096 + 24 * parameters.size(),
          .pieces = 4096 + 256 * parameters.size(),
          .fingerprint = fingerprint(layout, states)};
}

}  // namespace

std::chrono::nanoseconds snapshot_interval(std::chrono::nanoseconds cost, double share) {
  return std::chrono::nanoseconds(std::int64_t(double(cost.count()) / share));
}

Snapshotter::Snapshotter(World& world, Options options) : world_(world), options_(std::move(options)) {}

std::size_t Snapshotter::bytes_needed(const Parameters& parameters,
                                      const mesh::AllreduceGroup::Options& group, std::size_t buffers) {
  return SnapshotMemory::bytes_needed(shape_for(parameters, group, buffers));
}

std::optional<Snapshotter::Restored> Snapshotter::open(const Parameters& parameters,
                                                       const mesh::AllreduceGroup::Options& group,
                                                       std::size_t buffers) {
  const SnapshotMemory::Shape shape = shape_for(parameters, group, buffers);
  arena_bytes_ = compute::Layout(parameters, group.bucket_bytes).size() * sizeof(float);
  states_ = compute::make_optimizer(group.optimizer)->state_names().size();
  if (leads()) memory_.emplace(SnapshotMemory::open(options_.name, shape));
  world_.communicator().barrier();
  if (!leads()) memory_.emplace(SnapshotMemory::open(options_.name, shape));

  const std::optional<SnapshotMemory::Whole> own = leads() ? memory_->newest() : std::nullopt;
  // Step of each host's newest snapshot plus one; 0: none.
  std::vector<std::int64_t> steps(std::size_t(world_.hosts()));
  if (own) steps[std::size_t(world_.host())] = own->step + 1;
  world_.communicator().allreduce(comm::view(steps.data(), steps.size()), comm::ReduceOp::kSum);
  const auto newest = std::max_element(steps.begin(), steps.end());
  if (*newest == 0) return std::nullopt;
  source_host_ = int(newest - steps.begin());
  const std::vector<int>& workers = world_.workers_per_host();
  const int source = source_ = std::accumulate(workers.begin(), workers.begin() + source_host_, 0);
  const bool is_source = world_.rank() == source;

  std::int64_t slot = is_source ? own->slot : 0;
  world_.communicator().broadcast(comm::view(&slot, 1), source);
  Restored restored;
  restored.buffers.resize(buffers);
  const std::size_t at = (1 + states_) * arena_bytes_;
  if (is_source && buffers > 0)
    std::memcpy(restored.buffers.data(), own->state + at, buffers * sizeof(float));
  world_.communicator().broadcast(comm::view(restored.buffers.data(), buffers), source);
  const nlohmann::json text = parse_json(
      comm::broadcast_text(world_.communicator(), is_source ? own->text : "", source), "the snapshot");
  restored.progress = run_progress_from_json(text.at("run"));
  restored.update_counts = text.at("update_counts").get<std::vector<std::int64_t>>();
  restored.build = text.at("build").get<std::string>();
  if (world_.host() == source_host_) restored_ = memory_->state(int(slot));
  next_slot_ = 1 - int(slot);
  return restored;
}

// The source's first worker sends the whole network's state; each worker takes its stages out of it.
void Snapshotter::receive(std::span<const mesh::Stage> stages, const World& peers) {
  const std::size_t elements = arena_bytes_ / sizeof(float);
  constexpr std::size_t kChunk = kChunkBytes / sizeof(float);
  std::vector<float> some;
  for (std::size_t i = 0; i < 1 + states_; ++i)
    for (std::size_t begin = 0; begin < elements; begin += kChunk) {
      some.resize(std::min(kChunk, elements - begin));
      if (world_.rank() == source_)
        std::memcpy(some.data(), restored_ + i * arena_bytes_ + begin * sizeof(float),
                    some.size() * sizeof(float));
      world_.communicator().broadcast(comm::view(some.data(), some.size()), source_);
      for (const mesh::Stage& stage : stages)
        mesh::copy_runs(mesh::arena_runs(stage, peers, mesh::Which::kAll), some, begin,
                        i == 0 ? stage.group->parameters() : stage.group->state(int(i) - 1));
    }
  for (const mesh::Stage& stage : stages) {
    stage.group->barrier();
    stage.group->forget_gathered();
  }
}

void Snapshotter::restore(std::span<const mesh::Stage> stages, const World& peers) {
  if (is_sent()) return receive(stages, peers);
  for (const mesh::Stage& stage : stages) {
    mesh::AllreduceGroup& group = *stage.group;
    const std::vector<mesh::StageRuns> runs = mesh::arena_runs(stage, peers, mesh::Which::kAll);
    for (std::size_t i = 0; restored_ != nullptr && i < 1 + states_; ++i)
      mesh::copy_runs(runs, reinterpret_cast<const float*>(restored_ + i * arena_bytes_),
                      i == 0 ? group.parameters() : group.state(int(i) - 1));
    group.barrier();
    group.spread_state(source_host_);
  }
}

bool Snapshotter::due(Clock::time_point now) const {
  return now - last_ >= snapshot_interval(cost_, options_.share);
}

// Adds this worker's part of a stage: a slice of each array, and on one worker the running statistics.
void Snapshotter::add_pieces(const mesh::Stage& stage, const World& peers) {
  const mesh::AllreduceGroup& group = *stage.group;
  const auto add = [&](std::size_t array_at, const float* array, const mesh::StageRuns& runs) {
    static constexpr std::array<float, compute::kBlock> kZeros{};
    SnapshotMemory::Piece piece;
    piece.at = array_at + runs.whole * sizeof(float);
    piece.bytes = runs.count * sizeof(float);
    piece.runs = runs.runs;
    piece.stride = runs.stride * sizeof(float);
    piece.from = reinterpret_cast<const std::byte*>(
        runs.local == mesh::StageRuns::kNowhere ? kZeros.data() : array + runs.local);
    pieces_.push_back(piece);
  };
  const std::vector<mesh::StageRuns> runs = is_sent()
                                                ? mesh::arena_runs(stage, 0, 1, mesh::Which::kSpokenFor)
                                                : mesh::arena_runs(stage, peers, mesh::Which::kSpokenFor);
  for (std::size_t i = 0; i < 1 + states_; ++i)
    for (const mesh::StageRuns& each : runs)
      add(i * arena_bytes_, i == 0 ? group.parameters() : group.state(int(i) - 1), each);
  if (peers.local_rank() != 0 || stage.outline->buffers == 0) return;
  const compute::BufferSet own(*stage.network);
  std::vector<float>& buffers = buffers_.emplace_back(own.size());
  own.read(buffers);
  for (const mesh::StageRuns& each : mesh::buffer_runs(stage, mesh::Which::kSpokenFor))
    add((1 + states_) * arena_bytes_, buffers.data(), each);
}

// Each sender's pieces go into the memory of every host; afterwards pieces_ are all of them, in place.
void Snapshotter::send_pieces() {
  comm::Communicator& workers = world_.communicator();
  if (leads()) memory_->begin_part(next_slot_, 0);
  std::vector<std::byte> bytes(kChunkBytes);
  std::vector<SnapshotMemory::Piece> all;
  for (int sender = 0; sender < options_.senders; ++sender) {
    const bool sends = world_.rank() == sender;
    auto count = std::int64_t(sends ? pieces_.size() : 0);
    workers.broadcast(comm::view(&count, 1), sender);
    std::vector<SnapshotMemory::Place> places(static_cast<std::size_t>(count));
    if (sends) std::copy(pieces_.begin(), pieces_.end(), places.begin());
    workers.broadcast(comm::view(reinterpret_cast<std::byte*>(places.data()),
                                 places.size() * sizeof(SnapshotMemory::Place)),
                      sender);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::byte* from = sends ? pieces_[i].from : nullptr;
      for (const SnapshotMemory::Place& chunk : in_chunks(places[i])) {
        const std::size_t size = chunk.runs * chunk.bytes;
        if (sends) std::memcpy(bytes.data(), std::exchange(from, from + size), size);
        workers.broadcast(comm::view(bytes.data(), size), sender);
        for (std::uint64_t run = 0; leads() && run < chunk.runs; ++run)
          std::memcpy(memory_->state(next_slot_) + chunk.at + run * chunk.stride,
                      bytes.data() + run * chunk.bytes, chunk.bytes);
      }
      all.push_back({places[i], nullptr});
    }
  }
  pieces_ = std::move(all);
}

void Snapshotter::write(const SnapshotMemory::Stamp& stamp, std::size_t pieces, const std::string& text) {
  if (world_.local_rank() < stamp.parts)
    memory_->write_part(next_slot_, world_.local_rank(), stamp, std::span(pieces_).first(pieces), text);
}

// No barrier is needed on one host: nobody changes parameters or state before all workers, including this
// one, have handed in their gradients of the next step.
void Snapshotter::take(std::span<const mesh::Stage> stages, const World& peers, const RunProgress& progress,
                       const std::vector<std::int64_t>& update_counts) {
  const auto begin = Clock::now();
  pieces_.clear();
  buffers_.clear();
  buffers_.reserve(stages.size());
  for (const mesh::Stage& stage : stages) {
    if (is_sent())
      stage.group->gather_state();
    else
      stage.group->share_state();
    if (!is_sent() || world_.rank() < options_.senders) add_pieces(stage, peers);
  }
  if (is_sent()) send_pieces();
  std::string text;
  if (world_.local_rank() == 0)
    text =
        nlohmann::json{
            {"run", to_json(progress)}, {"update_counts", update_counts}, {"build", options_.build}}
            .dump();
  if (is_sent() && !leads()) pieces_.clear();
  const SnapshotMemory::Stamp stamp{progress.step, options_.generation, is_sent() ? 1 : world_.local_size()};
  if (options_.faults) {
    // Writes half of it first, so that a death in between leaves it half written.
    write(stamp, pieces_.size() / 2, text);
    options_.faults->pass("mid-snapshot", progress.step);
  }
  write(stamp, pieces_.size(), text);
  if (options_.faults && options_.faults->wants_corrupt_snapshot(progress.step) && !pieces_.empty()) {
    memory_->state(next_slot_)[pieces_[0].at] ^= std::byte{1};
    raise(SIGKILL);
  }
  for (const mesh::Stage& stage : stages) stage.group->forget_gathered();
  next_slot_ = 1 - next_slot_;
  last_ = Clock::now();
  const std::chrono::nanoseconds took = last_ - begin;
  cost_ = cost_.count() == 0 ? took : (cost_ + took) / 2;
  total_ += took;
}

}  // namespace distbelief::run
