#include "distbelief/run/job_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/data/learnt.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/tasks/task.h"

namespace distbelief::run {

namespace {

// Some tasks exclude some layouts: with several backwards per step, all read the weights from before the
// step, and each has gradients for some parameters only.
void require_layout_for(const Config& config, const tasks::TaskEntry& task) {
  if (task.backwards == 1 && !task.whole_network) return;
  const ParallelConfig& parallel = config.parallel;
  const bool several = task.backwards > 1;
  const auto refuse = [&](const std::string& key, const std::string& wanted) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task '{}' runs {} wants {}", task.name,
                    several ? "several backwards a step, which" : "the whole network more than once, which",
                    wanted),
        {.key = key});
  };
  if (parallel.pipeline * parallel.tensor > 1)
    refuse(parallel.pipeline > 1 ? "parallel.pipeline" : "parallel.tensor",
           "parallel.pipeline = parallel.tensor = 1");
  if (several && parallel.zero == 3) refuse("parallel.zero", "parallel.zero 1 or 2");
  if (several && (parallel.overlap == "update" || parallel.overlap == "check"))
    refuse("parallel.overlap", "parallel.overlap = \"reduce\"");
}

Error no_stream(const std::string& found) {
  return Error(ErrorCode::kBadInput, "model.streams reads on from sample to sample, but " + found,
               {.key = "model.streams"});
}

// Carried state works only on consecutive samples: with overlap the network has already read what it must
// predict; after a gap the state is of no use.
void require_reading_on(const DataConfig& data) {
  if (data.name != "text") return;
  const OptionMap options = data::data_set_options(data.name, data.options);
  const auto length = option<std::int64_t>(options, "length"),
             stride = option<std::int64_t>(options, "stride");
  if (stride == 0 || stride == length) return;
  throw no_stream(fmt::format("of data.length {} a sample {} data.stride {}; leave data.stride out", length,
                              stride < length ? "repeats all but" : "begins only after", stride));
}

// The same for packed slices. They do not record the distance between samples, so the samples are compared.
void require_packed_reading_on(const data::DataSet& data) {
  constexpr std::uint64_t kPairs = 16;
  const data::SampleSpec& spec = data.train->spec();
  const auto length = static_cast<std::size_t>(element_count(spec.input_shape));
  std::vector<std::int64_t> before(length), next(length), target(length), following(length);
  std::vector<bool> repeats(length, true);  // entry i: each sample repeats the previous one from i on
  std::uint64_t breaks = 0;                 // a data set may consist of several texts
  const std::uint64_t pairs = std::min(kPairs, data.train->size() - 1);
  if (pairs > 0) data.train->read(0, before.data(), target.data());
  for (std::uint64_t i = 0; i < pairs; ++i, before = next, target = following) {
    data.train->read(i + 1, next.data(), following.data());
    if (next[0] != target[length - 1]) ++breaks;
    for (std::size_t stride = 1; stride < length; ++stride)
      repeats[stride] =
          repeats[stride] && std::equal(before.begin() + std::ptrdiff_t(stride), before.end(), next.begin());
  }
  const auto found = std::find(repeats.begin() + 1, repeats.end(), true);
  if (2 * breaks <= pairs) return;
  throw no_stream(fmt::format(
      "these were packed with data.length {} and {}; pack the text again without data.stride", length,
      found == repeats.end() ? "a larger data.stride, so that there is a gap between them"
                             : fmt::format("data.stride {}, so that a sample repeats most of the one before",
                                           found - repeats.begin())));
}

// State is carried per place of the batch, so each place must continue where it stopped.
void require_streams(const Config& config, const data::DataSet& data) {
  const auto found = config.model.options.find("streams");
  if (found == config.model.options.end()) return;
  const auto* streams = std::get_if<std::int64_t>(&found->second);
  if (streams == nullptr || *streams == 0) return;
  if (*streams != config.train.batch_size)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model.streams must be train.batch_size to carry state, found {} and {}",
                            *streams, config.train.batch_size),
                {.key = "model.streams"});
  if (config.data.order != "streams")
    throw Error(ErrorCode::kBadInput,
                fmt::format("model.streams {} wants data.order = \"streams\", found \"{}\": state would be "
                            "carried between samples that have nothing to do with each other",
                            *streams, config.data.order),
                {.key = "model.streams"});
  if (!data.learnt || !data.learnt->vocabulary) return;
  if (data.learnt->vocabulary->level() == data::TextLevel::kSentences)
    throw no_stream(
        "data.level \"sentences\" has sentences that stand alone; set model.streams = 0, or "
        "data.level to bytes or characters");
  if (config.data.name == "packed")
    require_packed_reading_on(data);
  else
    require_reading_on(config.data);
}

