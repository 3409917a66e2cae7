#include <cmath>

#include "distbelief/model/device.h"
#include "distbelief/model/loss.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr std::int64_t kTop = 5;
constexpr std::int64_t kMostF1Classes = 1000;

// Classifies samples or each token. `output` is [items, classes].
class Classification final : public Task {
 public:
  explicit Classification(const TaskSite& site)
      : loss_(model::find_loss(site.train)),
        label_smoothing_(site.train.label_smoothing),
        items_(element_count(site.spec.target_shape)),
        classes_(site.spec.classes),
        target_share_(site.spec.target_share),
        tokens_(site.spec.input_type == ElementType::kInt64 && !site.spec.target_shape.empty()),
        group_(site.group) {}

  std::int64_t items_per_sample() const override { return items_; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    if (!has_gaps()) return loss_sum(network.forward(batch.input), batch.target);
    // The number of targets over all lanes is unknown before the step, so the loss uses the average share.
    const Wanted wanted = wanted_of(network.forward(batch.input), batch.target.flatten());
    return loss_sum(wanted.output, wanted.target) / target_share_;
  }

  ScoreShape score_shape() const override {
    if (has_gaps()) return {.sums = 1, .counts = 3, .items = 2};
    return {.sums = 1, .counts = dense_counts() + (has_auc() ? 2 * kScoreBins : 0)};
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    torch::Tensor output = network.forward(batch.input);
    if (is_sliced(output)) output = whole(output);
    torch::Tensor target = batch.target.flatten();
    if (has_gaps()) {
      const Wanted wanted = wanted_of(output, target);
      output = wanted.output;
      target = wanted.target;
    }
    const torch::Tensor answers = output.argmax(1);
    Score score{{loss_.sum(output, target, 0.0).item<double>()}, std::vector<double>(dense_counts())};
    score.counts[0] = double(answers.eq(target).sum().item<std::int64_t>());
    if (has_top())
      score.counts[1] =
          double(std::get<1>(output.topk(kTop, 1)).eq(target.unsqueeze(1)).any(1).sum().item<std::int64_t>());
    if (has_gaps()) {
      score.counts[2] = double(target.numel());
      return score;
    }
    if (has_f1()) count_classes(answers, target, classes_, score.counts.data() + 2);
    if (has_auc()) count_scores(output, target, score);
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    const double items = double(std::max<std::int64_t>(1, tally.items));
    std::vector<Metric> found{{"accuracy", tally.counts[0] / items}};
    if (has_top()) found.push_back({"top5", tally.counts[1] / items});
    const std::span<const double> rest = std::span(tally.counts).subspan(2);
    if (has_f1()) found.push_back({"f1", macro_f1(rest.first(3 * std::size_t(classes_)))});
    if (has_auc()) found.push_back({"auc", auc(rest.last(2 * kScoreBins))});
    if (tokens_) found.push_back({"perplexity", std::exp(tally.mean(0))});
    return found;
  }

 private:
  // The rows whose target is a class.
  struct Wanted {
    torch::Tensor output, target;
  };
  static Wanted wanted_of(const torch::Tensor& output, const torch::Tensor& target) {
    const torch::Tensor rows = target.ge(0).nonzero().squeeze(1);
    return {output.index_select(0, rows), target.index_select(0, rows)};
  }
  torch::Tensor loss_sum(const torch::Tensor& output, const torch::Tensor& target) const {
    if (!is_sliced(output)) return loss_.sum(output, target, label_smoothing_);
    if (loss_.name != "cross_entropy") return loss_.sum(whole(output), target, label_smoothing_);
    const SliceRange range = share_of(classes_, group_->part(), group_->parts());
    return model::sliced_cross_entropy(*group_, output, target.flatten(), slice_of({classes_}, 0, range),
                                       label_smoothing_);
  }
  bool has_gaps() const { return target_share_ > 0; }
  bool has_top() const { return classes_ > kTop; }
  bool has_f1() const { return !tokens_ && classes_ <= kMostF1Classes; }
  bool has_auc() const { return !tokens_ && classes_ == 2; }
  bool is_sliced(const torch::Tensor& output) const { return group_ && output.size(1) < classes_; }
  torch::Tensor whole(const torch::Tensor& output) const {
    return model::gather(*group_, output, 1, classes_, model::UsedBy::kWholeLayers);
  }
  // The counts before the bins of the scores.
  std::size_t dense_counts() const { return has_gaps() ? 3 : 2 + (has_f1() ? 3 * std::size_t(classes_) : 0); }
  // With two classes, the logit of the softmax is the difference of the outputs.
  static void count_scores(const torch::Tensor& output, const torch::Tensor& target, Score& score) {
    const torch::Tensor wide = output.to(torch::kFloat64);
    const model::HostValues<double> logits(wide.select(1, 1) - wide.select(1, 0));
    const model::HostValues<std::int64_t> classes(target);
    for (std::size_t i = 0; i < logits.size(); ++i)
      score.ones.push_back(score.counts.size() + (classes[i] == 1 ? kScoreBins : 0) + score_bin(logits[i]));
  }

  const model::LossEntry& loss_;
  double label_smoothing_;
  std::int64_t items_;
  std::int64_t classes_;
  double target_share_;
  bool tokens_;
  model::TensorGroup* group_;
};

// Classifies each pixel. `output` is [samples, classes, height, width].
class Segmentation final : public Task {
 public:
  explicit Segmentation(const TaskSite& site)
      : items_(element_count(site.spec.target_shape)),
        classes_(site.spec.classes) {}

  std::int64_t items_per_sample() const override { return items_; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    return torch::cross_entropy_loss(network.forward(batch.input), batch.target, {}, at::Reduction::Sum);
  }

  ScoreShape score_shape() const override { return {.sums = 1, .counts = 3 * std::size_t(classes_)}; }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = network.forward(batch.input);
    const torch::Tensor loss = torch::cross_entropy_loss(output, batch.target, {}, at::Reduction::Sum);
    Score score{{loss.item<double>()}, std::vector<double>(score_shape().counts)};
    count_classes(output.argmax(1).flatten(), batch.target.flatten(), classes_, score.counts.data());
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    double right = 0;
    for (std::size_t i = 0; i < tally.counts.size(); i += 3) right += tally.counts[i];
    return {{"accuracy", right / double(std::max<std::int64_t>(1, tally.items))},
            {"iou", mean_iou(tally.counts)},
            {"f1", macro_f1(tally.counts)}};
  }

 private:
  std::int64_t items_;
  std::int64_t classes_;
};

}  // namespace

void count_classes(const torch::Tensor& answers, const torch::Tensor& target, std::int64_t classes,
                   double* counts) {
  const auto counted = [classes](const torch::Tensor& all) {
    return model::HostValues<std::int64_t>(torch::bincount(all, {}, classes));
  };
  const auto right = counted(target.masked_select(answers.eq(target)));
  const auto given = counted(answers), true_ones = counted(target);
  for (std::size_t c = 0; c < std::size_t(classes); ++c) {
    counts[3 * c] += double(right[c]);
    counts[3 * c + 1] += double(given[c]);
    counts[3 * c + 2] += double(true_ones[c]);
  }
}

std::unique_ptr<Task> make_classification(const TaskSite& site) {
  require_classes(site, "classification");
  return std::make_unique<Classification>(site);
}

std::unique_ptr<Task> make_segmentation(const TaskSite& site) {
  require_classes(site, "segmentation");
  return std::make_unique<Segmentation>(site);
}

}  // namespace distbelief::tasks
