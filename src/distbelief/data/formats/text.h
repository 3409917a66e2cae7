#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/data/registry.h"

// Plain text for language models: the target of every token is the one after it.
namespace distbelief::data {

// Tokens in as few bytes each as the vocabulary needs. Any thread may read; one fills it before.
class TokenArray {
 public:
  explicit TokenArray(std::uint32_t vocabulary);
  void reserve(std::uint64_t tokens) { bytes_.reserve(tokens * width_); }
  void push_back(std::uint32_t token);
  std::uint64_t size() const { return bytes_.size() / width_; }
  // Tokens [begin, begin + count) as int64.
  void copy(std::uint64_t begin, std::uint64_t count, std::int64_t* to) const;

 private:
  std::size_t width_;  // bytes: 1, 2 or 4
  std::vector<std::uint8_t> bytes_;
};

// Windows of `length` tokens, each `stride` after the one before.
class TextWindows : public Source {
 public:
  struct Options {
    std::int64_t length = 128;
    std::int64_t stride = 128;
  };
  // Throws Error(kBadInput) when the text has not even one window and the token after it.
  TextWindows(TokenArray tokens, std::uint32_t vocabulary, const Options& options);
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override;

 private:
  TokenArray tokens_;
  std::uint64_t length_;
  std::uint64_t stride_;
  std::uint64_t size_;
};

// A sentence each: its words, cut at `length`, then Vocabulary::kSentenceEnd. Up to `length` the input goes
// on with ends, the target with kNoTarget.
class Sentences : public Source {
 public:
  Sentences(TokenArray tokens, std::vector<std::uint64_t> ends, std::uint32_t vocabulary,
            std::int64_t length);
  std::uint64_t size() const override { return ends_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;

 private:
  TokenArray tokens_;                // of all sentences, one after the other
  std::vector<std::uint64_t> ends_;  // of each
  std::uint64_t length_;
};

inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 30;  // of a data set's file

// All of a file, plain or gzip. Throws Error(kBadInput) when it is longer than so many bytes.
std::string read_text_file(const std::string& path, std::uint64_t most_bytes);

// The tokens of data set "text": for who has text of his own, or tokens of a model's. Reads the file.
Vocabulary learn_vocabulary(const DataConfig& config);

DataSetEntry text_entry();

}  // namespace distbelief::data
