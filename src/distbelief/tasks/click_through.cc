#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

// Replaces each id by its row, then classifies as usual.
class ClickThrough final : public Task {
 public:
  ClickThrough(const TaskSite& site, const OptionMap& options)
      : classes_(make_classification(site)),
        rows_(site.rows),
        table_{.name = "ids",
               .width = std::uint32_t(option<std::int64_t>(options, "width")),
               .seed = site.train.seed,
               .scale = option<double>(options, "scale"),
               .most_rows = std::uint64_t(option<std::int64_t>(options, "most_rows"))} {}

  std::int64_t items_per_sample() const override { return classes_->items_per_sample(); }
  std::vector<comm::TableSpec> tables() const override { return {table_}; }

  TensorBatch prepared(TensorBatch batch) const override {
    if (batch.input.scalar_type() != torch::kInt64) return batch;  // already rows (bench)
    batch.input = gather_rows(rows_, 0, table_, batch.input, batch.rows).flatten(1);
    return batch;
  }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch,
                         std::size_t backward) const override {
    return classes_->loss_sum(network, batch, backward);
  }
  ScoreShape score_shape() const override { return classes_->score_shape(); }
  Score score(model::Network& network, const TensorBatch& batch) const override {
    return classes_->score(network, batch);
  }
  std::vector<Metric> metrics(const Tally& tally) const override { return classes_->metrics(tally); }

 private:
  std::unique_ptr<Task> classes_;
  RowSource* rows_;
  comm::TableSpec table_;
};

}  // namespace

std::unique_ptr<Task> make_click_through(const TaskSite& site) {
  if (site.model.name != "click_through" || !site.spec.target_shape.empty())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task 'click_through' wants model click_through and samples of ids with one class, "
                    "found model '{}' and targets {}; data set synthetic_clicks has them",
                    site.model.name, to_string(site.spec.target_shape)));
  return std::make_unique<ClickThrough>(site, model::resolved_options(site.model));
}

}  // namespace distbelief::tasks
