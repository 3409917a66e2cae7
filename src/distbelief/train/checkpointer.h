#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "distbelief/checkpoint/store.h"
#include "distbelief/checkpoint/writer.h"
#include "distbelief/comm/world.h"
#include "distbelief/strategy/allreduce_group.h"
#include "distbelief/train/run_progress.h"

namespace distbelief::train {

// Saves and restores the training state of a run. Rank 0 reads and writes; the others take part where
// state lies on several hosts. What is saved: model.NAME (parameters and buffers), optimizer.STATE.NAME,
// and in the manifest the progress and how many updates each parameter has had. Used by the main thread;
// the disk is written by a thread of its own, on rank 0 from the first save on.
class Checkpointer {
 public:
  // `build` names what the result's bits depend on besides the job; it is kept with each checkpoint.
  Checkpointer(World& world, std::filesystem::path run_dir, std::size_t keep, std::string build);

  struct Restored {
    RunProgress progress;
    std::vector<std::int64_t> update_counts;
    std::string build;
  };
  // Collective: the newest whole checkpoint's progress on all ranks, and on rank 0 its parameters and
  // buffers in `network`. Throws Error(kBadInput) when there is none or it does not fit.
  Restored open(torch::nn::Module& network);
  // After open(), on rank 0: the optimizer's state into the group's arrays.
  void restore_optimizer(strategy::AllreduceGroup& group);

  // Before the first save: asked, on the writer's thread, before a checkpoint gets its name; false discards
  // it, because another generation of workers has taken over. Must stay callable as long as this object.
  void set_fence(std::function<bool()> may_commit);

  // For fault injection, before the first save: called on the writer's thread at each point of a save.
  void set_fault_point(checkpoint::AtPoint at) { at_ = std::move(at); }

  using Kind = checkpoint::Writer::Kind;
  // Collective. Rank 0 copies the state, after waiting for a save that is still being written, and returns;
  // how the save ends is told by take_outcome(). Throws on rank 0 when there is no memory for the copy.
  void save(strategy::AllreduceGroup& group, const torch::nn::Module& network, const RunProgress& progress,
            Kind kind);

  using Outcome = checkpoint::Writer::Outcome;
  // How a save ended, oldest first; nothing when none has since. Costs a load of one flag: ask every step.
  // A failed write (a full disk) is an outcome with Error(kUnavailable); older checkpoints stay. Of rank 0.
  std::optional<Outcome> take_outcome();
  // Returns when everything is written; then take what outcomes there are. No deadline: see
  // checkpoint::Writer. The destructor waits as well.
  void wait();

 private:
  World& world_;
  std::filesystem::path folder_;
  std::size_t keep_;
  std::string build_;
  std::function<bool()> may_commit_;
  checkpoint::AtPoint at_;
  std::optional<checkpoint::Loaded> loaded_;
  std::unique_ptr<checkpoint::Writer> writer_;  // on rank 0, from the first save on
};

// Every rank's text on all ranks. Collective.
std::vector<std::string> exchange_texts(comm::Communicator& workers, const std::string& own);
std::string broadcast_text(comm::Communicator& workers, std::string text, int root);

}  // namespace distbelief::train
