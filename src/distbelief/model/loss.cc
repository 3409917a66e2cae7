#include "distbelief/model/loss.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

namespace F = torch::nn::functional;

torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target,
                            double label_smoothing) {
  return F::cross_entropy(
      output, target.flatten(),
      F::CrossEntropyFuncOptions().reduction(torch::kSum).label_smoothing(label_smoothing));
}

torch::Tensor nll(const torch::Tensor& output, const torch::Tensor& target, double) {
  return F::nll_loss(output, target.flatten(), F::NLLLossFuncOptions().reduction(torch::kSum));
}

torch::Tensor mse(const torch::Tensor& output, const torch::Tensor& target, double) {
  const torch::Tensor wanted = torch::zeros_like(output).scatter_(1, target.flatten().unsqueeze(1), 1.0);
  return F::mse_loss(output, wanted, F::MSELossFuncOptions().reduction(torch::kSum)) / output.size(1);
}

}  // namespace

const std::vector<LossEntry>& losses() {
  static const std::vector<LossEntry> table = {
      {"cross_entropy", "softmax of the output against the class", true, cross_entropy},
      {"nll", "negative log-likelihood, for a model whose output is log-probabilities", false, nll},
      {"mse", "mean square over the classes of the output less the one-hot class", false, mse},
  };
  return table;
}

const LossEntry& find_loss(const std::string& name) {
  std::vector<std::string> names;
  for (const LossEntry& entry : losses()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw unknown_name("loss", "train.loss", name, names);
}

const LossEntry& find_loss(const TrainConfig& config) {
  const LossEntry& entry = find_loss(config.loss);
  if (!(config.label_smoothing >= 0.0 && config.label_smoothing < 1.0)) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("train.label_smoothing must be at least 0 and below 1, found {}", config.label_smoothing),
        {.key = "train.label_smoothing"});
  }
  if (config.label_smoothing > 0.0 && !entry.smooths_labels) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("train.label_smoothing is {}, but loss '{}' has no label smoothing; set it to 0 or use "
                    "train.loss = \"cross_entropy\"",
                    config.label_smoothing, entry.name),
        {.key = "train.label_smoothing"});
  }
  return entry;
}

}  // namespace distbelief::model
