#include "distbelief/data/formats/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/data/io/input_file.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/pipeline/held_out.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kMostTextLength = 1 << 20;
constexpr std::size_t kTextChunk = std::size_t{64} << 10;

Error bad_text_option(const std::string& name, const std::string& what) {
  return Error(ErrorCode::kBadInput, fmt::format("data set 'text': option '{}' {}", name, what),
               {.key = "data." + name});
}

std::int64_t ranged(const OptionMap& options, const std::string& name, std::int64_t least) {
  const auto value = option<std::int64_t>(options, name);
  if (value < least || value > kMostTextLength)
    throw bad_text_option(name, fmt::format("must be {} to {}, it is {}", least, kMostTextLength, value));
  return value;
}

TextLevel level_of(const OptionMap& options) {
  const std::string& level = option<std::string>(options, "level");
  if (level == "bytes") return TextLevel::kBytes;
  if (level == "characters") return TextLevel::kCharacters;
  if (level == "sentences") return TextLevel::kSentences;
  throw bad_text_option("level", fmt::format("must be bytes, characters or sentences, found '{}'", level));
}

// Calls `take` with every line that is not blank, and its offset.
template <typename Take>
void for_each_text_line(std::string_view text, Take take) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) take(line, std::uint64_t{at});
    at = end + 1;
  }
}

std::uint64_t count_lines(std::string_view text) {
  std::uint64_t lines = 0;
  for_each_text_line(text, [&lines](std::string_view, std::uint64_t) { ++lines; });
  return lines;
}

