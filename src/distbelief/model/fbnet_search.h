#pragma once

#include <span>

#include "distbelief/model/fbnet.h"

// The network that searches: every layer holds all of its candidates, and a number for each says how likely
// it is. While training, a layer's output is the sum of all candidates' outputs, weighted by a draw from the
// Gumbel-softmax distribution over them (Jang et al., 2017; Maddison et al., 2017), from the lane's
// randomness; otherwise it is that of the likeliest. Names of the candidates' parameters begin with
// `weights.`; `choices.theta` has a row for every layer, and the buffer `choices.temperature` is how soft a
// draw is.
namespace distbelief::model {

std::vector<OptionSpec> fbnet_search_options();
Blueprint fbnet_search_blueprint(const OptionMap& options, const DataShape& shape);

// Nanoseconds that each candidate takes for an image, a row for each layer; kept in option `latencies`, so
// that a run that is repeated or resumed counts with the same.
struct LatencyTable {
  std::vector<std::vector<double>> rows;
  double most() const;  // of the slowest candidate of every layer together
};
// Throws Error(kBadInput) when there are not as many as candidates.
LatencyTable latency_table(const std::vector<std::int64_t>& nanoseconds,
                           const std::vector<FbnetLayer>& layers);
// Runs every candidate on this machine, on the calling thread, and takes medians. Blocks for about a second.
std::vector<std::int64_t> measure_latencies(const std::vector<FbnetLayer>& layers);

torch::Tensor choices_of(const Network& network);  // theta
// The mean over architectures, drawn as likely as theta says; with a gradient.
torch::Tensor expected_latency(const torch::Tensor& theta, const LatencyTable& table);
double latency_of(const std::vector<Candidate>& architecture, const std::vector<FbnetLayer>& layers,
                  const LatencyTable& table);

// Draws become harder: the temperature becomes `factor` times itself, but no less than a tenth.
void cool(const Network& network, double factor);

// The likeliest candidate of every layer, the first of equals. `theta` is [layers, kMostCandidates].
std::vector<Candidate> likeliest_architecture(std::span<const float> theta,
                                              const std::vector<FbnetLayer>& layers);

}  // namespace distbelief::model
