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
  std::int64_t context = 0;  // most tokens that the network sees at a time; see context_of()
  std::int64_t count = 200;  // tokens to add
  double temperature = 1.0;  // 0: always takes the likeliest token
  std::int64_t top_k = 0;    // draws from this many likeliest tokens; 0: from all
  std::uint64_t seed = 1;
  std::int64_t last = -1;  // a token that ends the text; see TokenText
  // Stops with fewer tokens after this time.
  std::chrono::duration<double> most_time = std::chrono::hours(24);
};

// Whether the network predicts the token after each token, so that text can be sampled; not so for one class
// for all tokens, or a tree.
bool continues_tokens(const PreparedJob& job);

// The number of tokens that a language model looks back on: the length of a sample, or a few hundred tokens
// when state is carried from sample to sample in training (model.streams).
std::int64_t context_of(const ModelConfig& model, std::int64_t sample_length);

// Continues `prompt` (at least one token) with a language model. Equal options give equal tokens. Leaves the
// network in evaluation mode.
std::vector<std::int64_t> continue_tokens(model::Network& network, std::vector<std::int64_t> prompt,
                                          const SampleOptions& options);

// Converts between a model's tokens and text, using the vocabulary of its data; 256 tokens without a
// vocabulary are bytes. Immutable.
class TokenText {
 public:
  TokenText(const data::DataSet& data, std::int64_t vocabulary);
  bool knows_text() const { return vocabulary_.has_value(); }
  // Requires knows_text(). For a model of sentences it begins a sentence. Throws Error(kBadInput), naming
  // `origin`, for text without tokens.
  std::vector<std::int64_t> encode(const std::string& text, const std::string& origin) const;
  std::string decode(const std::vector<std::int64_t>& tokens) const;
  // The token that ends a sentence in a model of sentences: the model has learnt no continuation of it.
  // Otherwise -1, which is no token.
  std::int64_t last() const;
  // The text, or without a vocabulary the numbers separated by spaces.
  std::string shown(const std::vector<std::int64_t>& tokens) const;

 private:
  std::optional<data::Vocabulary> vocabulary_;
};

}  // namespace distbelief::run
