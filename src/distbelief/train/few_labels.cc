#include <algorithm>

#include "distbelief/base/random.h"
#include "distbelief/model/device.h"
#include "distbelief/model/random.h"
#include "distbelief/train/task_kinds.h"

namespace distbelief::train {
namespace {

constexpr std::uint64_t kLabelStream = 0x6c6162656c;
constexpr double kConfident = 0.95;
constexpr std::int64_t kMostShift = 3;  // pixels
constexpr std::int64_t kHole = 3;       // part of each side that the altered view has blank: one in so many
constexpr double kNoise = 0.1;          // deviation, of the altered view
constexpr std::int64_t kUnlabelled = -1;

// Classification with the labels of some samples only (Sohn et al., "FixMatch", 2020, with simpler views):
// what is known of a sample, by its label or else because the network is sure of it, the network shall also
// say of the sample shifted, with noise and with a hole in it. It is sure by the mean of what it says of the
// sample as it is and shifted: a guess that a shift changes is none (Berthelot et al., "MixMatch", 2019).
// Labelled samples are chosen by hash of their number, so all workers agree. Their loss counts 1 / share
// times, so that both parts are means over the whole batch. Without the unlabelled samples, for comparison,
// a step has what is labelled of its batch: the network sees nothing else, running statistics included.
// Validation is that of classification.
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
    if (batch.size == 0) return torch::zeros({}, torch::requires_grad());  // a lane without a label
    torch::Tensor guesses;
    if (unlabelled_) guesses = guess(network, batch.input).masked_fill(batch.target.ge(0), kUnlabelled);
    const torch::Tensor both = torch::cat({batch.input, altered(batch.input)});
    const std::vector<torch::Tensor> outputs = network.forward(both).chunk(2);
    const torch::Tensor known =
        cross_entropy(outputs[0], batch.target) + cross_entropy(outputs[1], batch.target);
    const torch::Tensor loss = known / (2 * labelled_);
    return unlabelled_ ? loss + cross_entropy(outputs[1], guesses) : loss;
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

  // The classes that the network is sure of, else kUnlabelled.
  static torch::Tensor guess(model::Network& network, const torch::Tensor& input) {
    const torch::NoGradGuard no_grad;
    network.eval();  // running statistics stay as they are
    const torch::Tensor views = network.forward(torch::cat({input, moved(input)})).softmax(1);
    network.train();
    const auto [confidence, answer] = views.view({2, input.size(0), -1}).mean(0).max(1);
    return answer.masked_fill(confidence.lt(kConfident), kUnlabelled);
  }

  // Each sample by itself: shifted, with noise, and with a hole.
  static torch::Tensor altered(const torch::Tensor& input) {
    const auto generator = model::current_generator();
    torch::Tensor noise = torch::empty_like(input, torch::kCPU);
    generator ? noise.normal_(0, kNoise, *generator) : noise.normal_(0, kNoise);
    noise = model::on_device(noise, input.device());
    const torch::Tensor noisy = moved(input) + noise;
    if (input.dim() != 4) return noisy;
    const torch::Tensor rows = hole(input, 2), columns = hole(input, 3);
    return noisy.masked_fill(rows.logical_and(columns), 0);
  }

  // Images shifted, each by itself, with what leaves on one side coming back on the other; else as they are.
  static torch::Tensor moved(const torch::Tensor& input) {
    if (input.dim() != 4) return input;
    const torch::Tensor shift = drawn(input.size(0), -kMostShift, kMostShift + 1);
    return shifted(shifted(input, shift[0], 2), shift[1], 3);
  }

  static torch::Tensor drawn(std::int64_t samples, std::int64_t from, std::int64_t to) {
    const auto generator = model::current_generator();
    torch::Tensor values = torch::empty({2, samples}, torch::kInt64);
    return generator ? values.random_(from, to, *generator) : values.random_(from, to);
  }

  // Which rows or columns of each sample its hole is in.
  static torch::Tensor hole(const torch::Tensor& input, std::int64_t dimension) {
    const std::int64_t size = input.size(dimension), width = std::max<std::int64_t>(1, size / kHole);
    const torch::Tensor begin = drawn(input.size(0), 0, size - width + 1)[0].unsqueeze(1);
    const torch::Tensor at = torch::arange(size).unsqueeze(0);
    Shape shape{input.size(0), 1, 1, 1};
    shape[std::size_t(dimension)] = size;
    return model::on_device(at.ge(begin).logical_and(at.lt(begin + width)).view(shape), input.device());
  }

  static torch::Tensor shifted(const torch::Tensor& input, const torch::Tensor& shift,
                               std::int64_t dimension) {
    const std::int64_t size = input.size(dimension);
    Shape shape{input.size(0), 1, 1, 1};
    shape[std::size_t(dimension)] = size;
    const torch::Tensor from = (torch::arange(size).unsqueeze(0) + shift.unsqueeze(1)).remainder(size);
    return input.gather(dimension, model::on_device(from.view(shape), input.device()).expand_as(input));
  }

  static torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target) {
    return torch::cross_entropy_loss(output, target, {}, at::Reduction::Sum, kUnlabelled);
  }

  std::unique_ptr<Task> inner_;
  std::uint64_t seed_;
  double labelled_;
  bool unlabelled_;
};

}  // namespace

std::unique_ptr<Task> make_few_labels(const TaskSite& site) { return std::make_unique<FewLabels>(site); }

}  // namespace distbelief::train