// The offset where the last `share` of the text begins, at a character boundary.
std::size_t tail_begin(std::string_view text, double share) {
  if (!(share > 0.0 && share < 1.0))
    throw bad_text_option("held_out", fmt::format("must lie between 0 and 1, it is {}", share));
  auto at = static_cast<std::size_t>(static_cast<double>(text.size()) * (1.0 - share));
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

// The training text and the test text.
struct TextParts {
  std::string train;  // sentences: one per line
  std::string test{};
  std::string train_file;
  std::string test_file;
  std::uint64_t test_offset = 0;
  std::uint64_t held_out_of = 0;  // number of lines
};

// Moves the training lines to the front of parts.train in place, so there is no second copy of them.
void hold_out_lines(const OptionMap& options, TextParts& parts) {
  if (!parts.train.ends_with('\n')) parts.train += '\n';
  const std::vector<bool> held = hold_out(count_lines(parts.train), options);
  parts.held_out_of = held.size();
  std::size_t line_number = 0, kept = 0;
  char* const text = parts.train.data();
  for_each_text_line(parts.train, [&](std::string_view line, std::uint64_t) {
    if (held[line_number++]) {
      parts.test.append(line) += '\n';
      return;
    }
    std::memmove(text + kept, line.data(), line.size());
    kept += line.size();
    text[kept++] = '\n';
  });
  parts.train.resize(kept);
}

TextParts open_parts(const DataConfig& config, const OptionMap& options, TextLevel level) {
  if (config.path.empty()) throw Error(ErrorCode::kUnavailable, "set data.path to a text file");
  TextParts parts{.train = read_text_file(config.path, kMostTextBytes),
                  .train_file = config.path,
                  .test_file = config.path};
  if (const std::string& other = option<std::string>(options, "test"); !other.empty()) {
    parts.test = read_text_file(other, kMostTextBytes);
    parts.test_file = other;
  } else if (level == TextLevel::kSentences) {
    hold_out_lines(options, parts);
  } else {
    parts.test_offset = tail_begin(parts.train, option<double>(options, "held_out"));
    parts.test = parts.train.substr(parts.test_offset);
    parts.train.resize(parts.test_offset);
  }
  return parts;
}

Vocabulary vocabulary_of(const TextParts& parts, const OptionMap& options, TextLevel level) {
  return Vocabulary(level, parts.train, parts.train_file,
                    static_cast<std::size_t>(ranged(options, "words", 1)));
}

std::unique_ptr<Source> sentences(const std::string& text, const std::string& file,
                                  const Vocabulary& vocabulary, std::int64_t length) {
  TokenArray tokens(vocabulary.size());
  std::vector<std::uint64_t> ends;
  ends.reserve(count_lines(text));
  for_each_text_line(text, [&](std::string_view line, std::uint64_t offset) {
    std::int64_t left = length;
    vocabulary.for_each_token(line, file, offset, [&](std::uint32_t token) {
      if (left-- > 0) tokens.push_back(token);
    });
    ends.push_back(tokens.size());
  });
  if (ends.empty()) throw Error(ErrorCode::kBadInput, fmt::format("'{}' has no sentence, a line each", file));
  return std::make_unique<Sentences>(std::move(tokens), std::move(ends), vocabulary.size(), length);
}

TokenArray tokens_of(const std::string& text, const std::string& file, std::uint64_t offset,
                     const Vocabulary& vocabulary) {
  TokenArray tokens(vocabulary.size());
  const bool bytes = vocabulary.level() == TextLevel::kBytes;
  tokens.reserve(std::uint64_t(std::count_if(text.begin(), text.end(), [bytes](char c) {
    return bytes || (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // first byte of a character
  })));
  vocabulary.for_each_token(text, file, offset, [&tokens](std::uint32_t token) { tokens.push_back(token); });
  return tokens;
}

// Uses the tokens of `known`; fits new ones when it is null.
DataSet open_text_as(const DataConfig& config, const OptionMap& options,
                     std::shared_ptr<const Learnt> known) {
  const TextLevel level = level_of(options);
  const std::int64_t length = ranged(options, "length", 1), stride = ranged(options, "stride", 0);
  TextParts parts = open_parts(config, options, level);
  if (!known)
    known = std::make_shared<const Learnt>(Learnt{.vocabulary = vocabulary_of(parts, options, level)});
  const Vocabulary& vocabulary = *known->vocabulary;
  if (level == TextLevel::kSentences)
    return {sentences(parts.train, parts.train_file, vocabulary, length),
            sentences(parts.test, parts.test_file, vocabulary, length), std::move(known), parts.held_out_of};
  const auto windows = [&](std::string& text, const std::string& file, std::uint64_t offset) {
    TokenArray tokens = tokens_of(text, file, offset, vocabulary);
    std::string().swap(text);  // frees its memory
    return std::make_unique<TextWindows>(
        std::move(tokens), vocabulary.size(),
        TextWindows::Options{.length = length, .stride = stride == 0 ? length : stride});
  };
  auto train = windows(parts.train, parts.train_file, 0);
  auto test = windows(parts.test, parts.test_file, parts.test_offset);
  return {std::move(train), std::move(test), std::move(known)};
}

DataSet open_text(const DataConfig& config, const OptionMap& options) {
  return open_text_as(config, options, nullptr);
}

DataSet reopen_text(const DataConfig& config, const OptionMap& options, const KnownSet& known) {
  const bool knows = known.learnt && known.learnt->vocabulary;
  return open_text_as(config, options, knows ? known.learnt : nullptr);
}

SampleSpec token_spec(std::int64_t length, std::uint32_t vocabulary) {
  SampleSpec spec;
  spec.input_type = ElementType::kInt64;
  spec.input_shape = spec.target_shape = {length};
  spec.classes = vocabulary;
  return spec;
}

std::vector<OptionSpec> text_options() {
  std::vector<OptionSpec> options = {
      {"level", std::string("characters"),
       "what a token is: bytes, characters, or sentences: words, a line each"},
      {"length", std::int64_t{128}, "tokens in a sample"},
      {"stride", std::int64_t{0}, "tokens from the start of one sample to that of the next; 0: length"},
      {"words", std::int64_t{10'000}, "sentences: the most frequent words, which have tokens of their own"},
      {"test", std::string(), "another file to test on; empty: the last share of this one, of lines any"}};
  for (OptionSpec& held : held_out_options()) options.push_back(std::move(held));
  return options;
}

}  // namespace

// Grows with the bytes that are read: a compressed file may claim any size.
std::string read_text_file(const std::string& path, std::uint64_t most_bytes) {
  InputFile file(path);
  std::string text;
  text.reserve(std::min(file.stored_bytes(), most_bytes) + kTextChunk);
  for (std::size_t got = kTextChunk; got == kTextChunk;) {
    const std::size_t have = text.size();
    if (have >= most_bytes)
      throw Error(ErrorCode::kBadInput, fmt::format("{}: a text may have {} bytes, and this goes on; cut it",
                                                    file.at(have), most_bytes));
    text.resize(have + kTextChunk);
    got = file.read(reinterpret_cast<std::uint8_t*>(text.data()) + have, kTextChunk);
    text.resize(have + got);
  }
  return text;
}

TokenArray::TokenArray(std::uint32_t vocabulary)
    : width_(vocabulary <= 1U << 8    ? 1
             : vocabulary <= 1U << 16 ? 2
                                      : 4) {}

void TokenArray::push_back(std::uint32_t token) {
  for (std::size_t i = 0; i < width_; ++i) bytes_.push_back(static_cast<std::uint8_t>(token >> (8 * i)));
}

void TokenArray::copy(std::uint64_t begin, std::uint64_t count, std::int64_t* to) const {
  DISTBELIEF_INVARIANT(begin <= size() && count <= size() - begin);
  const std::uint8_t* from = bytes_.data() + begin * width_;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int64_t token = 0;
    for (std::size_t j = 0; j < width_; ++j) token |= std::int64_t{*from++} << (8 * j);
    to[i] = token;
  }
}

TextWindows::TextWindows(TokenArray tokens, std::uint32_t vocabulary, const Options& options)
    : tokens_(std::move(tokens)),
      length_(static_cast<std::uint64_t>(options.length)),
      stride_(static_cast<std::uint64_t>(options.stride)) {
  if (tokens_.size() <= length_)
    throw bad_text_option("length",
                          fmt::format("is {}, so {} tokens are wanted to train on and to test on; one of "
                                      "the parts has {}. Use a longer text or a smaller length",
                                      length_, length_ + 1, tokens_.size()));
  size_ = (tokens_.size() - 1 - length_) / stride_ + 1;
  spec_ = token_spec(options.length, vocabulary);
}

void TextWindows::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size_);
  tokens_.copy(index * stride_, length_, static_cast<std::int64_t*>(input));
  tokens_.copy(index * stride_ + 1, length_, static_cast<std::int64_t*>(target));
}

