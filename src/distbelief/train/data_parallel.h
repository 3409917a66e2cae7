#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/comm/world.h"
#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/mesh/allreduce_group.h"

// Distributed training for a libtorch loop of one's own.
namespace distbelief {

// How much of a global batch a loss stands for.
struct BatchShare {
  std::int64_t samples = 1;         // that the loss is the mean of
  std::int64_t global_samples = 0;  // of all workers together; 0: every worker has as many
};

// Rank 0's parameters and buffers, wherever they lie, in every worker's module. Collective.
void broadcast_module(World& world, torch::nn::Module& module);

// A module trained by all workers together, with an optimizer of ours: gradients are exchanged while
// backward runs, and each host keeps the parameters and the optimizer's state once. The module's
// parameters become views into shared memory; they start as rank 0's. Collective; one thread.
class DataParallel {
 public:
  struct Options {
    OptimizerConfig optimizer;
    double clip_norm = 0;
    // kUpdate is faster, but wrong for a module that also uses a parameter detached from autograd; kCheck
    // shows it.
    mesh::Overlap overlap = mesh::Overlap::kReduce;
  };
  DataParallel(World& world, std::shared_ptr<torch::nn::Module> module, Options options);
  ~DataParallel();

  // Backward from the mean loss over this worker's part of the batch; one call per step.
  void backward(const torch::Tensor& loss, BatchShare share = {});
  // Updates the parameters from the gradients of all workers, and averages the module's buffers.
  void step();
  void set_lr(double lr) { lr_ = lr; }

  // The optimizer's state and the learning rate, without the parameters. gather_state() is collective and
  // comes before save(), which any worker may call; load() is collective, of the same bytes everywhere.
  void gather_state();
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  struct State;
  std::unique_ptr<State> state_;
  double lr_;
  std::int64_t step_ = 0;
};

// Averages gradients (and buffers) and no more: the module, its parameters and torch::optim stay the user's
// own. The parameters start as rank 0's. Collective; one thread.
class GradientAverager {
 public:
  GradientAverager(World& world, std::shared_ptr<torch::nn::Module> module);
  ~GradientAverager();

  // Backward from the mean loss over this worker's part of the batch, instead of loss.backward().
  // Afterwards every parameter's grad is the mean over all samples of all workers.
  void backward(const torch::Tensor& loss, BatchShare share = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::int64_t step_ = 0;
};

// Deals out the samples of a data set to the workers: every sample exactly once per epoch, in an order
// from (seed, epoch), the same number of batches for every worker, none empty (a remainder too small to
// go round joins the last batch). For torch::data::make_data_loader, with DataLoaderOptions of any
// batch size: the sampler decides. Needs at least as many samples as workers.
class EpochSampler : public torch::data::samplers::Sampler<> {
 public:
  // Which of how many workers it deals for.
  struct Place {
    std::size_t rank = 0, workers = 1;
  };
  EpochSampler(const World& world, std::size_t samples, std::size_t global_batch, std::uint64_t seed);
  EpochSampler(Place place, std::size_t samples, std::size_t global_batch, std::uint64_t seed);

  // Begins the next epoch; after load() or resume_at() goes on there instead.
  void reset(c10::optional<std::size_t> new_size = c10::nullopt) override;
  c10::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  // Throws Error(kBadInput) when the place in the epoch is not one for these workers, data and batches.
  void load(torch::serialize::InputArchive& archive) override;

  std::size_t steps_per_epoch() const { return steps_; }
  // Goes on at batch `step` of an epoch. Before a loader copies the sampler.
  void resume_at(std::int64_t epoch, std::size_t step);
  // Whether any number of workers, from 1 to the size of a batch, can go on at batch `step` and deal out what
  // is left of the epoch: not when only a batch is left that is too small to go round more of them.
  bool can_resume_at(std::size_t step) const;
  // The share of a loss over batch `step` of an epoch.
  BatchShare share(std::size_t step) const;

 private:
  data::Range range(std::size_t step) const;
  std::size_t dealt() const;  // samples of this epoch, to all workers
  data::Range own_range(std::size_t step) const;

  std::size_t rank_, workers_, samples_, batch_, steps_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::size_t step_ = 0;
  bool is_placed_ = false;  // here, so that reset() stays
};

}  // namespace distbelief
