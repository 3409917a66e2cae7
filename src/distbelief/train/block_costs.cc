#include "distbelief/train/block_costs.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "distbelief/report/summary.h"

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
constexpr int kRepeats = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What the costs were measured of.
std::string fingerprint(const PreparedJob& job, std::int64_t samples) {
  std::string text = job.config.model.name + to_string(job.shape.input);
  for (const auto& [name, value] : job.config.model.options) text += name + to_string(value);
  return text + std::to_string(samples);
}

std::vector<strategy::BlockCost> read_costs(const std::filesystem::path& path, const std::string& of) {
  std::ifstream file(path);
  const Json kept = Json::parse(file, nullptr, false);
  if (!kept.is_object() || kept.value("of", "") != of) return {};
  std::vector<strategy::BlockCost> costs;
  for (const Json& block : kept.at("blocks"))
    costs.push_back({.forward_seconds = block.at("forward_seconds"),
                     .backward_seconds = block.at("backward_seconds"),
                     .parameter_bytes = block.at("parameter_bytes"),
                     .activation_bytes = block.at("activation_bytes"),
                     .output_bytes = block.at("output_bytes")});
  return costs;
}

void keep_costs(const std::filesystem::path& path, const std::string& of,
                const std::vector<strategy::BlockCost>& costs) {
  Json blocks = Json::array();
  for (const strategy::BlockCost& cost : costs)
    blocks.push_back({{"forward_seconds", cost.forward_seconds},
                      {"backward_seconds", cost.backward_seconds},
                      {"parameter_bytes", cost.parameter_bytes},
                      {"activation_bytes", cost.activation_bytes},
                      {"output_bytes", cost.output_bytes}});
  report::write_json_atomically(path, {{"of", of}, {"blocks", blocks}});
}

// One block on its own: forward and backward, the best of some tries.
struct Trial {
  torch::Tensor output;
  strategy::BlockCost cost;
};

Trial measure(model::Network& network, const torch::Tensor& input, bool is_first) {
  Trial trial;
  for (const torch::Tensor& parameter : network.parameters())
    trial.cost.parameter_bytes += std::size_t(parameter.nbytes());
  for (int i = 0; i < kRepeats; ++i) {
    torch::Tensor own = input.detach().clone();
    if (!is_first) own.set_requires_grad(true);
    const auto begin = Clock::now();
    const torch::Tensor output = network.forward(own);
    const double forward = seconds_since(begin);
    const torch::Tensor gradient = torch::ones_like(output);
    const auto middle = Clock::now();
    output.backward(gradient);
    const double backward = seconds_since(middle);
    trial.cost.forward_seconds = i == 0 ? forward : std::min(forward, trial.cost.forward_seconds);
    trial.cost.backward_seconds = i == 0 ? backward : std::min(backward, trial.cost.backward_seconds);
    trial.output = output.detach();
    trial.cost.output_bytes = std::size_t(output.nbytes());
    trial.cost.activation_bytes = std::size_t(output.nbytes() + own.nbytes());
  }
  return trial;
}

}  // namespace

std::vector<strategy::BlockCost> measure_blocks(const model::Blueprint& blueprint, std::uint64_t seed,
                                                torch::Tensor input) {
  std::vector<strategy::BlockCost> costs;
  for (int block = 0; block < int(blueprint.size()); ++block) {
    model::Network network(blueprint, {block, block + 1}, seed);
    const Trial trial = measure(network, input, block == 0);
    costs.push_back(trial.cost);
    input = trial.output;
  }
  return costs;
}

std::vector<strategy::BlockCost> measure_blocks(const PreparedJob& job, const BlockMeasurement& measurement) {
  const std::string of = fingerprint(job, measurement.samples);
  if (!measurement.kept_in.empty())
    if (std::vector<strategy::BlockCost> kept = read_costs(measurement.kept_in, of); !kept.empty())
      return kept;
  Shape shape = job.shape.input;
  shape.insert(shape.begin(), measurement.samples);
  const std::vector<strategy::BlockCost> costs =
      measure_blocks(job.blueprint, job.config.train.seed,
                     job.shape.tokens ? torch::zeros(shape, torch::kInt64) : torch::rand(shape));
  if (!measurement.kept_in.empty()) keep_costs(measurement.kept_in, of, costs);
  return costs;
}

}  // namespace distbelief::train
