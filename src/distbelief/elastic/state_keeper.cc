#include "distbelief/elastic/state_keeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

#include "distbelief/comm/texts.h"
#include "distbelief/run/checkpointer.h"

namespace distbelief::elastic {
namespace {

using checkpoint::SnapshotMemory;

constexpr std::size_t kTextBytes = 64;
constexpr std::size_t kKeepCheckpoints = 2;
constexpr const char* kStateTensor = "state";

// Adds room, because the state's size changes a little over time.
std::size_t roomy(std::size_t bytes) { return bytes + bytes / 16 + (std::size_t{64} << 10); }

std::string name_while_made(const std::string& name) { return name + "-made"; }

// The used bytes of the memory's state; the text gives their number.
std::string content(const SnapshotMemory::Whole& whole, std::size_t most) {
  std::size_t bytes = 0;
  std::from_chars(whole.text.data(), whole.text.data() + whole.text.size(), bytes);
  return {reinterpret_cast<const char*>(whole.state), std::min(bytes, most)};
}

std::string content(const checkpoint::Loaded& loaded) {
  const checkpoint::TensorView& state = loaded.tensor(kStateTensor);
  return {reinterpret_cast<const char*>(state.data), state.byte_count()};
}

}  // namespace

StateKeeper::StateKeeper(World& world, Options options) : world_(world), options_(std::move(options)) {}

std::optional<std::string> StateKeeper::newest() {
  std::optional<SnapshotMemory::Whole> kept;
  if (has_memory() && world_.local_rank() == 0) {
    SnapshotMemory::remove(name_while_made(options_.memory));  // left by a killed process
    if (auto found = SnapshotMemory::find(options_.memory)) memory_.emplace(std::move(*found));
    if (memory_) kept = memory_->newest();
    if (kept) next_slot_ = 1 - kept->slot;
  }
  std::optional<checkpoint::Loaded> saved;
  if (has_folder() && world_.rank() == 0)
    saved = checkpoint::Store(options_.folder).load_latest([](const auto& entry, const Error& error) {
      fmt::print(stderr, "distbelief: checkpoint {} is damaged and passed over: {}\n", entry.folder.string(),
                 error.message());
    });
  // The step of each host's snapshot and of the checkpoint, plus one; 0: none.
  const auto hosts = std::size_t(world_.hosts());
  std::vector<std::int64_t> steps(hosts + 1);
  if (kept) steps[std::size_t(world_.host())] = kept->step + 1;
  if (saved) steps[hosts] = saved->entry.step + 1;
  world_.communicator().allreduce(comm::view(steps.data(), steps.size()), comm::ReduceOp::kSum);
  const auto best = std::max_element(steps.begin(), steps.end());
  if (*best == 0) return std::nullopt;
  const auto place = std::size_t(best - steps.begin());
  const std::vector<int>& workers = world_.workers_per_host();
  const int source =
      place == hosts ? 0 : std::accumulate(workers.begin(), workers.begin() + std::int64_t(place), 0);
  std::string own;
  if (world_.rank() == source)
    own = place == hosts ? content(*saved) : content(*kept, memory_->shape().state_bytes);
  return comm::broadcast_text(world_.communicator(), std::move(own), source);
}

// Replaces memory that has become too small by larger memory that already holds a snapshot, so a snapshot
// exists at any time.
void StateKeeper::snapshot(std::string state, std::int64_t step) {
  const std::string size = std::to_string(state.size());
  const bool fits = memory_ && state.size() <= memory_->shape().state_bytes;
  if (!fits) {
    memory_.reset();
    memory_.emplace(SnapshotMemory::open(name_while_made(options_.memory),
                                         {.state_bytes = roomy(state.size()), .text_bytes = kTextBytes}));
    next_slot_ = 0;
  }
  state.resize(memory_->shape().state_bytes);
  const SnapshotMemory::Piece piece{{0, state.size()}, reinterpret_cast<const std::byte*>(state.data())};
  memory_->write_part(next_slot_, 0, {step, options_.generation, 1}, {&piece, 1}, size);
  next_slot_ = 1 - next_slot_;
  if (!fits) memory_->take_name(options_.memory);
}

void StateKeeper::checkpoint(const std::string& state, std::int64_t step) {
  if (!writer_)
    writer_ = std::make_unique<checkpoint::Writer>(
        checkpoint::Writer::Options{.folder = options_.folder, .keep = kKeepCheckpoints, .store = {}});
  const checkpoint::TensorView view{kStateTensor,
                                    ElementType::kUint8,
                                    {std::int64_t(state.size())},
                                    reinterpret_cast<const std::byte*>(state.data())};
  checkpoint::Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors = {&view, 1};
  writer_->save(snapshot, checkpoint::Writer::Kind::kRegular);
}

std::optional<StateKeeper::Outcome> StateKeeper::take_outcome() {
  return writer_ ? writer_->take_outcome() : std::nullopt;
}

void StateKeeper::wait() {
  if (writer_) writer_->wait();
}

}  // namespace distbelief::elastic
