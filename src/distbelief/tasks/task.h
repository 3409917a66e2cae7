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

// A batch as tensors. From as_tensors() it borrows the data batch's memory, and is on the host.
struct TensorBatch {
  torch::Tensor input;
  torch::Tensor target;
  std::int64_t size = 0;
  std::span<const std::uint64_t> samples{};  // which ones; borrowed, and empty where nobody knows
  std::vector<BatchRows> rows{};             // of tables, that the input was made of
};
TensorBatch as_tensors(const data::Batch& batch);

// One backward of a step: the parameters that it moves, by how their names begin, and how many times the
// step's learning rate they have. What it gives to others is dropped.
struct Backward {
  std::string moves;  // empty: all
  double lr_factor = 1;
};

// What a lane does in a step: the seam for every kind of learning. Stateless, so that all lane threads
// may share one; what a network carries from step to step lies in its buffers (model/lane_place.h).
class Task {
 public:
  virtual ~Task() = default;
  // How many items a sample counts for in the loss: 1, or its tokens, or its pixels.
  virtual std::int64_t items_per_sample() const = 0;
  // What the network and the loss get in place of a batch, e.g. with tokens masked. On the host, wherever the
  // network is: draws from model::current_generator(). Called by whoever has the first or the last block,
  // with the same randomness.
  virtual TensorBatch prepared(TensorBatch batch) const { return batch; }
  // Tables on parameter servers, by number, whose rows it gathers when it prepares a batch.
  virtual std::vector<comm::TableSpec> tables() const { return {}; }
  // The backwards of a step, in order. All of them read the weights of before the step, and no parameter is
  // moved by two: adversaries take turns within one step and one exchange.
  virtual std::vector<Backward> backwards() const { return {Backward{}}; }
  // Forward, and the loss summed over the batch's items, ready for that backward.
  virtual torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch,
                                 std::size_t backward = 0) const = 0;
  // Forward only, for validation. `shape` says how long the two lists of every score are.
  virtual ScoreShape score_shape() const = 0;
  virtual Score score(model::Network& network, const TensorBatch& batch) const = 0;
  // What people read, from all scores together. The loss is the tally's own.
  virtual std::vector<Metric> metrics(const Tally& tally) const = 0;
};

// What validations measure: the loss, and the task's metrics.
std::vector<std::string> metric_names(const Task& task);

// A batch of the host as the task wants it, brought to the network's device: for a lane of a step, with the
// lane's seed; for test samples, with a seed that is always the same.
TensorBatch prepared_for_lane(const Task& task, TensorBatch batch, std::uint64_t lane_seed,
                              const torch::Device& device);
TensorBatch prepared_for_test(const Task& task, TensorBatch batch, const torch::Device& device);

// What a task is made from.
struct TaskSite {
  const TrainConfig& train;
  const ModelConfig& model;
  const DataConfig& data;
  const data::SampleSpec& spec;
  // Of a network that a tensor group, which outlives the task, computes together each worker may have the
  // outputs of some classes only; or null.
  model::TensorGroup* group = nullptr;
  // Where rows of tables come from, which outlives the task; null: all have their first values.
  RowSource* rows = nullptr;
};
struct TaskEntry {
  std::string name;
  std::string description;
  std::unique_ptr<Task> (*make)(const TaskSite& site);
  std::size_t backwards = 1;   // that it declares
  bool whole_network = false;  // it runs parts of the network as it likes: no pipeline may cut it
  bool runs_often = false;     // a lane's step, or a chunk of a validation, runs the network more than once
};

// What a network sees of such samples.
model::DataShape shape_of(const data::SampleSpec& spec);

// All tasks known by name, and what train.task names of them: with "auto" what the model is made for, or else
// what the targets ask for. Throws Error(kBadInput) for a name that no table has, or a task that does not fit
// the data.
const std::vector<TaskEntry>& tasks();
const TaskEntry& find_task(const std::string& name);
std::string task_name(const Config& config, const data::SampleSpec& spec);
std::unique_ptr<Task> make_task(const Config& config, const data::SampleSpec& spec,
                                model::TensorGroup* group = nullptr, RowSource* rows = nullptr);

}  // namespace distbelief::tasks
