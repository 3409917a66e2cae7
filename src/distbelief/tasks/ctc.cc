#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/tasks/ctc_path.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

// The number of insertions, deletions and replacements of labels.
std::int64_t edit_distance(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  std::vector<std::int64_t> row(to.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = std::int64_t(j);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::int64_t diagonal = row[0];
    row[0] = std::int64_t(i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::int64_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (from[i - 1] == to[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// Learns label sequences without alignment (Graves et al., "Connectionist Temporal Classification", 2006).
// The network's output is [samples, length, classes]; class 0 is the blank, which also pads targets. The loss
// is per sample. `label_error` is the edit distance from the likeliest path to the target, relative to the
// number of target labels; an empty answer scores 1.
class Ctc final : public Task {
 public:
  std::int64_t items_per_sample() const override { return 1; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    return loss_of(network.forward(batch.input), batch.target);
  }

  ScoreShape score_shape() const override { return {.sums = 1, .counts = 2}; }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = network.forward(batch.input);
    const model::HostValues<std::int64_t> path(output.argmax(2)), target(batch.target);
    const auto frames = std::size_t(output.size(1)), labels = std::size_t(batch.target.size(1));
    Score score{{loss_of(output, batch.target).item<double>()}, {0, 0}};
    for (std::size_t i = 0; i < std::size_t(batch.size); ++i) {
      const std::vector<std::int64_t> said = labels_of({path.data() + i * frames, frames});
      std::vector<std::int64_t> wanted;
      for (std::size_t t = 0; t < labels; ++t)
        if (const std::int64_t label = target[i * labels + t]; label != kBlank) wanted.push_back(label);
      score.counts[0] += double(edit_distance(said, wanted));
      score.counts[1] += double(wanted.size());
    }
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    return {{"label_error", tally.counts[0] / std::max(1.0, tally.counts[1])}};
  }

 private:
  static torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
    const torch::Tensor frames = torch::full({output.size(0)}, output.size(1), torch::kInt64);
    return torch::ctc_loss(output.transpose(0, 1).log_softmax(2), target, frames, target.ne(kBlank).sum(1),
                           kBlank, at::Reduction::Sum, /*zero_infinity=*/true);
  }
};

}  // namespace

std::unique_ptr<Task> make_ctc(const TaskSite& site) {
  if (site.spec.classes < 2 || site.spec.target_shape.size() != 1 || site.spec.input_shape.size() != 2)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task 'ctc' wants frames [length, bands] and targets of several labels, found samples {} "
                    "and targets {}",
                    to_string(site.spec.input_shape), to_string(site.spec.target_shape)));
  return std::make_unique<Ctc>();
}

}  // namespace distbelief::tasks
