#include "distbelief/job/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::job {
namespace {

// clang-format off
template <typename Section>
struct Path;  // from a Config to its part of that type
template <> struct Path<ModelConfig> { static auto& of(auto& config) { return config.model; } };
template <> struct Path<DataConfig> { static auto& of(auto& config) { return config.data; } };
template <> struct Path<TrainConfig> { static auto& of(auto& config) { return config.train; } };
template <> struct Path<OptimizerConfig> { static auto& of(auto& config) { return config.train.optimizer; } };
template <> struct Path<ScheduleConfig> { static auto& of(auto& config) { return config.train.schedule; } };
template <> struct Path<ParallelConfig> { static auto& of(auto& config) { return config.parallel; } };
template <> struct Path<ElasticConfig> { static auto& of(auto& config) { return config.elastic; } };
template <> struct Path<CheckpointConfig> { static auto& of(auto& config) { return config.checkpoint; } };
template <> struct Path<ReportConfig> { static auto& of(auto& config) { return config.report; } };
// clang-format on

template <auto kMember, typename Section, typename T>
constexpr Field<T> field_of(T Section::*) {
  return {[](Config& config) -> T& { return Path<Section>::of(config).*kMember; },
          [](const Config& config) -> const T& { return Path<Section>::of(config).*kMember; }};
}

template <auto kMember>
constexpr auto at() {
  return field_of<kMember>(kMember);
}

using Choices = std::vector<std::string>;

Key key(const std::string& full_name, AnyField field, std::optional<Limit> limit, Choices choices,
        std::string help) {
  const auto dot = full_name.find('.');
  return {full_name.substr(0, dot), full_name.substr(dot + 1), field, limit, std::move(choices),
          std::move(help)};
}

Key key(const std::string& full_name, AnyField field, std::string help) {
  return key(full_name, field, std::nullopt, {}, std::move(help));
}

Key key(const std::string& full_name, AnyField field, Limit limit, std::string help) {
  return key(full_name, field, limit, {}, std::move(help));
}

Key key(const std::string& full_name, AnyField field, Choices choices, std::string help) {
  return key(full_name, field, std::nullopt, std::move(choices), std::move(help));
}

constexpr Limit kEpochs{"from 0 to 1e9", [](double x) { return x >= 0 && x <= 1e9; }};
constexpr Limit kPositive{"greater than 0", [](double x) { return x > 0; }};
constexpr Limit kNotNegative{"0 or more", [](double x) { return x >= 0; }};
constexpr Limit kAtLeastOne{"1 or more", [](double x) { return x >= 1; }};
constexpr Limit kBelowOne{"0 or more and below 1", [](double x) { return x >= 0 && x < 1; }};
constexpr Limit kFactor{"greater than 0 and at most 1", [](double x) { return x > 0 && x <= 1; }};
constexpr Limit kPixels{"from 0 to 1024", [](double x) { return x >= 0 && x <= 1024; }};
constexpr Limit kThreads{"from 1 to 1024", [](double x) { return x >= 1 && x <= 1024; }};
constexpr Limit kCount{"from 1 to 65536", [](double x) { return x >= 1 && x <= 65536; }};
constexpr Limit kServers{"from 1 to 64", [](double x) { return x >= 1 && x <= 64; }};  // each has a part
constexpr Limit kCountOrZero{"from 0 to 65536", [](double x) { return x >= 0 && x <= 65536; }};
constexpr Limit kZeroLevels{"1, 2 or 3 (optimizer state is always shared out, so there is no 0)",
                            [](double x) { return x >= 1 && x <= 3; }};
constexpr Limit kMegabytes{"greater than 0 and at most 4096", [](double x) { return x > 0 && x <= 4096; }};
constexpr Limit kSeconds{"greater than 0 and at most 1e9", [](double x) { return x > 0 && x <= 1e9; }};
constexpr Limit kSecondsOrZero{"from 0 to 1e9", [](double x) { return x >= 0 && x <= 1e9; }};

std::vector<Key> model_and_data_keys() {
  return {
      key("model.name", at<&ModelConfig::name>(),
          "the network; `distbelief models` lists them. Other keys of this section are that model's own "
          "options"),
      key("data.name", at<&DataConfig::name>(),
          "the data set; `distbelief datasets` lists them. Other keys of this section are that data set's "
          "own options"),
      key("data.path", at<&DataConfig::path>(),
          "folder of the data set's files, relative to the working directory; empty: where it is usually "
          "found"),
      key("data.train_limit", at<&DataConfig::train_limit>(), kNotNegative,
          "train on so many samples only, from all over the set (of text and of MNIST, CIFAR and generated "
          "sets the first); 0: all"),
      key("data.test_limit", at<&DataConfig::test_limit>(), kNotNegative,
          "test on so many samples only, chosen in the same way; 0: all"),
      key("data.normalize", at<&DataConfig::normalize>(),
          "subtract the data set's mean and divide by its deviation, per channel"),
      key("data.augment", at<&DataConfig::augment>(), Choices{"pad_crop", "flip"},
          "random changes to training images: `pad_crop` shifts by up to `pad` pixels, `flip` mirrors left "
          "and right"),
      key("data.pad", at<&DataConfig::pad>(), kPixels, "pixels added at each side for `pad_crop`"),
      key("data.order", at<&DataConfig::order>(), Choices{"shuffled", "streams"},
          "`shuffled`: anew each epoch; `streams`: each place of the batch reads its own run of neighbouring "
          "samples, one a step, for models that carry state from step to step"),
      key("data.loader_threads", at<&DataConfig::loader_threads>(), kThreads,
          "threads of each worker that prepare batches"),
      key("data.prefetch", at<&DataConfig::prefetch>(), kCount, "batches that each worker keeps ready"),
  };
}

std::vector<Key> train_keys() {
  return {
      key("train.epochs", at<&TrainConfig::epochs>(), kEpochs,
          "passes over the training samples; 0: until `max_steps`"),
      key("train.max_steps", at<&TrainConfig::max_steps>(), kNotNegative,
          "end after so many steps, even within an epoch; 0: no limit"),
      key("train.batch_size", at<&TrainConfig::batch_size>(), kAtLeastOne,
          "samples of one step, over all workers together"),
      key("train.accumulate", at<&TrainConfig::accumulate>(), kCount,
          "micro-batches that each lane's share of a step is cut into; multiplies the lanes"),
      key("train.seed", at<&TrainConfig::seed>(), kNotNegative,
          "root of all randomness: initial weights, order of samples, augmentation, dropout"),
      key("train.init", at<&TrainConfig::init>(),
          "safetensors file with weights to begin from; empty: drawn from the seed; `--init` sets it"),
      key("train.init_partial", at<&TrainConfig::init_partial>(),
          "take from `init` what fits and draw the rest, instead of refusing a file of another network; "
          "`--init-partial` sets it"),
      key("train.task", at<&TrainConfig::task>(),
          Choices{"auto", "classification", "regression", "segmentation", "autoencoder", "vae",
                  "masked_tokens", "ctc", "actor_critic", "gan", "few_labels", "architecture_search",
                  "click_through", "skip_gram"},
          "what is learnt from a batch; `auto`: what the model is made for, else `classification` where "
          "targets are classes and `regression` where they are values"),
      key("train.labelled", at<&TrainConfig::labelled>(), kFactor,
          "`few_labels`: share of the training samples whose label counts"),
      key("train.unlabelled", at<&TrainConfig::unlabelled>(),
          "`few_labels`: learn from the other samples too; false: from those with a label alone, to compare"),
      key("train.loss", at<&TrainConfig::loss>(), Choices{"cross_entropy", "nll", "mse"},
          "what is minimised: cross entropy of the softmax of the outputs, the negative log-likelihood of "
          "outputs that are log-probabilities (of a network of your own), or the mean square distance to the "
          "one-hot class; of task `classification`, others have a loss of their own"),
      key("train.label_smoothing", at<&TrainConfig::label_smoothing>(), kBelowOne,
          "share of the target spread over all classes; task `classification` with `cross_entropy` only"),
      key("train.clip_norm", at<&TrainConfig::clip_norm>(), kNotNegative,
          "scale the gradient down to this norm when it is longer; 0: off"),
      key("train.reproducible", at<&TrainConfig::reproducible>(),
          "same bits for any number of workers; refuses what would break that"),
      key("train.early_stop_patience", at<&TrainConfig::early_stop_patience>(), kNotNegative,
          "end after so many validations (`validate_every`) without a better loss; 0: off"),
      key("train.target", at<&TrainConfig::target>(),
          "end when a validation finds `target_metric` as good as this: as high, or as low where lower is "
          "better; 0: off"),
      key("train.target_metric", at<&TrainConfig::target_metric>(),
          "which of the task's metrics `target` is for: `loss`, or one of [these](models.md#metrics)"),
      key("train.validate_every", at<&TrainConfig::validate_every>(), kNotNegative,
          "epochs between validations on the test samples; 0: only at the end"),
      key("train.verify_every", at<&TrainConfig::verify_every>(), kNotNegative,
          "steps between comparisons of the replicas: the parameters of every host and the buffers of every "
          "worker must have the same bits; 0: off"),
      key("train.device", at<&TrainConfig::device>(), Choices{"cpu"},
          "where networks compute; this version computes on the CPU"),
  };
}

std::vector<Key> optimizer_keys() {
  return {
      key("train.optimizer", at<&OptimizerConfig::name>(),
          Choices{"sgd", "adam", "adamw", "adagrad", "lars", "lamb", "lbfgs"},
          "how weights follow gradients; `lbfgs` minimises the loss of all training samples together, "
          "`batch_size` at a time ([L-BFGS](../explanation/lbfgs.md))"),
      key("train.lr", at<&OptimizerConfig::lr>(), kPositive, "learning rate, after the warm-up"),
      key("train.lr_discriminator", at<&TrainConfig::lr_discriminator>(), kNotNegative,
          "`gan`: learning rate of the discriminator in place of `lr`, on the same schedule; 0: `lr`"),
      key("train.momentum", at<&OptimizerConfig::momentum>(), kBelowOne,
          "`sgd`, `lars`: share of the last update's direction that the next one keeps"),
      key("train.nesterov", at<&OptimizerConfig::nesterov>(), "`sgd`: Nesterov's momentum; needs `momentum`"),
      key("train.weight_decay", at<&OptimizerConfig::weight_decay>(), kNotNegative,
          "pull of the weights towards 0: added to the gradient; `adamw`, `lamb`: applied to the weights"),
      key("train.beta1", at<&OptimizerConfig::beta1>(), kBelowOne,
          "`adam`, `adamw`, `lamb`: decay of the gradient's mean"),
      key("train.beta2", at<&OptimizerConfig::beta2>(), kBelowOne,
          "`adam`, `adamw`, `lamb`: decay of the gradient's mean square"),
      key("train.eps", at<&OptimizerConfig::eps>(), kPositive,
          "`adam`, `adamw`, `adagrad`, `lars`, `lamb`: added to denominators; `lbfgs`: norm of the gradient "
          "at "
          "which it ends"),
      key("train.trust", at<&OptimizerConfig::trust>(), kPositive, "`lars`: trust coefficient"),
      key("train.schedule", at<&ScheduleConfig::name>(), Choices{"constant", "step", "cosine"},
          "how the learning rate changes over the run"),
      key("train.warmup_steps", at<&ScheduleConfig::warmup_steps>(), kNotNegative,
          "steps over which the learning rate first grows linearly to `lr`; 0: none"),
      key("train.lr_step_epochs", at<&ScheduleConfig::step_epochs>(), kAtLeastOne,
          "`step`: multiply the learning rate by `lr_gamma` every so many epochs"),
      key("train.lr_gamma", at<&ScheduleConfig::gamma>(), kFactor, "`step`: the factor"),
      key("train.min_lr", at<&ScheduleConfig::min_lr>(), kNotNegative,
          "`cosine`: learning rate at the end of the run"),
  };
}

std::vector<Key> parallel_keys() {
  return {
      key("parallel.workers", at<&ParallelConfig::workers>(), kCount,
          "processes; `--workers` and `--hosts` override it"),
      key("parallel.lanes", at<&ParallelConfig::lanes>(), kCountOrZero,
          "slices of every batch, fixed for the job's life: they define its arithmetic; 0: workers times "
          "threads, 4 for each tensor group in a pipeline"),
      key("parallel.threads", at<&ParallelConfig::threads>(), kThreads,
          "lanes that a worker carries at a time, each on its own thread"),
      key("parallel.data", at<&ParallelConfig::data>(), kCountOrZero,
          "replicas of the network, each with its share of the lanes; 0: as many as there are workers for. "
          "With parameter servers: copies of the network inside each replica, which add up their gradients "
          "and push once; 0: 1"),
      key("parallel.pipeline", at<&ParallelConfig::pipeline>(), kCount,
          "workers that each replica is cut over, by layers: each holds one stage, and lanes flow through "
          "them as micro-batches"),
      key("parallel.tensor", at<&ParallelConfig::tensor>(), kCount,
          "workers that compute each layer together: each holds a slice of its weights"),
      key("parallel.zero", at<&ParallelConfig::zero>(), kZeroLevels,
          "what replicas share out instead of each holding it: 1 the optimizer's state, 2 gradients too, 3 "
          "parameters too, which are then gathered block by block when they are needed"),
      key("parallel.zero_inside_host", at<&ParallelConfig::zero_inside_host>(),
          "share out between the workers of one host as well, for limits on the memory of each process; "
          "otherwise a host's workers hold parameters together, once"),
      key("parallel.state_dir", at<&ParallelConfig::state_dir>(),
          "folder on a local disk for the optimizer's state, mapped into memory, where memory is short; "
          "empty: in memory"),
      key("parallel.mesh", at<&ParallelConfig::mesh>(), Choices{"given", "auto"},
          "`auto`: the best of what `distbelief plan` finds for data, pipeline, tensor and zero"),
      key("parallel.split_features", at<&ParallelConfig::split_features>(),
          "workers of a tensor group read only their columns of every sample; for `mlp`"),
      key("parallel.schedule", at<&ParallelConfig::schedule>(), Choices{"gpipe", "1f1b", "interleaved"},
          "order of forward and backward in a pipeline: `gpipe` all forward first, `1f1b` in turns, which "
          "keeps "
          "fewer activations, `interleaved` in turns with several stages per worker, which idles less"),
      key("parallel.chunks", at<&ParallelConfig::chunks>(), kCountOrZero,
          "stages per worker of `interleaved`; 0: 2"),
      key("parallel.cuts", at<&ParallelConfig::cuts>(),
          "first block of every stage, or sub-network, but the first; empty: chosen from the measured time "
          "of each block"),
      key("parallel.recompute", at<&ParallelConfig::recompute>(),
          "keep only what goes from stage to stage, and compute the rest again for backward: less memory, a "
          "third more work"),
      key("parallel.sync", at<&ParallelConfig::sync>(), Choices{"allreduce", "parameter_server"},
          "how workers share a step: by adding up among themselves, or through servers that have the "
          "parameters ([parameter servers](../explanation/parameter_servers.md)); parallel.workers then "
          "counts replicas, each a world of its own"),
      key("parallel.servers", at<&ParallelConfig::servers>(), kServers,
          "parameter servers, each a process with its part of the parameters"),
      key("parallel.mode", at<&ParallelConfig::mode>(),
          Choices{"sync", "async", "bounded", "hybrid", "sandblaster", "decomposed"},
          "of parameter servers: `sync` all replicas in every step, `async` each at its own pace, `bounded` "
          "each at its own pace but none more than `staleness` steps ahead of the slowest, `hybrid` as "
          "`async`, with one replica per host of `--hosts`, whose workers add up among themselves, "
          "`sandblaster` L-BFGS over the whole batch ([L-BFGS](../explanation/lbfgs.md)), `decomposed` each "
          "replica a sub-network of the model ([decomposed](../explanation/decomposed.md))"),
      key("parallel.staleness", at<&ParallelConfig::staleness>(), kNotNegative,
          "the bound of `bounded`, in steps: at step c of a replica its parameters have all steps of the "
          "others "
          "before c minus this"),
      key("parallel.fetch_every", at<&ParallelConfig::fetch_every>(), kCount,
          "steps of a replica between two fetches of the parameters; not with `sync` and `bounded`"),
      key("parallel.push_every", at<&ParallelConfig::push_every>(), kCount,
          "steps of a replica whose gradients are pushed together; not with `sync` and `bounded`"),
      key("parallel.warm_start", at<&ParallelConfig::warm_start>(), kCountOrZero,
          "first steps, which the first replica takes alone; the others begin with what it has come to; not "
          "with `sync`"),
      key("parallel.spare_replicas", at<&ParallelConfig::spare_replicas>(), kCountOrZero,
          "`sync`: so many replicas, the slowest of each step, are not waited for"),
      key("parallel.delay_compensation", at<&ParallelConfig::delay_compensation>(), kNotNegative,
          "how much a gradient from older parameters is corrected for what has changed since; 0: not at all; "
          "not "
          "with `sync`"),
      key("parallel.staleness_aware", at<&ParallelConfig::staleness_aware>(),
          "divide the learning rate by the number of updates since a gradient's parameters were fetched; not "
          "with "
          "`sync`"),
      key("parallel.sub_networks", at<&ParallelConfig::sub_networks>(), kCount,
          "`decomposed`: that the model is cut into; replica r trains number r modulo this. `cuts` says "
          "where; without it each has about as many blocks"),
      key("parallel.window", at<&ParallelConfig::window>(), kCount,
          "`decomposed`: outputs of a sub-network that servers keep for the next one at a time"),
      key("parallel.algorithm", at<&ParallelConfig::algorithm>(),
          Choices{"auto", "two_level", "direct", "ring", "central"},
          "how gradients are summed between hosts, after shared memory has summed them inside each; "
          "`two_level` names that with `direct` between hosts, which `auto` takes"),
      key("parallel.overlap", at<&ParallelConfig::overlap>(),
          Choices{"auto", "update", "reduce", "off", "check"},
          "what runs while the backward pass still does: the exchange and the weights' `update`, the "
          "`reduce` alone, or nothing; `auto`: as much as the job allows; `check`: [finds "
          "out](../explanation/architecture.md#overlap) "
          "whether `update` is right for a model"),
      key("parallel.bucket_mb", at<&ParallelConfig::bucket_mb>(), kMegabytes,
          "MiB of gradients exchanged together"),
      key("parallel.deadline_seconds", at<&ParallelConfig::deadline_seconds>(), kSeconds,
          "how long a worker waits for another before it gives up"),
  };
}

std::vector<Key> elastic_keys() {
  return {
      key("elastic.min", at<&ElasticConfig::min>(), kCount,
          "fewest workers: a run that has hosts for fewer waits; `distbelief scale` may not ask for fewer; "
          "with "
          "parameter servers: replicas"),
      key("elastic.max", at<&ElasticConfig::max>(), kCountOrZero,
          "most workers, however many hosts there are and whatever `distbelief scale` asks for; 0: one for "
          "every lane; with parameter servers: replicas, 0: as many as are asked for"),
      key("elastic.restarts", at<&ElasticConfig::restarts>(), kCountOrZero,
          "restarts in a row that bring no new step before the run is given up; 0: none at all"),
      key("elastic.rebalance", at<&ElasticConfig::rebalance>(),
          "move lanes from slow workers to fast ones while training; the result keeps its bits"),
      key("elastic.standby", at<&ElasticConfig::standby>(),
          "keep the next workers started and waiting, so that a lost one is replaced sooner; costs their "
          "memory"),
      key("elastic.auto", at<&ElasticConfig::automatic>(),
          "find out while training how many workers from `elastic.min` to `elastic.max` pay, and use so "
          "many"),
      key("elastic.auto_seconds", at<&ElasticConfig::auto_seconds>(), kSeconds,
          "`elastic.auto`: how long each number of workers is measured"),
      key("elastic.spares", at<&ElasticConfig::spares>(),
          "backup hosts, as `c:2`: used when others are lost"),
      key("elastic.hostfile", at<&ElasticConfig::hostfile>(),
          "file with a line `host:workers` for each host; may change while the run trains"),
      key("elastic.discovery", at<&ElasticConfig::discovery>(),
          "command that prints a line `host:workers` for each host there is now; asked again and again"),
      key("elastic.discovery_seconds", at<&ElasticConfig::discovery_seconds>(), kSeconds,
          "between two looks at the hostfile, two calls of the command"),
      key("elastic.silence_seconds", at<&ElasticConfig::silence_seconds>(), kSeconds,
          "a host that is silent for so long counts as lost"),
      key("elastic.address", at<&ElasticConfig::address>(),
          "of this machine, where workers on other hosts reach the supervisor; empty: found by itself"),
      key("elastic.certs", at<&ElasticConfig::certs>(),
          "folder with certificates from `distbelief certs`, at this path on every host; empty: the run "
          "makes "
          "its own"),
  };
}

std::vector<Key> checkpoint_and_report_keys() {
  return {
      key("checkpoint.every_epochs", at<&CheckpointConfig::every_epochs>(), kNotNegative,
          "epochs between checkpoints; 0: off"),
      key("checkpoint.every_steps", at<&CheckpointConfig::every_steps>(), kNotNegative,
          "steps between checkpoints; 0: off"),
      key("checkpoint.every_seconds", at<&CheckpointConfig::every_seconds>(), kSecondsOrZero,
          "seconds between checkpoints; 0: off"),
      key("checkpoint.keep", at<&CheckpointConfig::keep>(), kAtLeastOne,
          "last checkpoints kept, besides the best"),
      key("checkpoint.snapshots", at<&CheckpointConfig::snapshots>(),
          "also keep the state in shared memory, twice: a lost worker then costs no more than a few steps"),
      key("report.progress", at<&ReportConfig::progress>(), Choices{"auto", "bar", "plain", "none"},
          "what the terminal shows; `auto`: a bar on a terminal, plain lines elsewhere"),
      key("report.interval_seconds", at<&ReportConfig::interval_seconds>(), kSecondsOrZero,
          "seconds between lines of `metrics.jsonl`, at most one line a step"),
      key("report.trace", at<&ReportConfig::trace>(),
          "file for a trace that Chrome and Perfetto show; empty: none"),
      key("report.audit", at<&ReportConfig::audit>(),
          "record which samples each step saw; `distbelief audit` proves that every epoch saw each one once"),
      key("report.page_seconds", at<&ReportConfig::page_seconds>(), kSecondsOrZero,
          "seconds between two versions of `report.html` while the run trains; 0: only at the end"),
      key("report.tensorboard", at<&ReportConfig::tensorboard>(),
          "also write event files for TensorBoard, in `tensorboard/` of the run folder"),
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> all;
  for (auto part : {model_and_data_keys, train_keys, optimizer_keys, parallel_keys, elastic_keys,
                    checkpoint_and_report_keys}) {
    std::ranges::move(part(), std::back_inserter(all));
  }
  return all;
}

// By the field's index in AnyField.
constexpr std::string_view kTypeNames[] = {"true or false", "integer",         "integer",         "number",
                                           "string",        "list of strings", "list of integers"};
static_assert(std::size(kTypeNames) == std::variant_size_v<AnyField>);

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> all = all_keys();
  return all;
}

namespace {

std::vector<std::string>& all_sections() {
  static std::vector<std::string> names = {"model",   "data",       "train", "parallel",
                                           "elastic", "checkpoint", "report"};
  return names;
}

// By the full name of a key: values that a program has added to its choices.
std::map<std::string, Choices>& added_choices() {
  static std::map<std::string, Choices> added;
  return added;
}

bool is_mode_section(const std::string& section) {
  const auto modes = added_choices().find("parallel.sync");
  return modes != added_choices().end() && std::ranges::find(modes->second, section) != modes->second.end();
}

}  // namespace

void add_choice(const std::string& full_name, const std::string& value) {
  const auto key = std::ranges::find(keys(), full_name, &Key::full_name);
  DISTBELIEF_INVARIANT(key != keys().end() && !key->choices.empty());
  const Choices choices = choices_of(*key);
  if (std::ranges::find(choices, value) != choices.end())
    throw Error(ErrorCode::kBadInput, fmt::format("{} has '{}' already", full_name, value));
  added_choices()[full_name].push_back(value);
}

Choices choices_of(const Key& key) {
  Choices choices = key.choices;
  const auto added = added_choices().find(key.full_name());
  if (added != added_choices().end()) std::ranges::copy(added->second, std::back_inserter(choices));
  return choices;
}

void add_mode_section(const std::string& name) {
  if (std::ranges::find(all_sections(), name) != all_sections().end())
    throw Error(ErrorCode::kBadInput, fmt::format("a job has a section [{}] already", name));
  add_choice("parallel.sync", name);
  all_sections().push_back(name);
}

const std::vector<std::string>& section_names() { return all_sections(); }

bool takes_options(const std::string& section) {
  return section == "model" || section == "data" || is_mode_section(section);
}

const OptionMap& options_of(const Config& config, const std::string& section) {
  static const OptionMap none;
  if (section == "model") return config.model.options;
  if (section == "data") return config.data.options;
  const auto own = config.own.find(section);
  return own == config.own.end() ? none : own->second;
}

OptionMap& options_of(Config& config, const std::string& section) {
  DISTBELIEF_INVARIANT(takes_options(section));
  if (section == "model") return config.model.options;
  return section == "data" ? config.data.options : config.own[section];
}

const Key* find_key(const std::string& section, const std::string& name) {
  const auto found =
      std::ranges::find_if(keys(), [&](const Key& k) { return k.section == section && k.name == name; });
  return found == keys().end() ? nullptr : &*found;
}

std::vector<std::string> key_names(const std::string& section) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (key.section == section) names.push_back(key.name);
  }
  return names;
}

std::string suggest_key(const std::string& section, const std::string& name) {
  std::vector<std::string> all;
  for (const std::string& other : section_names()) {
    if (find_key(other, name)) return other + "." + name;
    std::ranges::move(key_names(other), std::back_inserter(all));
  }
  if (const std::string near = nearest(name, key_names(section)); !near.empty()) return section + "." + near;
  const std::string near = nearest(name, all);
  const auto found = std::ranges::find(keys(), near, &Key::name);
  return found == keys().end() ? "" : found->full_name();
}

std::string type_name(const AnyField& field) { return std::string(kTypeNames[field.index()]); }

}  // namespace distbelief::job
