#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/model/random.h"
#include "distbelief/tasks/altered_view.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr std::uint64_t kLabelStream = 0x6c6162656c;
constexpr std::uint64_t kViewStream = ~std::uint64_t{1};  // used by no block
constexpr std::int64_t kUnlabelled = -1;
constexpr double kConfident = 0.7;
constexpr double kNeighbours = 0.5;           // weight of similar samples in a guess
constexpr int kNeighbourRounds = 2;           // rounds of propagation between neighbours
constexpr double kNeighbourhood = 0.05;       // temperature of the similarity to neighbours
constexpr double kContrastTemperature = 0.2;  // temperature of the contrastive loss
constexpr double kNever = -1e9;               // replaces a similarity that must not count

// Cosine similarities between the features of all samples, as logits; a sample has none to itself.
torch::Tensor similarities(const torch::Tensor& features, double temperature) {
  const torch::Tensor flat = features.flatten(1);
  const torch::Tensor unit = flat / (flat.square().sum(1, true) + 1e-12).sqrt();
  const torch::Tensor self = torch::eye(flat.size(0), torch::dtype(torch::kBool).device(flat.device()));
  return (torch::mm(unit, unit.t()) / temperature).masked_fill(self, kNever);
}

torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::cross_entropy_loss(output, target, {}, at::Reduction::Sum, kUnlabelled);
}

// Trains each sample to be more similar to its other view than to any other sample (Chen et al., "SimCLR",
// 2020). `features` are those of all samples, followed by those of their altered views.
torch::Tensor contrast(const torch::Tensor& features) {
  const std::int64_t count = features.size(0) / 2;
  const auto whole = torch::dtype(torch::kInt64).device(features.device());
  const torch::Tensor other =
      torch::cat({torch::arange(count, 2 * count, whole), torch::arange(count, whole)});
  return cross_entropy(similarities(features, kContrastTemperature), other) / 2;
}

// Classification with labels for only some samples. The network sees every sample unaltered and altered,
// and learns
//  - the label of a labelled sample, for both views;
//  - its own confident guess on an unlabelled sample, for the altered view (Sohn et al., "FixMatch",
//    2020). Two corrections precede the test of confidence: every class is made equally frequent among
//    the lane's samples (Berthelot et al., "ReMixMatch", 2020), and similar samples, labelled ones
//    included, contribute (Li et al., "CoMatch", 2021);
//  - features that are alike for both views and unlike those of other samples: similarity is learnt too.
// A hash of the sample's index chooses the labelled samples, so all workers agree. Their loss is multiplied
// by 1 / share, so that all parts are means over the whole batch. With `unlabelled` off, for comparison, a
// step uses only the labelled samples of its batch, also for running statistics. Validation is that of
// classification.
class FewLabels final : public Task {
 public:
  explicit FewLabels(const TaskSite& site)
      : inner_(make_classification(site)),
        seed_(site.train.seed),
        labelled_(site.train.labelled),
        unlabelled_(site.train.unlabelled) {}

  std::int64_t items_per_sample() const override { return inner_->items_per_sample(); }

  TensorBatch prepared(TensorBatch batch) const override {
    if (batch.samples.empty() || batch.target.dim() != 1) return batch;
    torch::Tensor target = batch.target.clone();
    for (std::size_t i = 0; i < batch.samples.size(); ++i)
      if (!has_label(batch.samples[i])) target[std::int64_t(i)] = kUnlabelled;
    batch.target = target;
    if (!unlabelled_) keep_labelled(batch);
    return batch;
  }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    if (batch.size == 0) return torch::zeros({}, torch::requires_grad());  // a lane without labelled samples
    const int last = network.range().end - 1;
    model::begin_stream(kViewStream);
    torch::Tensor features = torch::cat({batch.input, altered_view(batch.input)});
    for (int block = network.range().begin; block < last; ++block)
      features = network.forward(block, features);
    const std::vector<torch::Tensor> outputs = network.forward(last, features).chunk(2);
    const torch::Tensor known =
        (cross_entropy(outputs[0], batch.target) + cross_entropy(outputs[1], batch.target)) / (2 * labelled_);
    if (!unlabelled_) return known;
    const torch::Tensor guesses =
        guess(outputs[0].detach(), features.detach().narrow(0, 0, batch.size), batch.target);
    return known + cross_entropy(outputs[1], guesses) + contrast(features);
  }

  ScoreShape score_shape() const override { return inner_->score_shape(); }
  Score score(model::Network& network, const TensorBatch& batch) const override {
    return inner_->score(network, batch);
  }
  std::vector<Metric> metrics(const Tally& tally) const override { return inner_->metrics(tally); }

 private:
  bool has_label(std::uint64_t sample) const {
    return SplitMix64(derive_seed({seed_, kLabelStream, sample})).uniform() < labelled_;
  }

  static void keep_labelled(TensorBatch& batch) {
    const torch::Tensor rows = batch.target.ge(0).nonzero().flatten();
    batch.input = batch.input.index_select(0, rows);
    batch.target = batch.target.index_select(0, rows);
    batch.size = rows.size(0);
    batch.samples = {};
  }

  // The classes of confident guesses on unlabelled samples; otherwise kUnlabelled.
  static torch::Tensor guess(const torch::Tensor& output, const torch::Tensor& features,
                             const torch::Tensor& target) {
    torch::Tensor odds = output.softmax(1);
    odds = odds / odds.mean(0, true).clamp_min(1e-6);
    odds = odds / odds.sum(1, true);
    const torch::Tensor has_label = target.ge(0);
    const torch::Tensor said = torch::one_hot(target.clamp_min(0), output.size(1)).to(odds.dtype());
    const torch::Tensor own = torch::where(has_label.unsqueeze(1), said, odds);
    const torch::Tensor neighbours = similarities(features, kNeighbourhood).softmax(1);
    torch::Tensor all = own;
    for (int round = 0; round < kNeighbourRounds; ++round)
      all = (1 - kNeighbours) * own + kNeighbours * torch::mm(neighbours, all);
    const auto [confidence, answer] = all.max(1);
    return answer.masked_fill(confidence.lt(kConfident).logical_or(has_label), kUnlabelled);
  }

  std::unique_ptr<Task> inner_;
  std::uint64_t seed_;
  double labelled_;
  bool unlabelled_;
};

}  // namespace

std::unique_ptr<Task> make_few_labels(const TaskSite& site) {
  const data::SampleSpec& spec = site.spec;
  if (!spec.target_shape.empty() || spec.input_type == ElementType::kInt64)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "task 'few_labels' compares altered views of samples with one class each, images or rows of a "
            "table; these are {} {} with targets {}",
            to_string(spec.input_type), to_string(spec.input_shape), to_string(spec.target_shape)),
        {.key = "train.task"});
  return std::make_unique<FewLabels>(site);
}

}  // namespace distbelief::tasks
