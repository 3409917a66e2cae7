#include <fmt/format.h>

#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/model/dcgan.h"
#include "distbelief/model/device.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr std::int64_t kGrid = 7;  // images are compared after pooling to this many cells per side

// Goodfellow et al., "Generative Adversarial Nets", 2014, with the non-saturating generator loss. A step has
// two backwards from the same weights: one for the discriminator, on real and generated images, and one for
// the generator, through the discriminator. The loss is the sum of both.
//
// Validation compares test images with as many generated ones by the mean and the covariance of their pooled
// pixels. `moment_distance` is the squared distance of both, relative to that of the best generator with
// independent pixels (the real means and variances, no covariance). Below 1 is better than that generator.
class Adversarial final : public Task {
 public:
  explicit Adversarial(const TaskSite& site)
      : cells_(site.spec.input_shape[0] * kGrid * kGrid),
        lr_factor_(site.train.lr_discriminator > 0 ? site.train.lr_discriminator / site.train.optimizer.lr
                                                   : 1.0) {}

  std::int64_t items_per_sample() const override { return 1; }
  std::vector<Backward> backwards() const override {
    return {{"discriminator.", lr_factor_}, {"generator."}};
  }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch,
                         std::size_t backward) const override {
    const torch::Tensor images =
        generated(network, batch, backward == 1 ? Follow::kGenerator : Follow::kNothing);
    if (backward == 1) return against(judged(network, images), 1.0);
    return against(judged(network, batch.input), 1.0) + against(judged(network, images), 0.0);
  }

  ScoreShape score_shape() const override {
    return {.sums = 1 + 2 * std::size_t(cells_ + cells_ * cells_), .counts = 2};
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor images = generated(network, batch, Follow::kNothing);
    const torch::Tensor real = judged(network, batch.input), fake = judged(network, images);
    const torch::Tensor loss = against(real, 1.0) + against(fake, 0.0) + against(fake, 1.0);
    Score score{
        {loss.item<double>()},
        {double(real.gt(0).sum().item<std::int64_t>()), double(fake.le(0).sum().item<std::int64_t>())}};
    append_moments(batch.input, score.sums);
    append_moments(images, score.sums);
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    const double items = double(std::max<std::int64_t>(1, tally.items));
    return {{"moment_distance", moment_distance(tally)},
            {"real_recognised", tally.counts[0] / items},
            {"generated_recognised", tally.counts[1] / items}};
  }

 private:
  enum class Follow { kNothing, kGenerator };  // the part that records gradients
  static torch::Tensor generated(model::Network& network, const TensorBatch& batch, Follow follow) {
    const torch::AutoGradMode gradient(follow == Follow::kGenerator);
    return network.forward(model::kGeneratorBlock, batch.input);
  }
  static torch::Tensor judged(model::Network& network, const torch::Tensor& images) {
    return network.forward(model::kDiscriminatorBlock, images);
  }
  static torch::Tensor against(const torch::Tensor& logits, double truth) {
    return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, truth), {}, {},
                                                   at::Reduction::Sum);
  }
  static void append_moments(const torch::Tensor& images, std::vector<double>& sums) {
    const torch::Tensor cells =
        torch::adaptive_avg_pool2d(images, {kGrid, kGrid}).flatten(1).to(torch::kFloat64);
    for (const torch::Tensor& moment : {cells.sum(0), torch::matmul(cells.t(), cells).flatten()}) {
      const model::HostValues<double> values(moment);
      sums.insert(sums.end(), values.begin(), values.end());
    }
  }

  // The mean of the cells and their covariance.
  std::vector<double> moments(const Tally& tally, std::size_t begin) const {
    const double items = double(std::max<std::int64_t>(1, tally.items));
    std::vector<double> found(tally.sums.begin() + std::ptrdiff_t(begin),
                              tally.sums.begin() + std::ptrdiff_t(begin) + cells_ + cells_ * cells_);
    for (double& value : found) value /= items;
    for (std::int64_t i = 0; i < cells_ * cells_; ++i)
      found[std::size_t(cells_ + i)] -= found[std::size_t(i / cells_)] * found[std::size_t(i % cells_)];
    return found;
  }

  double moment_distance(const Tally& tally) const {
    const auto width = std::size_t(cells_ + cells_ * cells_);
    const std::vector<double> real = moments(tally, 1), fake = moments(tally, 1 + width);
    double distance = 0, of_lone_pixels = 0;
    for (std::size_t i = 0; i < width; ++i) {
      distance += (real[i] - fake[i]) * (real[i] - fake[i]);
      const std::size_t entry = i - std::size_t(cells_);
      const bool is_covariance =
          i >= std::size_t(cells_) && entry / std::size_t(cells_) != entry % std::size_t(cells_);
      if (is_covariance) of_lone_pixels += real[i] * real[i];
    }
    return of_lone_pixels > 0 ? distance / of_lone_pixels : 0;
  }

  std::int64_t cells_;
  double lr_factor_;  // factor on the discriminator's learning rate
};

}  // namespace

std::unique_ptr<Task> make_adversarial(const TaskSite& site) {
  if (site.model.name != "dcgan" || site.spec.input_shape.size() != 3)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task 'gan' wants images and a model of two networks, such as dcgan, found model '{}' "
                    "and samples {}",
                    site.model.name, to_string(site.spec.input_shape)));
  return std::make_unique<Adversarial>(site);
}

}  // namespace distbelief::tasks
