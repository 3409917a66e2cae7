#pragma once

#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "distbelief/comm/world.h"
#include "distbelief/train/data_parallel.h"

// A fault-tolerant training loop for user programs: docs/reference/library.md. Link distbelief::elastic.
namespace distbelief::elastic {

struct TrackedOptions {
  // Without `distbelief launch`: folder for checkpoints, from which the loop also resumes; empty: none. Under
  // `distbelief launch` checkpoints go to the run folder.
  std::filesystem::path folder{};
  std::chrono::milliseconds checkpoint_every{60'000};  // 0: only at the end and when stopped
};

// Saves the training state of a loop (parameters, buffers, optimizer state, position in the epoch, torch's
// random generator) so that it can resume. Under `distbelief launch` it saves to shared memory and the run
// folder; alone or under mpirun to a folder, if one is given. Obeys the supervisor's orders.
//
// Collective: all workers make one, commit and leave equally often. Used by one thread. All arguments are
// borrowed.
class Tracked {
 public:
  // Under `distbelief launch`, first blocks until this worker's turn. Restores the newest state, if any, and
  // the sampler's position; make the data loader afterwards, because it copies the sampler. Throws
  // Error(kBadInput) for the state of another model.
  Tracked(World& world, torch::nn::Module& model, torch::optim::Optimizer& optimizer, EpochSampler& sampler,
          TrackedOptions options = {});
  Tracked(World& world, torch::nn::Module& model, DataParallel& parallel, EpochSampler& sampler,
          TrackedOptions options = {});
  ~Tracked();  // without leave(): tells the supervisor that the work is done, unless an exception ends it
  Tracked(const Tracked&) = delete;
  Tracked& operator=(const Tracked&) = delete;

  std::int64_t epoch() const;  // whole epochs done
  std::int64_t step() const;   // batches done, over all epochs
  BatchShare share() const;    // samples that a loss over the present batch covers

  // Call after a batch, when the model, the optimizer and the sampler are at the same place on all workers.
  // Saves when a save is due and blocks while the run is paused. Returns false when the run was stopped or
  // other workers have taken over: the state is saved and this worker must leave() now. `distbelief status`
  // shows `loss`.
  bool commit(double loss = 0);

  // The last call. Saves the final state if there is a folder, tells the supervisor, closes the world, and
  // returns the exit code for main(): 0, or 130 when the run was stopped.
  int leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::elastic
