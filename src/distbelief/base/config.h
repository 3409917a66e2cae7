#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "distbelief/base/options.h"

// The sections of a job file, resolved. The defaults below are those of an empty job file: a CNN on
// Fashion-MNIST. docs/reference/job_file.md describes each key.
namespace distbelief {

struct ModelConfig {
  std::string name = "cnn";
  OptionMap options;  // every other key of [model]

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct DataConfig {
  std::string name = "fashion_mnist";
  std::string path;              // empty: the usual place of the data set
  OptionMap options;             // every other key of [data], e.g. samples = 1000 for a generated set
  std::int64_t train_limit = 0;  // use only the first n samples; 0: all
  std::int64_t test_limit = 0;
  bool normalize = true;
  std::vector<std::string> augment;  // "pad_crop", "flip"
  std::int64_t pad = 4;              // pixels for pad_crop
  std::string order = "shuffled";  // shuffled, or streams: each place of the batch reads consecutive samples
  std::int64_t loader_threads = 1;
  std::int64_t prefetch = 4;  // batches kept ready per worker

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

struct OptimizerConfig {
  std::string name = "sgd";  // sgd, adam, adamw, adagrad, lars, lamb
  double lr = 0.05;
  double momentum = 0.9;  // sgd, lars
  bool nesterov = false;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double trust = 0.001;  // lars: trust coefficient

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

struct ScheduleConfig {
  std::string name = "cosine";  // constant, step, cosine
  std::int64_t warmup_steps = 0;
  std::int64_t step_epochs = 1;  // step: multiply by gamma every so many epochs
  double gamma = 0.1;
  double min_lr = 0.0;  // cosine: the final rate

  friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

struct TrainConfig {
  std::int64_t epochs = 5;
  std::int64_t max_steps = 0;     // 0: no limit
  std::int64_t batch_size = 128;  // global
  std::int64_t accumulate = 1;    // micro-batches per lane and step: multiplies the lanes
  std::uint64_t seed = 1;
  std::string init;               // safetensors file with the initial weights; empty: drawn from the seed
  bool init_partial = false;      // take only the tensors of that file that fit
  std::string task = "auto";      // training task; auto: the model's own task, else the data's
  double labelled = 1.0;          // few_labels: share of the training samples whose label counts
  bool unlabelled = true;         // few_labels: learn from the other samples too
  double lr_discriminator = 0.0;  // gan: learning rate of the discriminator; 0: the same as lr
  std::string loss = "cross_entropy";
  double label_smoothing = 0.0;
  double clip_norm = 0.0;  // 0: off
  bool reproducible = true;
  std::int64_t early_stop_patience = 0;    // epochs without a better validation loss; 0: off
  std::string target_metric = "accuracy";  // name of a validation metric
  double target = 0.0;                     // stop when that metric reaches this value; 0: off
  std::int64_t validate_every = 1;         // epochs; 0: only at the end
  std::int64_t verify_every = 0;           // steps between comparisons of the copies; 0: off
  std::string device = "cpu";              // where the network computes
  OptimizerConfig optimizer;               // train.optimizer = "sgd", train.lr, train.momentum, ...
  ScheduleConfig schedule;                 // train.schedule = "cosine", train.warmup_steps, ...

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

struct ParallelConfig {
  std::int64_t workers = 2;         // processes; --workers and --hosts override it
  std::int64_t lanes = 0;           // 0: workers * threads (then fixed for the job's life)
  std::int64_t threads = 1;         // lanes that a worker computes at a time, each on its own thread
  std::int64_t data = 0;            // copies of the network; 0: as many as the workers suffice for
  std::int64_t pipeline = 1;        // pipeline stages: workers that hold one copy, cut by layers
  std::int64_t tensor = 1;          // workers that compute each layer together
  std::int64_t zero = 1;            // the copies shard: 1 state, 2 + gradients, 3 + parameters
  bool zero_inside_host = false;    // shard between the workers of a host too, instead of sharing memory
  std::string state_dir;            // folder for the optimizer's state as mapped files; empty: in memory
  std::string mesh = "given";       // given: the numbers above; auto: the planner chooses
  bool split_features = false;      // workers of a tensor group read only their columns of the input
  std::string schedule = "1f1b";    // gpipe, 1f1b, interleaved
  std::int64_t chunks = 0;          // stages per worker; 0: 1, or 2 when interleaved
  std::vector<std::int64_t> cuts;   // first block of every stage but the first; empty: measured
  bool recompute = false;           // compute the activations of a stage again for backward
  std::string sync = "allreduce";   // allreduce, parameter_server
  std::int64_t servers = 1;         // parameter servers, on this machine
  std::string mode = "async";       // of the parameter servers: sync, async, bounded, decomposed ...
  std::int64_t staleness = 4;       // bounded: steps that a replica may be ahead of the slowest
  std::int64_t fetch_every = 1;     // async: steps between two fetches of the parameters
  std::int64_t push_every = 1;      // async: steps whose gradients go to the servers together
  std::int64_t warm_start = 0;      // async: steps that the first replica takes alone at the start
  std::int64_t spare_replicas = 0;  // sync: number of slowest replicas that a step does not wait for
  double delay_compensation = 0.0;  // correction of stale gradients; 0: none
  std::int64_t sub_networks = 2;    // decomposed: number of sub-networks of the model
  std::int64_t window = 8;          // decomposed: outputs of a sub-network that wait for the next one
  bool staleness_aware = false;     // divide the learning rate by a gradient's delay
  std::string algorithm = "auto";   // allreduce between hosts: auto, two_level, direct, ring, central
  std::string overlap = "auto";     // auto, update, reduce, off, check
  double bucket_mb = 4.0;
  double deadline_seconds = 120.0;  // a worker gives up waiting for another after this time
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

// How the run adapts to the machines that are available.
struct ElasticConfig {
  std::int64_t min = 1;             // workers
  std::int64_t max = 0;             // 0: one for every lane
  std::int64_t restarts = 5;        // restarts in a row without a new step before the run ends
  bool rebalance = true;            // move lanes from slow workers to fast ones
  bool standby = false;             // keep the next generation of workers started, for an unplanned loss
  bool automatic = false;           // elastic.auto: find the number of workers that is worth using
  double auto_seconds = 10;         // measuring time for each number of workers
  std::vector<std::string> spares;  // "host:workers": stand-ins for a lost host
  std::string hostfile;             // lines of host:workers; read again when the file changes
  std::string discovery;            // command that prints such lines; run periodically
  double discovery_seconds = 5.0;   // between two runs of the command
  double silence_seconds = 4.0;     // a host silent for this long counts as lost
  std::string address;              // of this machine, for workers on other hosts; empty: detected
  std::string certs;  // folder that `distbelief certs` made, on every host; empty: made for the run

  friend bool operator==(const ElasticConfig&, const ElasticConfig&) = default;
};

struct CheckpointConfig {
  std::int64_t every_epochs = 1;  // 0: off
  std::int64_t every_steps = 0;   // 0: off
  double every_seconds = 0.0;     // 0: off
  std::int64_t keep = 2;          // checkpoints kept, besides the best one
  bool snapshots = true;          // also keep the state in shared memory, where it survives a lost worker

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

struct ReportConfig {
  std::string progress = "auto";  // auto, bar, plain, none
  double interval_seconds = 1.0;  // least time between two lines of metrics.jsonl
  std::string trace;              // path of the Chrome/Perfetto trace; empty: none
  bool audit = false;             // record which samples each step used
  double page_seconds = 10.0;     // between two updates of report.html; 0: only at the end
  bool tensorboard = false;       // also write TensorBoard event files

  friend bool operator==(const ReportConfig&, const ReportConfig&) = default;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  ParallelConfig parallel;
  ElasticConfig elastic;
  CheckpointConfig checkpoint;
  ReportConfig report;
  std::map<std::string, OptionMap> own{};  // by name: sections of modes that a program has registered

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace distbelief
