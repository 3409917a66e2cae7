#pragma once

#include <optional>
#include <span>

#include "distbelief/model/fbnet.h"

// The search network: every layer holds all of its candidates and a logit for each. In training a layer's
// output is the sum of all candidates' outputs, weighted by a draw from the Gumbel-softmax distribution (Jang
// et al., 2017; Maddison et al., 2017) that uses the lane's randomness; otherwise it is the output of the
// likeliest candidate. Names of the candidates' parameters begin with `weights.`; `choices.theta` has a row
// for every layer, and the buffer `choices.temperature` is the softness of a draw.
namespace distbelief::model {

std::vector<OptionSpec> fbnet_search_options();
Blueprint fbnet_search_blueprint(const OptionMap& options, const DataShape& shape);

// The cost per image of each candidate, one row per layer: the nanoseconds of option `latencies`, or else,
// with option `costs` "counted", multiply-adds, which are the same on every machine.
struct LatencyTable {
  std::vector<std::vector<double>> rows;
  double most() const;  // sum of every layer's slowest candidate
};
// Throws Error(kBadInput) unless there is one value per candidate.
LatencyTable latency_table(const std::vector<std::int64_t>& nanoseconds,
                           const std::vector<FbnetLayer>& layers);
// Multiply-adds per image of every candidate.
std::vector<std::int64_t> count_costs(const std::vector<FbnetLayer>& layers);
// Nothing when the costs are to be measured and have not been. Throws Error(kBadInput).
std::optional<LatencyTable> search_costs(const OptionMap& options, const std::vector<FbnetLayer>& layers);
inline constexpr const char* kMeasuredCosts = "measured";  // value of option `costs`
// Runs every candidate on the calling thread and takes medians. Blocks for about a second.
std::vector<std::int64_t> measure_latencies(const std::vector<FbnetLayer>& layers);

torch::Tensor choices_of(const Network& network);  // theta
// The mean latency over architectures, weighted by their probability under theta; differentiable.
torch::Tensor expected_latency(const torch::Tensor& theta, const LatencyTable& table);
double latency_of(const std::vector<Candidate>& architecture, const std::vector<FbnetLayer>& layers,
                  const LatencyTable& table);

// Makes draws harder: multiplies the temperature by `factor`, down to a tenth at least.
void cool(const Network& network, double factor);

// The likeliest candidate of every layer; among equals the first. `theta` is [layers, kMostCandidates].
std::vector<Candidate> likeliest_architecture(std::span<const float> theta,
                                              const std::vector<FbnetLayer>& layers);

}  // namespace distbelief::model
