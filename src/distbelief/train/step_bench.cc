#include "distbelief/train/step_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "distbelief/base/median.h"
#include "distbelief/base/random.h"
#include "distbelief/compute/replica.h"
#include "distbelief/data/pipeline/loader.h"
#include "distbelief/mesh/lane_team.h"
#include "distbelief/model/device.h"
#include "distbelief/model/random.h"
#include "distbelief/report/memory.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

data::SampleSpec spec_of(const model::DataShape& shape) {
  data::SampleSpec spec;
  spec.input_type = shape.tokens ? ElementType::kInt64 : ElementType::kUint8;
  spec.input_shape = shape.input;
  if (shape.tokens) spec.target_shape = shape.input;
  spec.classes = shape.classes;
  const std::size_t channels = shape.input.size() == 3 ? std::size_t(shape.input.front()) : 1;
  spec.mean.assign(shape.tokens ? 0 : channels, 0.5F);
  spec.deviation.assign(spec.mean.size(), 0.29F);
  return spec;
}

// Random samples in memory, in whole batches, about a megabyte of them.
class RandomSamples final : public data::Source {
 public:
  RandomSamples(const model::DataShape& shape, std::int64_t batch) {
    constexpr std::int64_t kBytes = 1 << 20;
    spec_ = spec_of(shape);
    width_ = element_count(shape.input);
    const std::int64_t bytes = width_ * std::int64_t(element_size(spec_.input_type));
    samples_ = batch * std::max<std::int64_t>(1, kBytes / (batch * bytes));
    targets_width_ = element_count(spec_.target_shape);
    SplitMix64 random(derive_seed({1, 2}));
    if (shape.tokens) {
      fill(tokens_, samples_ * width_, [&] { return std::int64_t(random.below(spec_.classes)); });
    } else {
      fill(pixels_, samples_ * width_, [&] { return std::uint8_t(random.below(256)); });
    }
    fill(targets_, samples_ * targets_width_, [&] { return std::int64_t(random.below(spec_.classes)); });
  }

  std::uint64_t size() const override { return std::uint64_t(samples_); }
  void read(std::uint64_t index, void* input, void* target) const override {
    const std::size_t at = index * std::size_t(width_);
    if (tokens_.empty())
      std::memcpy(input, pixels_.data() + at, std::size_t(width_));
    else
      std::memcpy(input, tokens_.data() + at, std::size_t(width_) * sizeof(std::int64_t));
    std::memcpy(target, targets_.data() + index * std::size_t(targets_width_),
                std::size_t(targets_width_) * sizeof(std::int64_t));
  }

 private:
  template <typename T, typename Draw>
  static void fill(std::vector<T>& values, std::int64_t count, const Draw& draw) {
    values.resize(std::size_t(count));
    for (T& value : values) value = draw();
  }

  std::int64_t samples_ = 0, width_ = 0, targets_width_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int64_t> tokens_, targets_;
};

data::Loader::Options loading(const Config& config, const mesh::Carrier& carrier, std::uint64_t samples,
                              int carriers_on_host) {
  return {.plan = {samples, std::uint64_t(config.train.batch_size), std::uint64_t(config.parallel.lanes)},
          .seed = config.train.seed,
          .first_lane = std::uint64_t(carrier.first_lane),
          .end_lane = std::uint64_t(carrier.end_lane),
          .lanes = {carrier.lanes.begin(), carrier.lanes.end()},
          .threads = int(config.data.loader_threads),
          .prefetch = int(config.data.prefetch),
          .own_below = data::own_below(carriers_on_host)};
}

std::int64_t sum_over_workers(World& world, std::uint64_t value) {
  auto sum = std::int64_t(value);
  world.communicator().allreduce(comm::view(&sum, 1), comm::ReduceOp::kSum);
  return sum;
}

constexpr std::int64_t kWarmUp = 3;  // steps that are not timed

// Seconds of each of `steps` calls, after those that warm up.
std::vector<double> timed(std::int64_t steps, const std::function<void(std::int64_t step)>& call) {
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < steps + kWarmUp; ++step) {
    const auto begin = Clock::now();
    call(step);
    if (step >= kWarmUp) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return seconds;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

}  // namespace

