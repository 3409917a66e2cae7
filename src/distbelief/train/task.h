#pragma once

#include <torch/torch.h>

#include <memory>

#include "distbelief/base/config.h"
#include "distbelief/data/batch.h"
#include "distbelief/model/registry.h"

namespace distbelief::train {

// A batch as tensors; borrows the data batch's memory.
struct TensorBatch {
  torch::Tensor input;
  torch::Tensor target;
  std::int64_t size = 0;
};
TensorBatch as_tensors(const data::Batch& batch);

// Sums over samples that can be added up over lanes and workers.
struct Score {
  double loss = 0;
  std::int64_t correct = 0;
  std::int64_t count = 0;
};

// What a lane does in a step: the seam for every kind of learning. Stateless, so that all lane threads
// may share one.
class Task {
 public:
  virtual ~Task() = default;
  // How many items a sample counts for in the loss: 1, or its tokens.
  virtual std::int64_t items_per_sample() const = 0;
  // Forward, and the loss summed over the batch's items, ready for backward.
  virtual torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch) const = 0;
  // Forward only, for validation.
  virtual Score score(model::Network& network, const TensorBatch& batch) const = 0;
};

// Classification of samples or of each token (language models). Of a network that a tensor group, which
// outlives it, computes together each worker may have the outputs of some classes only.
std::unique_ptr<Task> make_classification(const TrainConfig& config, const data::SampleSpec& spec,
                                          model::TensorGroup* group = nullptr);

}  // namespace distbelief::train
