#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/fbnet_search.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

// Chooses a candidate for each layer of an fbnet. A step has two backwards from the same weights: the
// candidates' weights learn on one part of the batch, the choices on the other part, with the expected
// latency added to their loss. (The paper alternates, with an optimizer for each.) Both use the same draw of
// the Gumbel-softmax. Validation scores the likeliest architecture with the shared weights.
class ArchitectureSearch final : public Task {
 public:
  ArchitectureSearch(const TaskSite& site, const OptionMap& options)
      : inner_(make_classification(site)),
        layers_(model::fbnet_layers(site.model.name, options, shape_of(site.spec))),
        weight_(option<double>(options, "latency_weight")),
        share_(option<double>(options, "choice_share")),
        cooling_(option<double>(options, "cooling")) {
    if (auto table = model::search_costs(options, layers_)) table_ = *std::move(table);
  }

  std::int64_t items_per_sample() const override { return 1; }
  std::vector<Backward> backwards() const override { return {{"weights."}, {"choices."}}; }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch,
                         std::size_t backward) const override {
    const std::int64_t choosing = std::max<std::int64_t>(1, std::llround(double(batch.size) * share_));
    const std::int64_t learning = std::max<std::int64_t>(1, batch.size - choosing);
    if (backward == 0) return mean_loss(network, part(batch, 0, learning)) * batch.size;
    const torch::Tensor loss = mean_loss(network, part(batch, batch.size - choosing, choosing));
    const torch::Tensor latency =
        model::expected_latency(model::choices_of(network), table()) / table().most();
    model::cool(network, cooling_);  // both backwards of the step have drawn by now
    return (loss + latency * weight_) * batch.size;
  }

  ScoreShape score_shape() const override {
    ScoreShape shape = inner_->score_shape();
    shape.sums += 1;
    return shape;
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    Score score = inner_->score(network, batch);
    const model::HostValues<float> theta(model::choices_of(network));
    const auto chosen = model::likeliest_architecture({theta.data(), theta.size()}, layers_);
    score.sums.push_back(
        table_.rows.empty() ? 0.0 : model::latency_of(chosen, layers_, table_) * double(batch.size));
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    std::vector<Metric> found = inner_->metrics(tally);
    const double most = table_.rows.empty() ? 0 : table_.most();
    found.push_back({"latency_share", most > 0 ? tally.mean(score_shape().sums - 1) / most : 0.0});
    return found;
  }

 private:
  static TensorBatch part(const TensorBatch& batch, std::int64_t begin, std::int64_t size) {
    return {batch.input.narrow(0, begin, size), batch.target.narrow(0, begin, size), size, {}};
  }

  torch::Tensor mean_loss(model::Network& network, const TensorBatch& batch) const {
    return inner_->loss_sum(network, batch) / batch.size;
  }

  const model::LatencyTable& table() const {
    if (table_.rows.empty())
      throw Error(ErrorCode::kBadInput,
                  "task 'architecture_search' with model.costs = \"measured\" wants model.latencies, which "
                  "distbelief train measures; take them from the job.toml of such a run");
    return table_;
  }

  std::unique_ptr<Task> inner_;
  std::vector<model::FbnetLayer> layers_;
  model::LatencyTable table_;
  double weight_;
  double share_;
  double cooling_;
};

}  // namespace

std::unique_ptr<Task> make_architecture_search(const TaskSite& site) {
  if (site.model.name != "fbnet_search")
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task 'architecture_search' wants model fbnet_search, found '{}'", site.model.name));
  const OptionMap options = model::resolved_options(site.model);
  const auto share = option<double>(options, "choice_share");
  const auto cooling = option<double>(options, "cooling");
  if (!(share > 0 && share < 1) || !(cooling > 0 && cooling <= 1) ||
      !(option<double>(options, "latency_weight") >= 0))
    throw Error(ErrorCode::kBadInput,
                fmt::format("task 'architecture_search' wants model.choice_share between 0 and 1, "
                            "model.cooling above 0 and at most 1, and model.latency_weight of 0 or more; "
                            "found {}, {} and {}",
                            share, cooling, option<double>(options, "latency_weight")));
  return std::make_unique<ArchitectureSearch>(site, options);
}

}  // namespace distbelief::tasks
