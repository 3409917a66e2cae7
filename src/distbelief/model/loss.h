#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "distbelief/base/config.h"

namespace distbelief::model {

// A loss by its name in train.loss. All losses are sums over samples (over positions for tokens); the step
// divides by the global count, which a lane alone does not know.
struct LossEntry {
  std::string name;
  std::string description;
  bool smooths_labels = false;  // whether train.label_smoothing may be above 0
  // `output` [n, classes] is the result of Network::forward; `target` holds n int64 class indices in any
  // shape.
  torch::Tensor (*sum)(const torch::Tensor& output, const torch::Tensor& target, double label_smoothing);
};

const std::vector<LossEntry>& losses();
const LossEntry& find_loss(const std::string& name);  // throws Error(kBadInput) with the nearest name

// The loss of [train]; also refuses a label_smoothing that is out of range or unsupported by this loss.
const LossEntry& find_loss(const TrainConfig& config);

}  // namespace distbelief::model
