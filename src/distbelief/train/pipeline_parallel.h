#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/comm/world.h"
#include "distbelief/model/network.h"

// A network of one's own that is too large, or too slow, for one process.
namespace distbelief {

// A list of blocks trained by all workers together: each holds a stage of it, and the samples of a step flow
// through the stages as micro-batches, which are lanes: the result has the bits of one worker with the same
// lanes. Workers beyond one pipeline are further replicas. All calls are collective; one thread.
class PipelineParallel {
 public:
  struct Options {
    int pipeline = 0;               // workers that a replica is cut over; 0: all of them
    std::int64_t lanes = 0;         // micro-batches of a step, over all replicas; 0: 4 for every worker
    std::string schedule = "1f1b";  // gpipe, 1f1b
    std::vector<int> cuts{};        // first block of every stage but the first; empty: measured
    bool recompute = false;         // activations inside a stage are computed again for backward
    OptimizerConfig optimizer;
    double clip_norm = 0;
    std::uint64_t seed = 1;  // of blocks that draw from model::current_generator()
  };
  // The mean loss over the samples of `target`.
  using Loss = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

  // Trains a copy: of each worker's own stage. Weights start as rank 0's. Its modules must be of torch or
  // Cloneable.
  PipelineParallel(World& world, torch::nn::Sequential model, Loss loss, Options options);
  // Blocks that each worker makes for itself: of a network that no process could hold.
  PipelineParallel(World& world, model::Blueprint blocks, Loss loss, Options options);
  ~PipelineParallel();

  int replica() const;   // of this worker: all of a replica pass the same samples
  int replicas() const;  // each with as many samples
  // Forward, backward and update over the samples of this worker's replica. Returns the mean loss over all
  // replicas.
  double step(const torch::Tensor& input, const torch::Tensor& target);
  void set_lr(double lr);

  // The whole network, from all stages, as model.safetensors has it: rank 0 writes. Returns the weights'
  // hash, on rank 0. Needs room for all of it there.
  std::string save_model(const std::filesystem::path& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief
