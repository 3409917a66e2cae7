#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "distbelief/checkpoint/store.h"
#include "distbelief/checkpoint/writer.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/run/run_progress.h"

namespace distbelief::run {

// Saves and restores the training state of a run. Among workers that hold the same stages, the first one
// reads and writes them, or the first one of each host when hosts share out their parameters. The others take
// part when state is spread over hosts. A network that one worker holds whole is one file. For a network that
// is cut, each writing worker writes a part (whole tensors and pieces of tensors) in a folder that all of
// them see. Saved are model.NAME (parameters and buffers), optimizer.STATE.NAME, and in the manifest the
// progress and the update count of each parameter. Used by the main thread; from the first save on, a thread
// of its own writes to the disk.
class Checkpointer {
 public:
  // `build` describes what the result's bits depend on besides the job; it is stored with each checkpoint.
  Checkpointer(World& world, std::filesystem::path run_dir, std::size_t keep, std::string build);

  // The parameters of its stages that a host holds.
  enum class Holding { kAll, kHosts };
  // Call first. `peers` hold the same stages; `tensor_group` holds slices of the same tensors, or is null.
  // Collective.
  void set_parts(const World& peers, const World* tensor_group, Holding holding);
  int parts() const { return parts_; }

  struct Restored {
    RunProgress progress;
    std::vector<std::int64_t> update_counts;  // of the whole network
    std::string build;
  };
  // Collective: returns the newest whole checkpoint's progress on all ranks, and loads its parameters,
  // buffers and optimizer state into the stages' networks and arrays of the writing workers. Throws
  // Error(kBadInput) when there is no checkpoint or it does not fit.
  Restored open(std::span<const mesh::Stage> stages, const World& peers);

  // Call before the first save. The writer's thread calls `may_commit` before a checkpoint gets its name;
  // false discards the checkpoint, because another generation of workers has taken over. Must stay callable
  // as long as this object lives.
  void set_fence(std::function<bool()> may_commit);

  // For fault injection; call before the first save. The writer's thread calls `at` at each point of a save.
  void set_fault_point(AtPoint at) { at_ = std::move(at); }

  using Kind = checkpoint::Writer::Kind;
  // Collective. Writing workers wait for an unfinished save, copy the state and return; take_outcome()
  // reports the result. Throws when there is no memory for the copy.
  void save(std::span<const mesh::Stage> stages, const World& peers, const RunProgress& progress,
            const std::vector<std::int64_t>& update_counts, Kind kind);

  using Outcome = checkpoint::Writer::Outcome;
  // The result of a save, oldest first; empty if no save has ended since the last call. Costs one load of a
  // flag, so it can be called every step. A failed write (a full disk) is an outcome with
  // Error(kUnavailable); older checkpoints stay. Only writing workers have outcomes.
  std::optional<Outcome> take_outcome();
  // Returns when everything is written; take the outcomes afterwards. No deadline: see checkpoint::Writer.
  // The destructor waits too.
  void wait();

  // The hash of the weights, or model.safetensors, from the written checkpoint of that step.
  std::string weights_sha256(std::int64_t step) const;
  void export_model(std::int64_t step, const std::filesystem::path& path,
                    const checkpoint::Metadata& metadata) const;

 private:
  checkpoint::Loaded load(std::int64_t step) const;
  std::string next_attempt();
  void write(std::span<const mesh::Stage> stages, const World& peers, const std::string& attempt,
             const RunProgress& progress, const std::vector<std::int64_t>& update_counts, Kind kind);

  World& world_;
  std::filesystem::path folder_;
  std::size_t keep_;
  std::string build_;
  std::function<bool()> may_commit_;
  AtPoint at_;
  bool writes_ = false;
  int part_ = 0;
  int parts_ = 1;
  const World* tensor_group_ = nullptr;
  std::string session_;  // with several parts: a random word from rank 0
  std::int64_t attempts_ = 0;
  std::unique_ptr<checkpoint::Writer> writer_;  // set by the first save
};

}  // namespace distbelief::run
