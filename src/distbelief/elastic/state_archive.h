#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "distbelief/comm/world.h"
#include "distbelief/train/data_parallel.h"

// The state of a training loop as bytes: a torch archive, which fits any torch::optim.
namespace distbelief::elastic {

struct Position {
  std::int64_t epoch = 0;  // whole epochs done
  std::int64_t batch = 0;  // batches done in the current epoch
  std::int64_t step = 0;   // batches done in total
};

// The saved part of an optimizer: torch's or ours.
class OptimizerState {
 public:
  virtual ~OptimizerState() = default;
  virtual void gather() = 0;  // collective, before save()
  virtual void save(torch::serialize::OutputArchive& archive) const = 0;
  virtual void load(torch::serialize::InputArchive& archive) = 0;  // collective
};
std::unique_ptr<OptimizerState> state_of(torch::optim::Optimizer& optimizer);  // borrowed
std::unique_ptr<OptimizerState> state_of(DataParallel& parallel);

// Every worker's random generator state, one row each. Collective.
torch::Tensor gather_random(World& world);

std::string write_state(const torch::nn::Module& model, const OptimizerState& optimizer,
                        const Position& position, const torch::Tensor& random);
// Collective: takes the same bytes on all workers and restores the model, the optimizer and the random
// generator of each worker that existed at the save. Throws Error(kBadInput) for bytes of another model or
// optimizer.
Position read_state(const std::string& bytes, World& world, torch::nn::Module& model,
                    OptimizerState& optimizer);

}  // namespace distbelief::elastic
