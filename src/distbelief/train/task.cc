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
  Classification(const TrainConfig& config, const data::SampleSpec& spec, model::TensorGroup* group)
      : loss_(model::find_loss(config)),
        label_smoothing_(config.label_smoothing),
        items_(element_count(spec.target_shape)),
        classes_(spec.classes),
        group_(group) {}

  std::int64_t items_per_sample() const override { return items_; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch) const override {
    const torch::Tensor output = network.forward(batch.input);
    if (!is_sliced(output)) return loss_.sum(output, batch.target, label_smoothing_);
    if (loss_.name != "cross_entropy") return loss_.sum(whole(output), batch.target, label_smoothing_);
    const model::SliceRange range = model::share_of(classes_, group_->part(), group_->parts());
    return model::sliced_cross_entropy(*group_, output, batch.target.flatten(),
                                       model::slice_of({classes_}, 0, range), label_smoothing_);
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    torch::Tensor output = network.forward(batch.input);
    if (is_sliced(output)) output = whole(output);
    const torch::Tensor target = batch.target.flatten();
    return {.loss = loss_.sum(output, target, 0.0).item<double>(),
            .correct = output.argmax(1).eq(target).sum().item<std::int64_t>(),
            .count = batch.size * items_};
  }

 private:
  bool is_sliced(const torch::Tensor& output) const { return group_ && output.size(1) < classes_; }
  torch::Tensor whole(const torch::Tensor& output) const {
    return model::gather(*group_, output, 1, classes_, model::UsedBy::kWholeLayers);
  }

  const model::LossEntry& loss_;
  double label_smoothing_;
  std::int64_t items_;
  std::int64_t classes_;
  model::TensorGroup* group_;
};

}  // namespace

TensorBatch as_tensors(const data::Batch& batch) {
  return {borrow(batch.input), borrow(batch.target), std::int64_t(batch.size)};
}

std::unique_ptr<Task> make_classification(const TrainConfig& config, const data::SampleSpec& spec,
                                          model::TensorGroup* group) {
  return std::make_unique<Classification>(config, spec, group);
}

}  // namespace distbelief::train
