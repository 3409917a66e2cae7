#include "distbelief/train/task.h"

#include "distbelief/model/loss.h"
#include "distbelief/train/tensor_type.h"

namespace distbelief::train {
namespace {

torch::Tensor borrow(const Array& array) {
  // from_blob wants mutable memory; networks do not write to their inputs.
  return torch::from_blob(const_cast<std::byte*>(array.data()), array.shape(), torch_type(array.type()));
}

class Classification final : public Task {
 public:
  Classification(const model::LossEntry& loss, double label_smoothing, std::int64_t items)
      : loss_(loss),
        label_smoothing_(label_smoothing),
        items_(items) {}

  std::int64_t items_per_sample() const override { return items_; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch) const override {
    return loss_.sum(network.forward(batch.input), batch.target, label_smoothing_);
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = network.forward(batch.input);
    const torch::Tensor target = batch.target.flatten();
    return {.loss = loss_.sum(output, target, 0.0).item<double>(),
            .correct = output.argmax(1).eq(target).sum().item<std::int64_t>(),
            .count = batch.size * items_};
  }

 private:
  const model::LossEntry& loss_;
  double label_smoothing_;
  std::int64_t items_;
};

}  // namespace

TensorBatch as_tensors(const data::Batch& batch) {
  return {borrow(batch.input), borrow(batch.target), std::int64_t(batch.size)};
}

std::unique_ptr<Task> make_classification(const TrainConfig& config, const data::SampleSpec& spec) {
  return std::make_unique<Classification>(model::find_loss(config), config.label_smoothing,
                                          element_count(spec.target_shape));
}

}  // namespace distbelief::train
