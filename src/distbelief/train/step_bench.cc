#include "distbelief/train/step_bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "distbelief/base/median.h"
#include "distbelief/base/random.h"
#include "distbelief/compute/replica.h"
#include "distbelief/model/random.h"
#include "distbelief/report/memory.h"
#include "distbelief/train/job.h"
#include "distbelief/train/lane_team.h"

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

data::Batch random_batch(const model::DataShape& shape, std::int64_t size) {
  data::Batch batch;
  batch.size = std::uint64_t(size);
  SplitMix64 random(derive_seed({1, 2}));
  Shape input{size}, target{size};
  input.insert(input.end(), shape.input.begin(), shape.input.end());
  if (shape.tokens) target.insert(target.end(), shape.input.begin(), shape.input.end());
  batch.input.resize(shape.tokens ? ElementType::kInt64 : ElementType::kFloat32, input);
  batch.target.resize(ElementType::kInt64, target);
  for (std::int64_t i = 0; i < element_count(input); ++i) {
    if (shape.tokens)
      batch.input.as<std::int64_t>()[i] = std::int64_t(random.below(std::uint64_t(shape.classes)));
    else
      batch.input.as<float>()[i] = float(random.uniform() * 3.4 - 1.7);
  }
  for (std::int64_t i = 0; i < element_count(target); ++i)
    batch.target.as<std::int64_t>()[i] = std::int64_t(random.below(std::uint64_t(shape.classes)));
  return batch;
}

data::SampleSpec spec_of(const model::DataShape& shape) {
  data::SampleSpec spec;
  spec.input_type = shape.tokens ? ElementType::kInt64 : ElementType::kUint8;
  spec.input_shape = shape.input;
  if (shape.tokens) spec.target_shape = shape.input;
  spec.classes = shape.classes;
  return spec;
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
  const data::Batch batch = random_batch(shape, config.train.batch_size);
  const std::unique_ptr<Task> task = make_task(config, spec_of(shape));
  const auto network = model::build_model(config.model, shape, config.train.seed);
  const compute::Layout layout(compute::trainable_parameters(*network), std::size_t{1} << 20);
  compute::Replica replica(network, layout, nullptr);
  const double items = double(config.train.batch_size * task->items_per_sample());
  double loss_seen = 0;
  if (options.when_built) options.when_built();
  const std::vector<double> seconds = timed(options.steps, [&](std::int64_t step) {
    const std::uint64_t seed = lane_seed(config.train.seed, step, 0);
    const TensorBatch tensors = prepared_for_lane(*task, as_tensors(batch), seed);
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
  const data::Batch batch = random_batch(shape, config.train.batch_size / lanes);
  const std::unique_ptr<Task> task = make_task(config, spec_of(shape));
  std::vector<std::shared_ptr<model::Network>> networks;
  for (std::int64_t t = 0; t < config.parallel.threads; ++t)
    networks.push_back(model::build_model(config.model, shape, config.train.seed));
  auto group_settings = group_options(config);
  group_settings.lane_values = lane_values(*networks[0]);
  strategy::AllreduceGroup group(world, compute::trainable_parameters(*networks[0]), group_settings);
  if (world.local_rank() == 0) compute::copy_parameters(*networks[0], group.layout(), group.parameters());
  group.barrier();
  std::vector<std::unique_ptr<LaneRunner>> runners;
  for (int t = 0; t < group.threads(); ++t)
    runners.push_back(std::make_unique<LaneRunner>(
        LaneRunner::Options{.network = networks[std::size_t(t)],
                            .layout = &group.layout(),
                            .arena = group.parameters(),
                            .task = task.get(),
                            .sharing = &group.sharing(t),
                            .next_batch = [&batch]() -> const data::Batch& { return batch; },
                            .slowness = {},
                            .in_backward = {},
                            .lanes = group.carrier(t).lanes,
                            .seed = config.train.seed,
                            .trace = nullptr,
                            .thread = t}));
  LaneTeam team(std::move(runners),
                {.abort = &group.abort(), .workers = &world.communicator(), .task = task.get()});

  if (options.when_built) options.when_built();
  const std::vector<std::int64_t> samples(std::size_t(lanes), std::int64_t(batch.size));
  StepOutcome outcome;
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
