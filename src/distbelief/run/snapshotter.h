#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/checkpoint/snapshot_memory.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/run/fault.h"
#include "distbelief/run/run_progress.h"

namespace distbelief::run {

// The interval between snapshots of this cost, so that they take `share` of the time. Pure.
std::chrono::nanoseconds snapshot_interval(std::chrono::nanoseconds cost, double share);

// Keeps the training state in each host's shared memory, so that the next generation of workers can continue
// from it. All workers take a snapshot at the same step boundary; each writes its part of its host's copy.
// Where a host's workers hold only some of the network, its first worker writes what the workers of others
// send. Used by one thread.
class Snapshotter {
 public:
  struct Options {
    std::string name;  // of the memory; the same for all generations of a run
    int generation = 1;
    std::string build;    // the factors besides the job that determine the result's bits
    double share = 0.01;  // share of the time that snapshots may take
    // Where some host's workers do not hold the whole network between them: the first so many workers, which
    // are a copy of the network, send their state to all hosts. 0: nothing is sent.
    int senders = 0;
    Faults* faults = nullptr;
  };
  Snapshotter(World& world, Options options);

  struct Restored {
    RunProgress progress;
    std::vector<std::int64_t> update_counts;
    std::string build;
    std::vector<float> buffers;
  };
  // Collective, once: prepares the memory for this job's state and returns the newest whole snapshot among
  // all hosts, if any. `buffers` is the number of floats of running statistics in the model.
  std::optional<Restored> open(const std::vector<compute::Layout::Parameter>& parameters,
                               const mesh::AllreduceGroup::Options& group, std::size_t buffers);
  // Collective: loads parameters and optimizer state of that snapshot into the arrays of the stages' groups.
  // `peers` hold the same stages.
  void restore(std::span<const mesh::Stage> stages, const World& peers);

  // Whether the next snapshot is due.
  bool due(std::chrono::steady_clock::time_point now) const;
  // Collective, between two steps.
  void take(std::span<const mesh::Stage> stages, const World& peers, const RunProgress& progress,
            const std::vector<std::int64_t>& update_counts);

  // Invalidates this host's snapshots, so that no generation continues from them. Called by one worker of the
  // host.
  void make_void() { memory_->make_void(); }

  // Every host's snapshots have the state of workers of other hosts.
  bool is_sent() const { return options_.senders > 0; }

  double seconds() const {
    return std::chrono::duration<double>(total_).count();
  }  // total time of all snapshots

  static std::size_t bytes_needed(const std::vector<compute::Layout::Parameter>& parameters,
                                  const mesh::AllreduceGroup::Options& group, std::size_t buffers);

 private:
  void add_pieces(const mesh::Stage& stage, const World& peers);
  void send_pieces();
  void write(const checkpoint::SnapshotMemory::Stamp& stamp, std::size_t pieces, const std::string& text);
  void receive(std::span<const mesh::Stage> stages, const World& peers);
  bool leads() const { return world_.local_rank() == 0; }

  World& world_;
  Options options_;
  std::size_t arena_bytes_ = 0;
  std::size_t states_ = 0;
  std::vector<checkpoint::SnapshotMemory::Piece> pieces_;
  std::vector<std::vector<float>> buffers_;  // memory that pieces_ points to
  std::optional<checkpoint::SnapshotMemory> memory_;
  int source_host_ = -1;                 // the host with the newest snapshot
  int source_ = -1;                      // its first worker
  const std::byte* restored_ = nullptr;  // its state, on that host
  int next_slot_ = 0;
  std::chrono::nanoseconds cost_{};
  std::chrono::nanoseconds total_{};
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace distbelief::run
