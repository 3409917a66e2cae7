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

// Saves and restores the training state of a run. The first of those who hold the same stages reads and
// writes them, or where hosts share out their parameters the first of each host; the others take part where
// state lies on several hosts. A network that one worker holds whole is one file; of one that is cut each
// such worker writes a part, in a folder that all of them see: whole tensors and pieces of tensors. What is
// saved: model.NAME (parameters and buffers), optimizer.STATE.NAME, and in the manifest the progress and how
// many updates each parameter has had. Used by the main thread; the disk is written by a thread of its own,
// from the first save on.
class Checkpointer {
 public:
  // `build` names what the result's bits depend on besides the job; it is kept with each checkpoint.
  Checkpointer(World& world, std::filesystem::path run_dir, std::size_t keep, std::string build);

  // What a host has of the parameters of its stages.
  enum class Holding { kAll, kHosts };
  // Before anything else: who holds the same stages, and with whom this worker has slices of the same
  // tensors, or null. Collective.
  void set_parts(const World& peers, const World* tensor_group, Holding holding);
  int parts() const { return parts_; }

  struct Restored {
    RunProgress progress;
    std::vector<std::int64_t> update_counts;  // of the whole network
    std::string build;
  };
  // Collective: the newest whole checkpoint's progress on all ranks; its parameters, buffers and optimizer
  // state in the stages' networks and arrays of those who write them. Throws Error(kBadInput)
  // when there is none or it does not fit.
  Restored open(std::span<const mesh::Stage> stages, const World& peers);

  // Before the first save: asked, on the writer's thread, before a checkpoint gets its name; false discards
  // it, because another generation of workers has taken over. Must stay callable as long as this object.
  void set_fence(std::function<bool()> may_commit);

  // For fault injection, before the first save: called on the writer's thread at each point of a save.
  void set_fault_point(AtPoint at) { at_ = std::move(at); }

  using Kind = checkpoint::Writer::Kind;
  // Collective. Who writes copies the state, after waiting for a save that is still being written, and
  // returns; how the save ends is told by take_outcome(). Throws when there is no memory for the copy.
  void save(std::span<const mesh::Stage> stages, const World& peers, const RunProgress& progress,
            const std::vector<std::int64_t>& update_counts, Kind kind);

  using Outcome = checkpoint::Writer::Outcome;
  // How a save ended, oldest first; nothing when none has since. Costs a load of one flag: ask every step.
  // A failed write (a full disk) is an outcome with Error(kUnavailable); older checkpoints stay. Where it
  // writes.
  std::optional<Outcome> take_outcome();
  // Returns when everything is written; then take what outcomes there are. No deadline: see
  // checkpoint::Writer. The destructor waits as well.
  void wait();

  // From the checkpoint of that step, which is written: the weights' hash, and model.safetensors.
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
  std::string session_;  // of several parts, told by rank 0
  std::int64_t attempts_ = 0;
  std::unique_ptr<checkpoint::Writer> writer_;  // from the first save on
};

}  // namespace distbelief::run
