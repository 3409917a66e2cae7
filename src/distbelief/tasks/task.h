#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/model/registry.h"
#include "distbelief/tasks/batch_rows.h"
#include "distbelief/tasks/score.h"

namespace distbelief::tasks {

// A batch as tensors. After as_tensors() it borrows the data batch's memory and is in host memory.
struct TensorBatch {
  torch::Tensor input;
  torch::Tensor target;
  std::int64_t size = 0;
  std::span<const std::uint64_t> samples{};  // indices of the samples; borrowed; empty if unknown
  std::vector<BatchRows> rows{};             // rows of tables that the input was made from
};
TensorBatch as_tensors(const data::Batch& batch);

// One backward of a step. It moves the parameters whose names begin with `moves`, at `lr_factor` times the
// step's learning rate; gradients of other parameters are dropped.
struct Backward {
  std::string moves;  // empty: all
  double lr_factor = 1;
};

// The work of a lane in a step: the interface for every kind of learning. Stateless, so that all lane threads
// can share one task; state that a network carries from step to step is in its buffers (model/lane_place.h).
class Task {
 public:
  virtual ~Task() = default;
  // Items per sample in the loss: 1, or its tokens, or its pixels.
  virtual std::int64_t items_per_sample() const = 0;
  // Transforms a batch before network and loss see it, e.g. masks tokens. Works in host memory, on any device
  // of the network, and draws from model::current_generator(). Workers with the first or the last block call
  // it with the same randomness.
  virtual TensorBatch prepared(TensorBatch batch) const { return batch; }
  // Tables on parameter servers, by index, whose rows prepared() gathers.
  virtual std::vector<comm::TableSpec> tables() const { return {}; }
  // The backwards of a step, in order. All of them read the weights from before the step, and no two move the
  // same parameter, so adversaries share one step and one exchange.
  virtual std::vector<Backward> backwards() const { return {Backward{}}; }
  // Runs forward and returns the loss summed over the batch's items, ready for the given backward.
  virtual torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch,
                                 std::size_t backward = 0) const = 0;
  // Runs forward only, for validation. score_shape() gives the lengths of both lists in every score.
  virtual ScoreShape score_shape() const = 0;
  virtual Score score(model::Network& network, const TensorBatch& batch) const = 0;
  // Metrics for people, from all scores together. The tally itself gives the loss.
  virtual std::vector<Metric> metrics(const Tally& tally) const = 0;
};

// The values that validations measure: the loss, and the task's metrics.
std::vector<std::string> metric_names(const Task& task);

// Prepares a batch in host memory and moves it to the network's device: for a lane of a step with the lane's
// seed, for test samples with a fixed seed.
TensorBatch prepared_for_lane(const Task& task, TensorBatch batch, std::uint64_t lane_seed,
                              const torch::Device& device);
TensorBatch prepared_for_test(const Task& task, TensorBatch batch, const torch::Device& device);

// Inputs to the construction of a task.
struct TaskSite {
  const TrainConfig& train;
  const ModelConfig& model;
  const DataConfig& data;
  const data::SampleSpec& spec;
  // When a tensor group computes the network together, each worker may have the outputs of some classes only.
  // Outlives the task; may be null.
  model::TensorGroup* group = nullptr;
  // The source of table rows, which outlives the task; null: all rows have their first values.
  RowSource* rows = nullptr;
};
struct TaskEntry {
  std::string name;
  std::string description;
  std::unique_ptr<Task> (*make)(const TaskSite& site);
  std::size_t backwards = 1;   // number of backwards
  bool whole_network = false;  // runs parts of the network in its own order: no pipeline may cut it
  bool runs_often = false;  // runs the network more than once per step of a lane or per chunk of a validation
};

// The shape of the data as a network sees it.
model::DataShape shape_of(const data::SampleSpec& spec);

// The table of all tasks, and lookups in it. With "auto", task_name() returns the task that the model is made
// for, or else the one that the targets ask for. Throws Error(kBadInput) for an unknown name, or a task that
// does not fit the data.
const std::vector<TaskEntry>& tasks();
const TaskEntry& find_task(const std::string& name);
// For main(): not thread-safe. Throws Error(kBadInput) when the name is taken.
void register_task(TaskEntry entry);
std::string task_name(const Config& config, const data::SampleSpec& spec);
std::unique_ptr<Task> make_task(const Config& config, const data::SampleSpec& spec,
                                model::TensorGroup* group = nullptr, RowSource* rows = nullptr);

}  // namespace distbelief::tasks
