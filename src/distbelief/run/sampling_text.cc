#include "distbelief/run/sampling_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/data/learnt.h"
#include "distbelief/model/device.h"
#include "distbelief/model/registry.h"
#include "distbelief/tasks/task.h"

namespace distbelief::run {
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
  const auto end = std::chrono::steady_clock::now() + options.most_time;
  for (std::int64_t i = 0; i < options.count && std::chrono::steady_clock::now() < end; ++i) {
    const auto seen = std::min<std::int64_t>(options.context, std::int64_t(tokens.size()));
    const torch::Tensor input = torch::tensor(
        std::vector<std::int64_t>(tokens.end() - std::ptrdiff_t(seen), tokens.end()), torch::kInt64);
    const torch::Tensor logits = network.forward(model::on_device(input.unsqueeze(0), network.device()));
    added.push_back(choose_token(logits[seen - 1], options, random));
    if (added.back() == options.last) break;
    tokens.push_back(added.back());
  }
  return added;
}

bool continues_tokens(const PreparedJob& job) {
  const data::SampleSpec& spec = job.data.train->spec();
  return tasks::task_name(job.config, spec) == "classification" && job.shape.tokens &&
         job.shape.input.size() == 1 && !spec.target_shape.empty();
}

std::int64_t context_of(const ModelConfig& model, std::int64_t sample_length) {
  constexpr std::int64_t kOfState = 256;
  const OptionMap options = model::resolved_options(model);
  const auto streams = options.find("streams");
  const bool carries = streams != options.end() && std::get<std::int64_t>(streams->second) > 0;
  return carries ? std::max(sample_length, kOfState) : sample_length;
}

TokenText::TokenText(const data::DataSet& data, std::int64_t vocabulary) {
  constexpr std::int64_t kByteTokens = 256;
  if (data.learnt && data.learnt->vocabulary)
    vocabulary_ = data.learnt->vocabulary;
  else if (vocabulary == kByteTokens)
    vocabulary_.emplace(data::TextLevel::kBytes, "", "", 0);
}

std::vector<std::int64_t> TokenText::encode(const std::string& text, const std::string& origin) const {
  DISTBELIEF_INVARIANT(knows_text());
  const std::vector<std::uint32_t> words = vocabulary_->encode(text, origin, 0);
  std::vector<std::int64_t> tokens(words.begin(), words.end());
  if (vocabulary_->level() == data::TextLevel::kSentences)
    tokens.insert(tokens.begin(), data::Vocabulary::kSentenceEnd);  // as samples do
  return tokens;
}

std::string TokenText::decode(const std::vector<std::int64_t>& tokens) const {
  DISTBELIEF_INVARIANT(knows_text());
  std::string text;
  for (const std::int64_t token : tokens) text += vocabulary_->decode(std::uint32_t(token));
  return text;
}

std::int64_t TokenText::last() const {
  const bool has_end = knows_text() && vocabulary_->level() == data::TextLevel::kSentences;
  return has_end ? std::int64_t{data::Vocabulary::kSentenceEnd} : -1;
}

std::string TokenText::shown(const std::vector<std::int64_t>& tokens) const {
  return knows_text() ? decode(tokens) : fmt::format("{} ", fmt::join(tokens, " "));
}

}  // namespace distbelief::run