nlohmann::json bench_network(const StepBenchOptions& options) {
  const Config& config = options.config;
  const model::DataShape shape = model::find_model(config.model.name).bench;
  const RandomSamples samples(shape, config.train.batch_size);
  data::Batch batch;
  data::BatchMaker(samples, {}).eval_batch({0, std::uint64_t(config.train.batch_size)}, batch);
  const std::unique_ptr<tasks::Task> task = tasks::make_task(config, samples.spec());
  const auto network =
      model::build_model(config.model, shape, config.train.seed, model::device_of(config.train.device));
  const compute::Layout layout(compute::trainable_parameters(*network), std::size_t{1} << 20);
  compute::Replica replica(network, layout, nullptr);
  const double items = double(config.train.batch_size * task->items_per_sample());
  double loss_seen = 0;
  if (options.when_built) options.when_built();
  const std::vector<double> seconds = timed(options.steps, [&](std::int64_t step) {
    const std::uint64_t seed = mesh::lane_seed(config.train.seed, step, 0);
    const tasks::TensorBatch tensors =
        tasks::prepared_for_lane(*task, tasks::as_tensors(batch), seed, network->device());
    const model::GeneratorScope randomness(seed);
    for (std::size_t i = 0; i < task->backwards().size(); ++i) {
      const torch::Tensor loss = task->loss_sum(*network, tensors, i);
      loss_seen = loss.item<double>() / items;
      replica.backward(loss, float(1.0 / items), [](int, const float*) {});
    }
  });
  return {{"model", config.model.name},
          {"batch", config.train.batch_size},
          {"parameters", layout.parameter_count()},
          {"steps", options.steps},
          {"seconds_median", median(seconds)},
          {"seconds_mean", mean_of(seconds)},
          {"seconds_min", *std::min_element(seconds.begin(), seconds.end())},
          {"last_loss", loss_seen},
          {"peak_rss_bytes", report::peak_rss_bytes()}};
}

nlohmann::json bench_step(World& world, const StepBenchOptions& options) {
  const Config& config = options.config;
  const model::DataShape shape = model::find_model(config.model.name).bench;
  const std::int64_t lanes = config.parallel.lanes;
  const RandomSamples source(shape, config.train.batch_size);
  const data::BatchMaker batches(source, {.seed = config.train.seed});
  const std::unique_ptr<tasks::Task> task = tasks::make_task(config, source.spec());
  std::vector<std::shared_ptr<model::Network>> networks;
  for (std::int64_t t = 0; t < config.parallel.threads; ++t)
    networks.push_back(
        model::build_model(config.model, shape, config.train.seed, model::device_of(config.train.device)));
  auto group_settings = run::group_options(config);
  group_settings.lane_values = mesh::lane_values(*networks[0]);
  mesh::AllreduceGroup group(world, compute::trainable_parameters(*networks[0]), group_settings);
  if (world.local_rank() == 0) compute::copy_parameters(*networks[0], group.layout(), group.parameters());
  group.barrier();
  std::vector<std::unique_ptr<data::Loader>> loaders;
  std::vector<std::unique_ptr<mesh::LaneRunner>> runners;
  for (int t = 0; t < group.threads(); ++t) {
    loaders.push_back(std::make_unique<data::Loader>(
        batches, loading(config, group.carrier(t), source.size(), world.local_size() * group.threads())));
    runners.push_back(std::make_unique<mesh::LaneRunner>(mesh::LaneRunner::Options{
        .network = networks[std::size_t(t)],
        .layout = &group.layout(),
        .arena = group.parameters(),
        .task = task.get(),
        .sharing = &group.sharing(t),
        .next_batch = [&loader = *loaders.back()]() -> const data::Batch& { return loader.next(); },
        .slowness = {},
        .in_backward = {},
        .lanes = group.carrier(t).lanes,
        .seed = config.train.seed,
        .trace = nullptr,
        .thread = t}));
  }
  mesh::LaneTeam team(std::move(runners),
                      {.abort = &group.abort(), .workers = &world.communicator(), .task = task.get()});

  if (options.when_built) options.when_built();
  const std::vector<std::int64_t> samples(std::size_t(lanes), config.train.batch_size / lanes);
  mesh::StepOutcome outcome;
  const std::vector<double> seconds = timed(options.steps, [&](std::int64_t step) {
    outcome = team.step({step, config.train.optimizer.lr, samples}, {});
  });
  world.communicator().barrier();
  const std::int64_t pss = sum_over_workers(world, report::pss_bytes());
  const std::int64_t rss = sum_over_workers(world, report::peak_rss_bytes());
  const auto& times = group.sharing(0).times();
  const double all = std::chrono::duration<double>(times.early + times.late).count();
  return {{"model", config.model.name},
          {"workers", world.size()},
          {"threads", config.parallel.threads},
          {"lanes", lanes},
          {"batch_per_worker", config.train.batch_size / world.size()},
          {"optimizer", config.train.optimizer.name},
          {"parameters", group.layout().parameter_count()},
          {"steps", options.steps},
          {"step_seconds_median", median(seconds)},
          {"step_seconds_mean", mean_of(seconds)},
          {"step_seconds_min", *std::min_element(seconds.begin(), seconds.end())},
          {"samples_per_second", double(config.train.batch_size) / median(seconds)},
          {"final_loss", outcome.loss},
          {"exchange_seconds", all / double(options.steps + kWarmUp)},
          {"update_seconds",
           std::chrono::duration<double>(times.updating).count() / double(options.steps + kWarmUp)},
          {"hidden_exchange_share", all > 0 ? std::chrono::duration<double>(times.early).count() / all : 0.0},
          {"peak_rss_bytes", rss},
          {"peak_pss_bytes", pss}};
}

}  // namespace distbelief::train
