#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"

// Text as tokens and back.
namespace distbelief::data {

enum class TextLevel { kBytes, kCharacters, kSentences };

// Which token stands for which piece of text. Bytes: 256, themselves. Characters: the code points of the
// training text in order, and a last token for all others. Sentences: words; token 0 is the end of a sentence
// and what follows it, 1 any word that is not among the most frequent. Immutable; any thread may use it.
class Vocabulary {
 public:
  // Learns from the training text, the start of `file`. Throws Error(kBadInput) with file and byte for text
  // that is not UTF-8 (characters).
  Vocabulary(TextLevel level, std::string_view training_text, const std::string& file,
             std::size_t most_words);

  static constexpr std::uint32_t kSentenceEnd = 0;
  static constexpr std::uint32_t kUnknownWord = 1;

  TextLevel level() const { return level_; }
  std::uint32_t size() const { return size_; }
  // `file` and `offset` are for messages: where the text stands.
  std::vector<std::uint32_t> encode(std::string_view text, const std::string& file,
                                    std::uint64_t offset) const;
  std::string decode(std::uint32_t token) const;  // of a sentence's word with a space before it

 private:
  std::uint32_t token_of(char32_t character) const;
  std::uint32_t token_of(std::string_view word) const;

  TextLevel level_;
  std::uint32_t size_;
  std::vector<char32_t> characters_;  // sorted
  std::vector<std::string> words_;    // sorted; the first is token 2
};

// Reads one code point at text[at] and goes past it. Throws Error(kBadInput) with file and byte.
char32_t next_character(std::string_view text, std::size_t& at, const std::string& file,
                        std::uint64_t offset);

}  // namespace distbelief::data
