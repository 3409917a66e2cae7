// A kind of learning of one's own: classification by twice the usual loss.
#include "distbelief/cli/extension.h"
#include "distbelief/tasks/task_kinds.h"
#include "parts.h"

using namespace distbelief;

namespace {

class Twice final : public tasks::Task {
 public:
  explicit Twice(std::unique_ptr<Task> once) : once_(std::move(once)) {}
  std::int64_t items_per_sample() const override { return once_->items_per_sample(); }
  torch::Tensor loss_sum(model::Network& network, const tasks::TensorBatch& batch,
                         std::size_t backward) const override {
    return 2 * once_->loss_sum(network, batch, backward);
  }
  tasks::ScoreShape score_shape() const override { return once_->score_shape(); }
  tasks::Score score(model::Network& network, const tasks::TensorBatch& batch) const override {
    return once_->score(network, batch);
  }
  std::vector<tasks::Metric> metrics(const tasks::Tally& tally) const override {
    return once_->metrics(tally);
  }

 private:
  std::unique_ptr<Task> once_;
};

}  // namespace

void register_own_task() {
  register_task({"twice", "the class of a sample, by twice the loss",
                 [](const tasks::TaskSite& site) -> std::unique_ptr<tasks::Task> {
                   return std::make_unique<Twice>(tasks::make_classification(site));
                 }});
}
