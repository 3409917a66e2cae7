#include <fmt/format.h>

#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/tasks/task_kinds.h"

// Tasks whose targets are values or the input itself.
namespace distbelief::tasks {
namespace {

class Regression final : public Task {
 public:
  explicit Regression(const TaskSite& site)
      : values_(element_count(site.spec.target_shape)),
        unit_(site.spec.target_unit) {}

  std::int64_t items_per_sample() const override { return values_; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    return torch::mse_loss(network.forward(batch.input), wanted(batch), at::Reduction::Sum);
  }

  ScoreShape score_shape() const override { return {.sums = 2, .counts = 0}; }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor distance = network.forward(batch.input) - wanted(batch);
    return {{distance.square().sum().item<double>(), distance.abs().sum().item<double>()}, {}};
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    return {{"rmse", unit_ * std::sqrt(tally.mean(0))}, {"mae", unit_ * tally.mean(1)}};
  }

 private:
  torch::Tensor wanted(const TensorBatch& batch) const {
    return batch.target.to(torch::kFloat32).view({batch.size, values_});
  }
  std::int64_t values_;
  double unit_;  // unit of the targets; the loss does not use it
};

// Autoencoders. For each sample the network returns its reconstruction, then its code: one number per
// dimension (autoencoder), or a mean and a log variance per dimension (vae). If classes are known, k-means
// groups the codes of the test samples and the groups are compared with the classes (run/clusters.h keeps
// them with the run).
class Reconstruction final : public Task {
 public:
  enum class Kind { kPlain, kVariational };

  Reconstruction(const TaskSite& site, Kind kind)
      : kind_(kind),
        elements_(element_count(site.spec.input_shape)),
        classes_(site.spec.target_shape.empty() ? site.spec.classes : 0) {
    const OptionMap options = model::resolved_options(site.model);
    if (!options.contains("code"))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("task '{}' wants a model with a code, such as autoencoder, found '{}'",
                              kind == Kind::kPlain ? "autoencoder" : "vae", site.model.name));
    code_ = option<std::int64_t>(options, "code");
    beta_ = options.contains("beta") ? option<double>(options, "beta") : 1.0;
    clusters_ = cluster_count(options, site.spec);
  }

  std::int64_t items_per_sample() const override { return 1; }

  // The last block does not see the input, so the target holds the input and the class.
  TensorBatch prepared(TensorBatch batch) const override {
    const torch::Tensor classes = classes_ > 0 ? batch.target.to(torch::kFloat32).view({batch.size, 1})
                                               : torch::full({batch.size, 1}, -1.0F);
    batch.target = torch::cat({batch.input.flatten(1), classes}, 1);
    return batch;
  }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    return loss_of(network.forward(batch.input), batch.target);
  }

  ScoreShape score_shape() const override {
    return {.sums = 2 + std::size_t(kEvaluationChunk) * (std::size_t(code_) + 1), .counts = 0};
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = network.forward(batch.input);
    Score score{std::vector<double>(score_shape().sums, -1.0), {}};
    score.sums[0] = loss_of(output, batch.target).item<double>();
    score.sums[1] = squares(output, batch.target).item<double>();
    const model::HostValues<double> rows(
        torch::cat({output.narrow(1, elements_, code_), batch.target.narrow(1, elements_, 1)}, 1)
            .to(torch::kFloat64));
    std::copy(rows.begin(), rows.end(), score.sums.begin() + 2);
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    std::vector<Metric> found{{"rmse", std::sqrt(tally.mean(1) / double(elements_))}};
    if (classes_ > 1) found.push_back({"cluster_purity", cluster_purity(tally)});
    return found;
  }

 private:
  torch::Tensor squares(const torch::Tensor& output, const torch::Tensor& target) const {
    return torch::mse_loss(output.narrow(1, 0, elements_), target.narrow(1, 0, elements_),
                           at::Reduction::Sum);
  }

  // Mean squared error per element; or the negative evidence lower bound, with a unit normal around the
  // reconstruction and as the prior (Kingma and Welling, "Auto-Encoding Variational Bayes", 2013).
  torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) const {
    if (kind_ == Kind::kPlain) return squares(output, target) / double(elements_);
    const torch::Tensor mean = output.narrow(1, elements_, code_);
    const torch::Tensor log_variance = output.narrow(1, elements_ + code_, code_);
    const torch::Tensor divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum() * 0.5;
    return squares(output, target) * 0.5 + divergence * beta_;
  }

  double cluster_purity(const Tally& tally) const {
    std::vector<double> codes;
    std::vector<int> classes;
    const auto width = std::size_t(code_);
    for (const std::vector<double>& chunk : tally.chunks)
      for (std::size_t at = 2; at + width < chunk.size(); at += width + 1) {
        if (chunk[at + width] < 0) break;  // end of a last chunk that is not full
        codes.insert(codes.end(), chunk.begin() + std::ptrdiff_t(at),
                     chunk.begin() + std::ptrdiff_t(at + width));
        classes.push_back(int(chunk[at + width]));
      }
    return purity(k_means(codes, {.width = width, .groups = clusters_}).groups, classes);
  }

  Kind kind_;
  std::int64_t elements_;
  std::int64_t classes_;
  std::int64_t code_ = 0;
  std::size_t clusters_ = 0;
  double beta_ = 1.0;
};

}  // namespace

std::size_t cluster_count(const OptionMap& options, const data::SampleSpec& spec) {
  const auto given = options.contains("clusters") ? option<std::int64_t>(options, "clusters") : 0;
  return std::size_t(given > 0 ? given : spec.target_shape.empty() ? spec.classes : 0);
}

std::unique_ptr<Task> make_regression(const TaskSite& site) {
  if (site.spec.classes > 0)
    throw Error(ErrorCode::kBadInput,
                "task 'regression' wants targets that are values, this data set has "
                "classes; set train.task = \"classification\"");
  return std::make_unique<Regression>(site);
}

std::unique_ptr<Task> make_autoencoder(const TaskSite& site) {
  return std::make_unique<Reconstruction>(site, Reconstruction::Kind::kPlain);
}

std::unique_ptr<Task> make_vae(const TaskSite& site) {
  return std::make_unique<Reconstruction>(site, Reconstruction::Kind::kVariational);
}

}  // namespace distbelief::tasks
