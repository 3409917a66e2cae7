#include "distbelief/planner/block_costs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/median.h"
#include "distbelief/compute/replica.h"
#include "distbelief/model/device.h"
#include "distbelief/planner/memory_meter.h"
#include "distbelief/report/summary.h"
#include "distbelief/tasks/task.h"

namespace distbelief::planner {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
constexpr std::size_t kRunBytes = std::size_t{256} << 20;  // parameters that are built at the same time
constexpr double kRunSeconds = 0.6;                        // approximate measuring time for a run of blocks
constexpr int kLeastRepeats = 3, kMostRepeats = 15;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Identifies the job that the costs were measured for.
std::string fingerprint(const run::PreparedJob& job, std::int64_t samples) {
  std::string text = job.config.model.name + distbelief::to_string(job.shape.input);
  for (const auto& [name, value] : job.config.model.options) text += name + distbelief::to_string(value);
  return text + std::to_string(samples);
}

std::vector<mesh::BlockCost> read_costs(const std::filesystem::path& path, const std::string& of) {
  const Json kept = read_json(path);
  if (!kept.is_object() || kept.value("of", Json()) != of) return {};
  try {
    return block_costs_from_json(kept.value("blocks", Json()));
  } catch (const Error& error) {
    spdlog::warn("{} is damaged ({}); its blocks are measured anew", path.string(), error.message());
    return {};
  }
}

// Bytes of each block's parameters. A parameter in several blocks counts for the first.
std::vector<std::size_t> parameter_bytes(const model::Blueprint& blueprint, std::uint64_t seed) {
  std::vector<std::size_t> bytes;
  std::set<std::string> known;
  for (int block = 0; block < int(blueprint.size()); ++block) {
    bytes.push_back(0);
    const model::Network network(blueprint, {block, block + 1}, seed);
    for (const auto& parameter : compute::trainable_parameters(network))
      if (known.insert(parameter.name).second)
        bytes.back() += std::size_t(element_count(parameter.shape)) * sizeof(float);
  }
  return bytes;
}

// Consecutive blocks, each a network of its own, that run in turn.
class BlockRun {
 public:
  struct Times {
    std::vector<double> forward, backward;
  };

  BlockRun(const model::Blueprint& blueprint, std::uint64_t seed, model::BlockRange range,
           const tasks::Task& task)
      : range_(range),
        is_last_(range.end == int(blueprint.size())),
        task_(task),
        times_(std::size_t(range.size())),
        costs_(std::size_t(range.size())) {
    for (int block = range.begin; block < range.end; ++block)
      networks_.push_back(
          std::make_shared<model::Network>(blueprint, model::BlockRange{block, block + 1}, seed));
  }

  // Runs one lane forward and backward; `batch` is the input of the first block.
  void run(const tasks::TensorBatch& batch) {
    const MemoryMeter meter;
    inputs_.assign(1, batch.input.detach());
    outputs_.clear();
    for (std::size_t i = 0; i < networks_.size(); ++i) forward(i, batch, meter);
    result_ = outputs_.back().detach();
    torch::Tensor gradient = torch::ones_like(outputs_.back());
    for (std::size_t i = networks_.size(); i-- > 0;) gradient = backward(i, gradient, meter);
  }

  // Runs forward without gradients, as in validation, to measure memory only.
  void run_forward(const tasks::TensorBatch& batch) {
    const torch::NoGradGuard no_grad;
    const MemoryMeter meter;
    torch::Tensor values = batch.input;
    for (std::size_t i = 0; i < networks_.size(); ++i) {
      const auto input_bytes = std::int64_t(values.nbytes());
      const std::int64_t before = meter.held() - (i == 0 ? 0 : input_bytes);
      meter.begin_peak();
      values = networks_[i]->forward(values);
      costs_[i].forward_bytes = std::size_t(meter.peak() - before + (i == 0 ? input_bytes : 0));
    }
  }

  void forget_times() { times_.assign(times_.size(), {}); }
  const torch::Tensor& result() const { return result_; }  // output of the last block
  std::vector<mesh::BlockCost> costs() const {
    std::vector<mesh::BlockCost> costs = costs_;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      costs[i].forward_seconds = median(times_[i].forward);
      costs[i].backward_seconds = median(times_[i].backward);
    }
    return costs;
  }

 private:
  void forward(std::size_t i, const tasks::TensorBatch& batch, const MemoryMeter& meter) {
    torch::Tensor& input = inputs_[i];
    if (i > 0 || range_.begin > 0) input.set_requires_grad(true);
    const std::int64_t before = meter.held();
    meter.begin_peak();
    const auto begin = Clock::now();
    const bool with_loss = is_last_ && i + 1 == networks_.size();
    outputs_.push_back(with_loss ? task_.loss_sum(*networks_[i], {input, batch.target, batch.size})
                                 : networks_[i]->forward(input));
    times_[i].forward.push_back(seconds_since(begin));
    costs_[i].activation_bytes = std::size_t(std::max<std::int64_t>(0, meter.held() - before));
    costs_[i].working_bytes = std::size_t(meter.peak() - meter.held());
    costs_[i].output_bytes = std::size_t(outputs_[i].nbytes());
    inputs_.push_back(outputs_[i].detach());
  }