// Without this check, a target that no validation measures would never end the run.
void require_target(const TrainConfig& train, const tasks::Task& task) {
  if (train.target == 0) return;
  const std::vector<std::string> names = tasks::metric_names(task);
  if (std::ranges::find(names, train.target_metric) != names.end()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("train.target_metric is \"{}\", but this task has no such metric; it has {}",
                          train.target_metric, fmt::join(names, ", ")),
              {.key = "train.target_metric"});
}

// Refuses a loss that the task would ignore.
void require_used_loss(const Config& config, const std::string& task) {
  const TrainConfig& train = config.train;
  const model::ModelEntry& model = model::find_model(config.model.name);
  const bool from_elsewhere = model.blueprint == nullptr || model.name == "torchscript";
  if (task == "classification" && (train.loss != "nll" || from_elsewhere)) return;
  if (task == "classification")
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("train.loss \"nll\" is for networks of your own that give log-probabilities; model "
                    "'{}' gives any numbers: leave it out",
                    config.model.name),
        {.key = "train.loss"});
  if (train.label_smoothing > 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("train.label_smoothing is used by task 'classification' alone, and this is task "
                            "'{}'; leave it out",
                            task),
                {.key = "train.label_smoothing"});
  const bool is_its_own = train.loss == TrainConfig{}.loss || (task == "regression" && train.loss == "mse");
  if (!is_its_own)
    throw Error(ErrorCode::kBadInput,
                fmt::format("train.loss is used by task 'classification' alone, and task '{}' has a loss of "
                            "its own; leave it out",
                            task),
                {.key = "train.loss"});
}

}  // namespace

void require_fit(const Config& config, const data::DataSet& data) {
  const data::SampleSpec& spec = data.train->spec();
  const std::string task = tasks::task_name(config, spec);
  require_layout_for(config, tasks::find_task(task));
  require_used_loss(config, task);
  require_streams(config, data);
  require_target(config.train,
                 *tasks::make_task(config, spec));  // also refuses data that does not fit the task
}

void require_stages(const Config& config, int blocks) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t stages = parallel.pipeline * stages_per_worker(parallel);
  if (stages > blocks && blocks == 1)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model '{}' is a single block, which has no place to cut it; set "
                            "parallel.pipeline = 1, or take a model of several blocks",
                            config.model.name),
                {.key = "parallel.pipeline"});
  if (stages > blocks)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "model '{}' has {} blocks to cut between, but parallel.pipeline {} with {} per worker "
            "wants {} stages, each with a block; take pipeline x stages per worker of {} at most, or a "
            "deeper network",
            config.model.name, blocks, parallel.pipeline,
            stages_per_worker(parallel) == 1 ? "1 stage"
                                             : fmt::format("{} stages", stages_per_worker(parallel)),
            stages, blocks),
        {.key = "parallel.pipeline"});
  const std::vector<int> firsts(parallel.cuts.begin(), parallel.cuts.end());
  if (!firsts.empty())
    mesh::given_cuts(firsts, std::vector<mesh::BlockCost>(std::size_t(blocks)), int(stages), {});
}

void require_batch_method(const PreparedJob& job) {
  constexpr std::int64_t kMostPortions = 1024;
  const std::string task = tasks::task_name(job.config, job.data.train->spec());
  for (const char* other :
       {"vae", "masked_tokens", "actor_critic", "gan", "few_labels", "architecture_search"})
    if (task == other)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("model '{}' learns by the task {}, whose loss is not the same at every "
                              "evaluation; use another optimizer than lbfgs",
                              job.config.model.name, task),
                  {.key = "train.optimizer"});
  if (compute::BufferSet(*job.network).size() > 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model '{}' has running statistics (batch norm) or state, so that its loss "
                            "depends on how the batch is cut; use another model, or another optimizer than "
                            "lbfgs",
                            job.config.model.name),
                {.key = "train.optimizer"});
  if (job.steps_per_epoch() > kMostPortions)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} samples in portions of train.batch_size {} are {} portions, L-BFGS takes {} at "
                    "most; raise train.batch_size",
                    job.data.train->size(), job.config.train.batch_size, job.steps_per_epoch(),
                    kMostPortions),
        {.key = "train.batch_size"});
}

}  // namespace distbelief::run
