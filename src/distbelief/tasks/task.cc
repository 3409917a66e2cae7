#include "distbelief/tasks/task.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/random.h"
#include "distbelief/model/requirements.h"
#include "distbelief/model/tensor_type.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr std::uint64_t kPreparation = ~std::uint64_t{0};  // a stream that no block uses
constexpr std::uint64_t kTestSeed = 0x74657374;

torch::Tensor borrow(const Array& array) {  // networks do not write to their inputs
  return model::borrow_host(array.data(), array.shape(), model::torch_type(array.type()));
}

}  // namespace

TensorBatch as_tensors(const data::Batch& batch) {
  return {.input = borrow(batch.input),
          .target = borrow(batch.target),
          .size = std::int64_t(batch.size),
          .samples = batch.samples};
}

std::vector<std::string> metric_names(const Task& task) {
  const ScoreShape shape = task.score_shape();
  const Tally nothing{
      .chunks = {}, .sums = std::vector<double>(shape.sums), .counts = std::vector<double>(shape.counts)};
  std::vector<std::string> names{kLossMetric};
  for (const Metric& metric : task.metrics(nothing)) names.push_back(metric.name);
  return names;
}

TensorBatch prepared_for_lane(const Task& task, TensorBatch batch, std::uint64_t lane_seed,
                              const torch::Device& device) {
  const model::GeneratorScope randomness(lane_seed);
  model::begin_stream(kPreparation);
  batch = task.prepared(std::move(batch));
  batch.input = model::on_device(std::move(batch.input), device);
  batch.target = model::on_device(std::move(batch.target), device);
  return batch;
}

TensorBatch prepared_for_test(const Task& task, TensorBatch batch, const torch::Device& device) {
  batch.samples = {};  // indices of test samples mean nothing to tasks that know training samples by index
  return prepared_for_lane(task, std::move(batch), kTestSeed, device);
}

namespace {

std::vector<TaskEntry>& table_of_tasks() {
  static std::vector<TaskEntry> table = {
      {"classification", "the class of a sample, or of each token", make_classification},
      {"regression", "values, by their mean square distance", make_regression},
      {"segmentation", "the class of each pixel", make_segmentation},
      {"autoencoder", "the input itself, through a narrow code", make_autoencoder},
      {"vae", "the input itself, through a distribution over codes", make_vae},
      {"masked_tokens", "tokens that were hidden from the network", make_masked_tokens},
      {"ctc", "labels in order, without where they lie", make_ctc},
      {"actor_critic", "to act in an environment (advantage actor-critic)", make_actor_critic, 1, true, true},
      {"gan", "to make images that another network cannot tell from real ones", make_adversarial, 2, true},
      {"architecture_search", "the class of a sample, and which candidates of each layer do for it",
       make_architecture_search, 2, true},
      {"click_through", "the class of a sample of ids, from rows of a table on parameter servers",
       make_click_through, 1, true},
      {"skip_gram", "vectors of words that go with the words around them, as rows of tables", make_skip_gram,
       1, true},
      {"few_labels", "the class of a sample, from the labels of some (train.labelled)", make_few_labels, 1,
       true},
  };
  return table;
}

}  // namespace

const std::vector<TaskEntry>& tasks() { return table_of_tasks(); }

void register_task(TaskEntry entry) {
  for (const TaskEntry& known : tasks())
    if (known.name == entry.name)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("there is a task '{}' already; choose another name", entry.name));
  table_of_tasks().push_back(std::move(entry));
}

const TaskEntry& find_task(const std::string& name) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : tasks()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw model::unknown_name("task", "train.task", name, names);
}

std::string task_name(const Config& config, const data::SampleSpec& spec) {
  if (config.train.task != "auto") return find_task(config.train.task).name;
  if (const std::string& task = model::find_model(config.model.name).task; !task.empty()) return task;
  return spec.classes == 0 && spec.target_type == ElementType::kFloat32 ? "regression" : "classification";
}

std::unique_ptr<Task> make_task(const Config& config, const data::SampleSpec& spec, model::TensorGroup* group,
                                RowSource* rows) {
  return find_task(task_name(config, spec))
      .make({.train = config.train,
             .model = config.model,
             .data = config.data,
             .spec = spec,
             .group = group,
             .rows = rows});
}

model::DataShape shape_of(const data::SampleSpec& spec) {
  return {.tokens = spec.input_type == ElementType::kInt64,
          .input = spec.input_shape,
          .classes = spec.classes,
          .input_tokens = spec.input_tokens,
          .values = spec.classes > 0 ? 0 : element_count(spec.target_shape)};
}

void require_classes(const TaskSite& site, const char* task) {
  if (site.spec.classes > 0 && site.spec.target_type == ElementType::kInt64) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("task '{}' wants targets that are classes, this data set has {} {}; choose other "
                          "data or train.task = \"regression\"",
                          task, to_string(site.spec.target_type), to_string(site.spec.target_shape)));
}

}  // namespace distbelief::tasks
