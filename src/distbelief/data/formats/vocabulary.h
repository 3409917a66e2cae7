#pragma once

#include <algorithm>
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
  // Of words that were learnt before, sorted.
  explicit Vocabulary(std::vector<std::string> words);

  static constexpr std::uint32_t kSentenceEnd = 0;
  static constexpr std::uint32_t kUnknownWord = 1;

  TextLevel level() const { return level_; }
  std::uint32_t size() const { return size_; }
  // `file` and `offset` are for messages: where the text stands.
  std::vector<std::uint32_t> encode(std::string_view text, const std::string& file,
                                    std::uint64_t offset) const;
  // The same, one token after the other, without memory for them.
  template <typename Take>
  void for_each_token(std::string_view text, const std::string& file, std::uint64_t offset, Take take) const;
  std::string decode(std::uint32_t token) const;  // of a sentence's word with a space before it
  std::string characters() const;                 // that have tokens of their own, as UTF-8
  const std::vector<std::string>& words() const { return words_; }

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

// Calls `take` with each word: what stands between spaces and line ends.
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
