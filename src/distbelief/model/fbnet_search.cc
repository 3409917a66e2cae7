#include "distbelief/model/fbnet_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "distbelief/base/error.h"
#include "distbelief/base/median.h"
#include "distbelief/model/device.h"
#include "distbelief/model/random.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

constexpr const char* kCountedCosts = "counted";
constexpr double kLeastTemperature = 0.1;
constexpr int kMeasuredImages = 8;  // in one batch
constexpr int kMeasuredTimes = 15;

class Choices final : public Block {
 public:
  Choices(std::int64_t layers, double temperature) {
    register_parameter("theta", torch::zeros({layers, kMostCandidates}));
    register_buffer("temperature", torch::full({1}, temperature));
  }
  torch::Tensor forward(torch::Tensor input) override { return input; }
};

// -log(-log(u)), u in (0, 1).
torch::Tensor gumbel_noise(std::int64_t count) {
  torch::Tensor noise = torch::empty({count});
  const auto generator = current_generator();
  generator ? noise.exponential_(1.0, *generator) : noise.exponential_(1.0);
  return -noise.clamp_min(std::numeric_limits<float>::min()).log();
}

class SearchedLayer final : public Block {
 public:
  SearchedLayer(const FbnetLayer& layer, std::int64_t index, const torch::nn::Module& network)
      : index_(index) {
    for (const Candidate& candidate : candidates_of(layer))
      candidates_.push_back(register_module(candidate_name(candidate), make_candidate(candidate, layer)));
    const auto parameters = network.named_parameters();
    const auto buffers = network.named_buffers();
    theta_ = parameters["choices.theta"];
    temperature_ = buffers["choices.temperature"];
  }
  std::vector<torch::Tensor> borrowed() const override { return {theta_}; }

  torch::Tensor forward(torch::Tensor input) override {
    const auto count = std::int64_t(candidates_.size());
    const torch::Tensor own = theta_[index_].narrow(0, 0, count);
    if (!candidates_[0]->is_training())  // the network switches the modules inside blocks, not the blocks
      return candidates_[std::size_t(own.argmax().item<std::int64_t>())]->forward(input);
    const torch::Tensor noise = on_device(gumbel_noise(count), own.device());
    const torch::Tensor drawn = ((own.log_softmax(0) + noise) / temperature_.item<double>()).softmax(0);
    torch::Tensor sum = candidates_[0]->forward(input) * drawn[0];
    for (std::int64_t i = 1; i < count; ++i)
      sum = sum + candidates_[std::size_t(i)]->forward(input) * drawn[i];
    return sum;
  }

 private:
  std::int64_t index_;
  std::vector<std::shared_ptr<Block>> candidates_;
  torch::Tensor theta_;
  torch::Tensor temperature_;
};

double measure(Block& block, const torch::Tensor& input) {
  std::vector<double> seconds;
  block.forward(input);
  for (int i = 0; i < kMeasuredTimes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    block.forward(input);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(seconds) / kMeasuredImages;
}

}  // namespace

std::vector<OptionSpec> fbnet_search_options() {
  std::vector<OptionSpec> options = fbnet_frame_options();
  options.push_back({"costs", std::string(kCountedCosts),
                     "of candidates: counted (multiply-adds), or measured on this machine when the run "
                     "begins, which then has model.latencies"});
  options.push_back({"latencies", std::vector<std::int64_t>{},
                     "nanoseconds of every candidate of every layer; empty: as costs says"});
  options.push_back({"latency_weight", 0.5, "what the slowest architecture adds to the loss, in nats"});
  options.push_back(
      {"choice_share", 0.25, "share of a batch that the choices learn from; weights: the rest"});
  options.push_back({"temperature", 5.0, "of the first draws; 1: as likely as they are, more: softer"});
  options.push_back({"cooling", 0.99, "factor of the temperature, each step, down to 0.1"});
  return options;
}

Blueprint fbnet_search_blueprint(const OptionMap& options, const DataShape& shape) {
  const std::vector<FbnetLayer> layers = fbnet_layers("fbnet_search", options, shape);
  search_costs(options, layers);
  const auto temperature = option<double>(options, "temperature");
  if (!(temperature >= kLeastTemperature))
    throw Error(ErrorCode::kBadInput,
                fmt::format("model 'fbnet_search': option 'temperature' must be at "
                            "least {}, found {}",
                            kLeastTemperature, temperature),
                {.key = "model.temperature"});
  Blueprint blueprint;
  blueprint.push_back({"choices", [count = std::int64_t(layers.size()), temperature](const BlockSite&) {
                         return std::make_shared<Choices>(count, temperature);
                       }});
  blueprint.push_back(fbnet_stem("weights.stem", options, shape));
  for (std::size_t i = 0; i < layers.size(); ++i)
    blueprint.push_back(
        {fmt::format("weights.layer{}", i + 1), [layer = layers[i], i](const BlockSite& site) {
           return std::make_shared<SearchedLayer>(layer, std::int64_t(i), site.network);
         }});
  blueprint.push_back(fbnet_head("weights.head", options, shape));
  return blueprint;
}