Sentences::Sentences(TokenArray tokens, std::vector<std::uint64_t> ends, std::uint32_t vocabulary,
                     std::int64_t length)
    : tokens_(std::move(tokens)),
      ends_(std::move(ends)),
      length_(static_cast<std::uint64_t>(length)) {
  spec_ = token_spec(length, vocabulary);
  std::uint64_t wanted = 0, begin = 0;
  for (const std::uint64_t end : ends_) {
    wanted += std::min(end - begin + 1, length_);
    begin = end;
  }
  if (!ends_.empty()) spec_.target_share = double(wanted) / double(ends_.size() * length_);
}

void Sentences::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size());
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  const std::uint64_t words = ends_[index] - begin;
  auto* tokens = static_cast<std::int64_t*>(input);
  auto* next = static_cast<std::int64_t*>(target);
  // The input begins with the sentence end, so the model learns how sentences begin.
  const std::uint64_t here = std::min(words, length_);
  tokens_.copy(begin, here, next);
  std::fill(tokens, tokens + length_, std::int64_t{Vocabulary::kSentenceEnd});
  std::copy(next, next + std::min(here, length_ - 1), tokens + 1);
  std::fill(next + here, next + length_, kNoTarget);
  if (here < length_) next[here] = Vocabulary::kSentenceEnd;
}

Vocabulary learn_vocabulary(const DataConfig& config) {
  const OptionMap options = data_set_options("text", config.options);
  const TextLevel level = level_of(options);
  return vocabulary_of(open_parts(config, options, level), options, level);
}

DataSetEntry text_entry() {
  return {"text", "a text file of your own, for language models", text_options(), open_text, reopen_text};
}

}  // namespace distbelief::data
