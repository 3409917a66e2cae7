#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"

// Conversion of text to tokens and back.
namespace distbelief::data {

enum class TextLevel { kBytes, kCharacters, kSentences };

// The token of each piece of text. Bytes: 256 tokens, one per byte value. Characters: the code points of the
// training text in order, then one token for all others. Sentences: words; token 0 ends a sentence and pads
// it, token 1 is any word that is not among the most frequent. Immutable; any thread may use it.
class Vocabulary {
 public:
  // Fits the vocabulary on the training text, the start of `file`. Throws Error(kBadInput) with file and byte
  // for text that is not UTF-8 (level kCharacters).
  Vocabulary(TextLevel level, std::string_view training_text, const std::string& file,
             std::size_t most_words);
  // Makes a word vocabulary from sorted words that were fitted earlier.
  explicit Vocabulary(std::vector<std::string> words);

  static constexpr std::uint32_t kSentenceEnd = 0;
  static constexpr std::uint32_t kUnknownWord = 1;

  TextLevel level() const { return level_; }
  std::uint32_t size() const { return size_; }
  // `file` and `offset` locate the text for messages.
  std::vector<std::uint32_t> encode(std::string_view text, const std::string& file,
                                    std::uint64_t offset) const;
  // Calls `take` with each token; does not store the tokens.
  template <typename Take>
  void for_each_token(std::string_view text, const std::string& file, std::uint64_t offset, Take take) const;
  std::string decode(std::uint32_t token) const;  // a word of a sentence gets a leading space
  std::string characters() const;                 // all characters that have their own tokens, as UTF-8
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::uint32_t token_of(char32_t character) const;
  std::uint32_t token_of(std::string_view word) const;

  TextLevel level_;
  std::uint32_t size_;
  std::vector<char32_t> characters_;  // sorted
  std::vector<std::string> words_;    // sorted; the first is token 2
};

// Reads the code point at text[at] and advances `at`. Throws Error(kBadInput) with file and byte.
char32_t next_character(std::string_view text, std::size_t& at, const std::string& file,
                        std::uint64_t offset);

// Calls `take` with each word; spaces, tabs and line ends separate words.
template <typename Take>
void for_each_word(std::string_view text, Take take) {
  constexpr std::string_view kSpaces = " \t\r\n";
  for (std::size_t at = text.find_first_not_of(kSpaces); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    take(text.substr(at, end - at));
    at = text.find_first_not_of(kSpaces, end);
  }
}

template <typename Take>
void Vocabulary::for_each_token(std::string_view text, const std::string& file, std::uint64_t offset,
                                Take take) const {
  if (level_ == TextLevel::kSentences)
    return for_each_word(text, [&](std::string_view word) { take(token_of(word)); });
  for (std::size_t at = 0; at < text.size();)
    take(level_ == TextLevel::kBytes ? std::uint32_t{static_cast<unsigned char>(text[at++])}
                                     : token_of(next_character(text, at, file, offset)));
}

}  // namespace distbelief::data