double LatencyTable::most() const {
  double sum = 0;
  for (const std::vector<double>& row : rows) sum += *std::max_element(row.begin(), row.end());
  return sum;
}

LatencyTable latency_table(const std::vector<std::int64_t>& nanoseconds,
                           const std::vector<FbnetLayer>& layers) {
  LatencyTable table;
  std::size_t at = 0;
  for (const FbnetLayer& layer : layers) {
    const std::size_t count = candidates_of(layer).size();
    table.rows.emplace_back();
    for (std::size_t i = 0; i < count && at < nanoseconds.size(); ++i, ++at)
      table.rows.back().push_back(double(nanoseconds[at]));
    if (table.rows.back().size() != count) at = nanoseconds.size() + 1;
  }
  if (at != nanoseconds.size() ||
      std::any_of(nanoseconds.begin(), nanoseconds.end(), [](auto value) { return value < 0; }))
    throw Error(ErrorCode::kBadInput,
                fmt::format("model 'fbnet_search': option 'latencies' wants a number of 0 or more for each "
                            "candidate of its {} layers; leave it out to have them measured",
                            layers.size()),
                {.key = "model.latencies"});
  return table;
}

// Counts the three convolutions of a candidate; work on single elements is the same for all candidates.
std::vector<std::int64_t> count_costs(const std::vector<FbnetLayer>& layers) {
  std::vector<std::int64_t> found;
  for (const FbnetLayer& layer : layers)
    for (const Candidate& candidate : candidates_of(layer)) {
      const std::int64_t inside = layer.inputs * candidate.expansion;
      const std::int64_t before = layer.height * layer.width;
      const std::int64_t after = ((layer.height + layer.stride - 1) / layer.stride) *
                                 ((layer.width + layer.stride - 1) / layer.stride);
      const std::int64_t pointwise = (before * layer.inputs + after * layer.outputs) / candidate.groups;
      const std::int64_t each_channel = after * candidate.kernel * candidate.kernel;
      found.push_back(candidate.kernel == 0 ? 0 : inside * (pointwise + each_channel));
    }
  return found;
}

std::optional<LatencyTable> search_costs(const OptionMap& options, const std::vector<FbnetLayer>& layers) {
  const auto& latencies = option<std::vector<std::int64_t>>(options, "latencies");
  const auto& costs = option<std::string>(options, "costs");
  if (costs != kCountedCosts && costs != kMeasuredCosts)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model 'fbnet_search': option 'costs' must be {} or {}, found '{}'",
                            kCountedCosts, kMeasuredCosts, costs),
                {.key = "model.costs"});
  if (!latencies.empty()) return latency_table(latencies, layers);
  if (costs == kMeasuredCosts) return std::nullopt;
  return latency_table(count_costs(layers), layers);
}

std::vector<std::int64_t> measure_latencies(const std::vector<FbnetLayer>& layers) {
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> found;
  for (const FbnetLayer& layer : layers) {
    const torch::Tensor input = torch::ones({kMeasuredImages, layer.inputs, layer.height, layer.width});
    for (const Candidate& candidate : candidates_of(layer)) {
      const std::shared_ptr<Block> block = make_candidate(candidate, layer);
      block->eval();
      found.push_back(candidate.kernel == 0 ? 0 : std::int64_t(1e9 * measure(*block, input)));
    }
  }
  return found;
}

torch::Tensor choices_of(const Network& network) { return network.named_parameters()["choices.theta"]; }

torch::Tensor expected_latency(const torch::Tensor& theta, const LatencyTable& table) {
  torch::Tensor sum = on_device(torch::zeros({}), theta.device());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const torch::Tensor row = on_device(torch::tensor(table.rows[i], torch::kFloat32), theta.device());
    sum = sum + (theta[std::int64_t(i)].narrow(0, 0, row.size(0)).softmax(0) * row).sum();
  }
  return sum;
}

double latency_of(const std::vector<Candidate>& architecture, const std::vector<FbnetLayer>& layers,
                  const LatencyTable& table) {
  double sum = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::vector<Candidate> all = candidates_of(layers[i]);
    sum += table.rows[i][std::size_t(std::find(all.begin(), all.end(), architecture[i]) - all.begin())];
  }
  return sum;
}

void cool(const Network& network, double factor) {
  const torch::NoGradGuard no_grad;
  network.named_buffers()["choices.temperature"].mul_(factor).clamp_min_(kLeastTemperature);
}

std::vector<Candidate> likeliest_architecture(std::span<const float> theta,
                                              const std::vector<FbnetLayer>& layers) {
  DISTBELIEF_INVARIANT(theta.size() == layers.size() * std::size_t(kMostCandidates));
  std::vector<Candidate> chosen;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::vector<Candidate> all = candidates_of(layers[i]);
    const auto row = theta.subspan(i * std::size_t(kMostCandidates), all.size());
    chosen.push_back(all[std::size_t(std::max_element(row.begin(), row.end()) - row.begin())]);
  }
  return chosen;
}

}  // namespace distbelief::model
