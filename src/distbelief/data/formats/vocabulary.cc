#include "distbelief/data/formats/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace distbelief::data {
namespace {

constexpr std::uint32_t kReservedWords = 2;
// Limit for all distinct words while they are counted, and the overhead of each besides its characters.
constexpr std::size_t kMostWordsBytes = std::size_t{128} << 20, kWordBytes = 96;

Error not_utf8(const std::string& file, std::uint64_t offset) {
  return Error(ErrorCode::kBadInput,
               fmt::format("'{}', byte {}: this is not UTF-8; convert the text, or set level = \"bytes\"",
                           file, offset));
}

std::vector<char32_t> distinct_characters(std::string_view text, const std::string& file) {
  std::set<char32_t> found;
  for (std::size_t at = 0; at < text.size();) found.insert(next_character(text, at, file, 0));
  return {found.begin(), found.end()};
}

// The `most` most frequent words, in alphabetical order; of equally frequent words the alphabetically first.
std::vector<std::string> frequent_words(std::string_view text, const std::string& file, std::size_t most) {
  std::map<std::string, std::uint64_t, std::less<>> counts;
  std::size_t bytes = 0;
  for_each_word(text, [&](std::string_view word) {
    if (const auto known = counts.find(word); known != counts.end()) {
      ++known->second;
      return;
    }
    bytes += word.size() + kWordBytes;
    if (bytes > kMostWordsBytes)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("'{}': its different words take more than {} MiB; set level = \"characters\" or "
                      "\"bytes\", or cut the text",
                      file, kMostWordsBytes >> 20));
    counts.emplace(word, 1);
  });
  using Count = decltype(counts)::value_type;
  std::vector<const Count*> words;
  words.reserve(counts.size());
  for (const Count& each : counts) words.push_back(&each);
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(std::min(most, words.size()));
  std::partial_sort(words.begin(), end, words.end(), [](const Count* a, const Count* b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });
  std::vector<std::string> kept;
  for (auto each = words.begin(); each != end; ++each) kept.push_back((*each)->first);
  std::sort(kept.begin(), kept.end());
  return kept;
}

void append_utf8(char32_t c, std::string& to) {
  const auto tail = [&](int shift) { to += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    to += static_cast<char>(c);
  } else if (c < 0x800) {
    to += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    to += static_cast<char>(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    to += static_cast<char>(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at, const std::string& file,
                        std::uint64_t offset) {
  const std::size_t start = at;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first;
  const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < more) throw not_utf8(file, offset + start);
  char32_t value = first & (0x3F >> more);
  for (std::size_t i = 0; i < more; ++i, ++at) {
    if ((byte(at) & 0xC0) != 0x80) throw not_utf8(file, offset + at);
    value = value << 6 | (byte(at) & 0x3F);
  }
  static constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kLeast[more] || value > 0x10FFFF || surrogate) throw not_utf8(file, offset + start);
  return value;
}

Vocabulary::Vocabulary(TextLevel level, std::string_view training_text, const std::string& file,
                       std::size_t most_words)
    : level_(level) {
  if (level == TextLevel::kCharacters) characters_ = distinct_characters(training_text, file);
  if (level == TextLevel::kSentences) words_ = frequent_words(training_text, file, most_words);
  size_ = level == TextLevel::kBytes        ? 256
          : level == TextLevel::kCharacters ? static_cast<std::uint32_t>(characters_.size()) + 1
                                            : static_cast<std::uint32_t>(words_.size()) + kReservedWords;
}

Vocabulary::Vocabulary(std::vector<std::string> words)
    : level_(TextLevel::kSentences),
      size_(static_cast<std::uint32_t>(words.size()) + kReservedWords),
      words_(std::move(words)) {}

std::uint32_t Vocabulary::token_of(char32_t character) const {
  const auto found = std::lower_bound(characters_.begin(), characters_.end(), character);
  return found == characters_.end() || *found != character
             ? size_ - 1
             : static_cast<std::uint32_t>(found - characters_.begin());
}

std::uint32_t Vocabulary::token_of(std::string_view word) const {
  const auto found = std::lower_bound(words_.begin(), words_.end(), word);
  return found == words_.end() || *found != word
             ? kUnknownWord
             : kReservedWords + static_cast<std::uint32_t>(found - words_.begin());
}

std::vector<std::uint32_t> Vocabulary::encode(std::string_view text, const std::string& file,
                                              std::uint64_t offset) const {
  std::vector<std::uint32_t> tokens;
  for_each_token(text, file, offset, [&tokens](std::uint32_t token) { tokens.push_back(token); });
  return tokens;
}

std::string Vocabulary::characters() const {
  std::string text;
  for (const char32_t character : characters_) append_utf8(character, text);
  return text;
}

std::string Vocabulary::decode(std::uint32_t token) const {
  DISTBELIEF_INVARIANT(token < size_);
  if (level_ == TextLevel::kBytes) return std::string(1, static_cast<char>(token));
  if (level_ == TextLevel::kSentences) {
    if (token < kReservedWords) return token == kSentenceEnd ? "\n" : " ?";
    return " " + words_[token - kReservedWords];
  }
  if (token == size_ - 1) return "?";
  std::string text;
  append_utf8(characters_[token], text);
  return text;
}

}  // namespace distbelief::data
