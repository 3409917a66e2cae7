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

// How long to wait between snapshots that take `cost` each, so that they take `share` of the time. Pure.
std::chrono::nanoseconds snapshot_interval(std::chrono::nanoseconds cost, double share);

// Keeps the training state in each host's shared memory, from where the next generation of workers goes on.
// All workers take a snapshot at the same step boundary, each writing its part of its host's copy. One
// thread.
class Snapshotter {
 public:
  struct Options {
    std::string name;  // of the memory, the same for all generations of a run
    int generation = 1;
    std::string build;    // what the result's bits depend on besides the job
    double share = 0.01;  // of the time that snapshots may take
    Faults* faults = nullptr;
  };
  Snapshotter(World& world, Options options);

  struct Restored {
    RunProgress progress;
    std::vector<std::int64_t> update_counts;
    std::string build;
    std::vector<float> buffers;
  };
  // Collective, once: prepares the memory for this job's state and gives the newest snapshot of all hosts, if
  // one is whole. `buffers` is how many floats of running statistics the model has.
  std::optional<Restored> open(const std::vector<compute::Layout::Parameter>& parameters,
                               const mesh::AllreduceGroup::Options& group, std::size_t buffers);
  // Collective: the parameters and the optimizer's state of that snapshot into the arrays of the stages'
  // groups. `peers` are those who hold the same stages.
  void restore(std::span<const mesh::Stage> stages, const World& peers);

  // Whether it is time for another.
  bool due(std::chrono::steady_clock::time_point now) const;
  // Collective, between two steps.
  void take(std::span<const mesh::Stage> stages, const World& peers, const RunProgress& progress,
            const std::vector<std::int64_t>& update_counts);

  // This host's snapshots are not to be trusted: nobody goes on from them. By one worker of the host.
  void make_void() { memory_->make_void(); }

  double seconds() const { return std::chrono::duration<double>(total_).count(); }  // that all took

  static std::size_t bytes_needed(const std::vector<compute::Layout::Parameter>& parameters,
                                  const mesh::AllreduceGroup::Options& group, std::size_t buffers);

 private:
  void add_pieces(const mesh::Stage& stage, const World& peers);
  World& world_;
  Options options_;
  std::size_t arena_bytes_ = 0;
  std::size_t states_ = 0;
  std::vector<checkpoint::SnapshotMemory::Piece> pieces_;
  std::vector<std::vector<float>> buffers_;  // that pieces_ point to
  std::optional<checkpoint::SnapshotMemory> memory_;
  int source_host_ = -1;                 // that has the newest
  const std::byte* restored_ = nullptr;  // its state, on that host
  int next_slot_ = 0;
  std::chrono::nanoseconds cost_{};
  std::chrono::nanoseconds total_{};
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace distbelief::run
