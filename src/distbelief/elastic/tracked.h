#pragma once

#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "distbelief/comm/world.h"
#include "distbelief/train/data_parallel.h"

// A training loop of one's own that survives: docs/reference/library.md. Link distbelief::elastic.
namespace distbelief::elastic {

struct TrackedOptions {
  // Without `distbelief launch`: where checkpoints go, and what to go on from; empty: nowhere. Under it they
  // go to the run folder.
  std::filesystem::path folder{};
  std::chrono::milliseconds checkpoint_every{60'000};  // 0: only at the end and when stopped
};

// Keeps what a loop has trained so far (parameters, buffers, the optimizer's state, the place in the epoch,
// torch's random generator) so that it can be gone on with: under `distbelief launch` in shared memory and in
// the run folder, alone or under mpirun in a folder if one is given. Obeys the supervisor's orders.
//
// Collective: all workers make one, commit and leave equally often. One thread. Everything given is borrowed.
class Tracked {
 public:
  // Under `distbelief launch` waits for this worker's turn. Then brings back the newest state, if there is
  // any, and the sampler to its place: so make the data loader, which copies the sampler, afterwards. Throws
  // Error(kBadInput) when the state is that of another model.
  Tracked(World& world, torch::nn::Module& model, torch::optim::Optimizer& optimizer, EpochSampler& sampler,
          TrackedOptions options = {});
  Tracked(World& world, torch::nn::Module& model, DataParallel& parallel, EpochSampler& sampler,
          TrackedOptions options = {});
  ~Tracked();  // without leave(): tells the supervisor that the work is done, unless an exception ends it
  Tracked(const Tracked&) = delete;
  Tracked& operator=(const Tracked&) = delete;

  std::int64_t epoch() const;  // whole epochs done
  std::int64_t step() const;   // batches done, of all epochs
  BatchShare share() const;    // what a loss over the present batch stands for

  // A batch is done: the model, the optimizer and the sampler are at the same place on all workers. Saves
  // when that is due and waits while the run is paused. false: this worker has to leave() now, because the
  // run was stopped or other workers have taken over; all is saved. `loss` is shown by `distbelief status`.
  bool commit(double loss = 0);

  // The last call: saves the last state where there is a folder, tells the supervisor, closes the world, and
  // gives what main() should return: 0, or 130 when the run was stopped.
  int leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::elastic
