#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "distbelief/checkpoint/snapshot_memory.h"
#include "distbelief/checkpoint/writer.h"
#include "distbelief/comm/world.h"

namespace distbelief::elastic {

// Stores the bytes of a loop's state: in each host's shared memory, written by its first worker, and in a
// folder, written by worker 0. Used by one thread; db-checkpoint writes the folder.
class StateKeeper {
 public:
  struct Options {
    std::string memory;            // name of the shared memory; empty: none
    std::filesystem::path folder;  // for checkpoints; empty: none
    int generation = 1;
  };
  StateKeeper(World& world, Options options);

  bool has_memory() const { return !options_.memory.empty(); }
  bool has_folder() const { return !options_.folder.empty(); }

  // Collective, once, before the first save: the newest state of all, on all workers.
  std::optional<std::string> newest();

  void snapshot(std::string state, std::int64_t step);           // first worker of a host
  void checkpoint(const std::string& state, std::int64_t step);  // worker 0; returns before it is written

  using Outcome = checkpoint::Writer::Outcome;
  std::optional<Outcome> take_outcome();  // result of a checkpoint; never blocks
  void wait();                            // until all checkpoints are written

 private:
  World& world_;
  Options options_;
  std::optional<checkpoint::SnapshotMemory> memory_;
  int next_slot_ = 0;
  std::unique_ptr<checkpoint::Writer> writer_;  // from the first checkpoint on
};

}  // namespace distbelief::elastic
