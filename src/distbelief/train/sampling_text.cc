#include "distbelief/train/sampling_text.h"

#include <algorithm>

#include "distbelief/base/random.h"
#include "distbelief/model/device.h"

namespace distbelief::train {
namespace {

constexpr std::uint64_t kSamplingStream = 0x73616d70;

std::int64_t choose_token(torch::Tensor logits, const SampleOptions& options, SplitMix64& random) {
  if (options.temperature == 0) return logits.argmax().item<std::int64_t>();
  logits = logits.to(torch::kFloat64) / options.temperature;
  if (options.top_k > 0 && options.top_k < logits.size(0)) {
    const torch::Tensor least = std::get<0>(logits.topk(options.top_k)).min();
    logits = logits.masked_fill(logits.lt(least), -std::numeric_limits<double>::infinity());
  }
  const model::HostValues<double> sums(logits.softmax(0).cumsum(0));
  const double* found = std::upper_bound(sums.begin(), sums.end(), random.uniform() * *(sums.end() - 1));
  return std::min<std::int64_t>(found - sums.begin(), std::int64_t(sums.size()) - 1);
}

}  // namespace

std::vector<std::int64_t> continue_tokens(model::Network& network, std::vector<std::int64_t> prompt,
                                          const SampleOptions& options) {
  const torch::NoGradGuard no_grad;
  network.eval();
  SplitMix64 random(derive_seed({options.seed, kSamplingStream}));
  std::vector<std::int64_t> tokens = std::move(prompt);
  std::vector<std::int64_t> added;
  for (std::int64_t i = 0; i < options.count; ++i) {
    const auto seen = std::min<std::int64_t>(options.context, std::int64_t(tokens.size()));
    const torch::Tensor input = torch::tensor(
        std::vector<std::int64_t>(tokens.end() - std::ptrdiff_t(seen), tokens.end()), torch::kInt64);
    const torch::Tensor logits = network.forward(model::on_device(input.unsqueeze(0), network.device()));
    added.push_back(choose_token(logits[seen - 1], options, random));
    tokens.push_back(added.back());
  }
  return added;
}

}  // namespace distbelief::train
