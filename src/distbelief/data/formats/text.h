#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/data/registry.h"

// Plain text for language models: the target of each token is the next token.
namespace distbelief::data {

// Tokens in 1, 2 or 4 bytes each, depending on the vocabulary. One thread fills the array; afterwards any
// thread may read.
class TokenArray {
 public:
  explicit TokenArray(std::uint32_t vocabulary);
  void reserve(std::uint64_t tokens) { bytes_.reserve(tokens * width_); }
  void push_back(std::uint32_t token);
  std::uint64_t size() const { return bytes_.size() / width_; }
  // Tokens [begin, begin + count) as int64.
  void copy(std::uint64_t begin, std::uint64_t count, std::int64_t* to) const;

 private:
  std::size_t width_;  // bytes per token: 1, 2 or 4
  std::vector<std::uint8_t> bytes_;
};

// Windows of `length` tokens; consecutive windows begin `stride` tokens apart.
class TextWindows : public Source {
 public:
  struct Options {
    std::int64_t length = 128;
    std::int64_t stride = 128;
  };
  // Throws Error(kBadInput) when the text is shorter than one window and the token after it.
  TextWindows(TokenArray tokens, std::uint32_t vocabulary, const Options& options);
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override;

 private:
  TokenArray tokens_;
  std::uint64_t length_;
  std::uint64_t stride_;
  std::uint64_t size_;
};

// One sentence per sample: its words, cut at `length`, then Vocabulary::kSentenceEnd. The input is padded to
// `length` with kSentenceEnd, the target with kNoTarget.
class Sentences : public Source {
 public:
  Sentences(TokenArray tokens, std::vector<std::uint64_t> ends, std::uint32_t vocabulary,
            std::int64_t length);
  std::uint64_t size() const override { return ends_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;

 private:
  TokenArray tokens_;                // all sentences, one after the other
  std::vector<std::uint64_t> ends_;  // end of each sentence
  std::uint64_t length_;
};

inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 30;  // limit for one file of a data set

// Reads a whole file, plain or gzip. Throws Error(kBadInput) when its content is longer than `most_bytes`.
std::string read_text_file(const std::string& path, std::uint64_t most_bytes);

// Fits the vocabulary of data set "text", for callers that have their own text or decode a model's tokens.
// Reads the file.
Vocabulary learn_vocabulary(const DataConfig& config);

DataSetEntry text_entry();

}  // namespace distbelief::data
