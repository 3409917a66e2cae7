#pragma once

#include <filesystem>
#include <string>

#include <torch/torch.h>

#include <optional>

#include "distbelief/checkpoint/store.h"
#include "distbelief/comm/world.h"
#include "distbelief/strategy/allreduce_group.h"
#include "distbelief/train/run_progress.h"

namespace distbelief::train {

// Saves and restores the training state of a run. Rank 0 reads and writes; the others take part where
// state lies on several hosts. What is saved: model.NAME (parameters and buffers), optimizer.STATE.NAME,
// and in the manifest the progress and how many updates each parameter has had.
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

  enum class Kind { kRegular, kBest };
  // Collective. A failed write (a full disk) throws Error(kUnavailable) on rank 0; older ones stay.
  void save(strategy::AllreduceGroup& group, const torch::nn::Module& network, const RunProgress& progress,
            Kind kind);

 private:
  World& world_;
  checkpoint::Store store_;
  std::size_t keep_;
  std::string build_;
  std::optional<checkpoint::Loaded> loaded_;
};

// Every rank's text on all ranks. Collective.
std::vector<std::string> exchange_texts(comm::Communicator& workers, const std::string& own);
std::string broadcast_text(comm::Communicator& workers, std::string text, int root);

}  // namespace distbelief::train
