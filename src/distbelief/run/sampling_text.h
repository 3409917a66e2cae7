#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/data/source.h"
#include "distbelief/model/network.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::run {

struct SampleOptions {
  std::int64_t context = 0;  // most tokens that the network sees at a time; context_of() knows
  std::int64_t count = 200;  // tokens to add
  double temperature = 1.0;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // of the likeliest only; 0: of all
  std::uint64_t seed = 1;
  std::int64_t last = -1;  // a token after which nothing is added; TokenText knows
  std::chrono::duration<double> most_time = std::chrono::hours(24);  // fewer tokens when it is over
};

// Its network foretells the token after each one: what can be sampled. Not a class for all of them, nor a
// tree.
bool continues_tokens(const PreparedJob& job);

// How much of a text a language model looks back on: as much as a sample has, or, where state is carried from
// sample to sample in training (model.streams), some hundred tokens, whatever a sample has.
std::int64_t context_of(const ModelConfig& model, std::int64_t sample_length);

// Continues `prompt`, which has at least one token, with what a language model says. The same for the same
// options. Leaves the network evaluating.
std::vector<std::int64_t> continue_tokens(model::Network& network, std::vector<std::int64_t> prompt,
                                          const SampleOptions& options);

// What a model's tokens stand for, as its data knows; of 256 tokens that it knows nothing of, bytes.
// Immutable.
class TokenText {
 public:
  TokenText(const data::DataSet& data, std::int64_t vocabulary);
  bool knows_text() const { return vocabulary_.has_value(); }
  // Wants to know text. Of a model of sentences it begins one. Throws Error(kBadInput), naming `origin`, for
  // what has no tokens.
  std::vector<std::int64_t> encode(const std::string& text, const std::string& origin) const;
  std::string decode(const std::vector<std::int64_t>& tokens) const;
  // Where a model of sentences ends: what follows is nothing that it has learnt. Otherwise -1, which is none.
  std::int64_t last() const;
  // The text, or numbers with blanks between where there is none.
  std::string shown(const std::vector<std::int64_t>& tokens) const;

 private:
  std::optional<data::Vocabulary> vocabulary_;
};

}  // namespace distbelief::run