  // Returns the gradient of the block's input. Frees the gradients of parameters, as in training.
  torch::Tensor backward(std::size_t i, const torch::Tensor& gradient, const MemoryMeter& meter) {
    const std::int64_t before = meter.held();
    meter.begin_peak();
    const auto begin = Clock::now();
    if (outputs_[i].requires_grad()) outputs_[i].backward(gradient);  // a first block may have no parameters
    times_[i].backward.push_back(seconds_since(begin));
    costs_[i].working_bytes = std::max(costs_[i].working_bytes, std::size_t(meter.peak() - before));
    for (torch::Tensor& parameter : networks_[i]->parameters()) parameter.mutable_grad().reset();
    outputs_[i].reset();
    torch::Tensor onward = inputs_[i].grad();
    inputs_[i].reset();
    return onward;
  }

  model::BlockRange range_;
  bool is_last_;
  const tasks::Task& task_;
  std::vector<std::shared_ptr<model::Network>> networks_;
  std::vector<torch::Tensor> inputs_, outputs_;
  torch::Tensor result_;
  std::vector<Times> times_;
  std::vector<mesh::BlockCost> costs_;
};

// The first run warms up; the second determines the number of repeats.
void repeat(BlockRun& run, const tasks::TensorBatch& batch,
            const std::function<double(double)>& largest_of_all) {
  const auto agreed = [&](double own) { return largest_of_all ? largest_of_all(own) : own; };
  run.run(batch);
  run.forget_times();
  const auto begin = Clock::now();
  run.run(batch);
  const double once = agreed(seconds_since(begin));
  const int repeats = std::clamp(int(kRunSeconds / std::max(once, 1e-6)), kLeastRepeats, kMostRepeats);
  run.forget_times();
  for (int i = 0; i < repeats; ++i) {
    agreed(0);
    run.run(batch);
  }
}

std::vector<model::BlockRange> runs_of(const std::vector<std::size_t>& bytes) {
  std::vector<model::BlockRange> runs;
  std::size_t held = 0;
  for (int block = 0; block < int(bytes.size()); ++block) {
    held += bytes[std::size_t(block)];
    if (runs.empty() || held > kRunBytes) {
      runs.push_back({block, block});
      held = bytes[std::size_t(block)];
    }
    runs.back().end = block + 1;
  }
  return runs;
}

}  // namespace

std::vector<mesh::BlockCost> measure_blocks(const model::Blueprint& blueprint, std::uint64_t seed,
                                            const tasks::Task& task, tasks::TensorBatch batch,
                                            const std::function<double(double)>& largest_of_all) {
  const std::vector<std::size_t> bytes = parameter_bytes(blueprint, seed);
  std::vector<mesh::BlockCost> costs;
  for (const model::BlockRange& range : runs_of(bytes)) {
    BlockRun run(blueprint, seed, range, task);
    repeat(run, batch, largest_of_all);
    run.run_forward(batch);
    std::ranges::copy(run.costs(), std::back_inserter(costs));
    batch.input = run.result();
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) costs[i].parameter_bytes = bytes[i];
  return costs;
}

LaneCosts measure_lane(const run::PreparedJob& job, const BlockMeasurement& measurement) {
  LaneCosts lane{.samples = measurement.samples, .blocks = {}};
  const data::BatchMaker maker(*job.data.train,
                               {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  data::Batch batch;
  const std::uint64_t size = std::min(std::uint64_t(measurement.samples), job.data.train->size());
  std::vector<double> data_seconds;
  for (int i = 0; i < kLeastRepeats; ++i) {
    const auto begin = Clock::now();
    maker.eval_batch({0, size}, batch);
    data_seconds.push_back(seconds_since(begin));
  }
  lane.data_seconds = median(data_seconds);
  const std::unique_ptr<tasks::Task> task = tasks::make_task(job.config, job.data.train->spec());
  const tasks::TensorBatch tensors =
      tasks::prepared_for_test(*task, tasks::as_tensors(batch), model::device_of(job.config.train.device));
  lane.input_bytes = std::size_t(tensors.input.nbytes() + tensors.target.nbytes());
  lane.blocks =
      measure_blocks(job.blueprint, job.config.train.seed, *task, tensors, measurement.largest_of_all);
  return lane;
}

std::vector<mesh::BlockCost> measure_blocks(const run::PreparedJob& job,
                                            const BlockMeasurement& measurement) {
  if (!measurement.kept_in.empty()) {
    auto kept = read_costs(measurement.kept_in, fingerprint(job, measurement.samples));
    if (!kept.empty()) return kept;
  }
  LaneCosts lane = measure_lane(job, measurement);
  if (!measurement.kept_in.empty()) keep_costs(measurement.kept_in, job, lane);
  return lane.blocks;
}

void keep_costs(const std::filesystem::path& path, const run::PreparedJob& job, const LaneCosts& lane) {
  report::write_json_atomically(path,
                                {{"of", fingerprint(job, lane.samples)}, {"blocks", to_json(lane.blocks)}});
}

}  // namespace distbelief::planner
