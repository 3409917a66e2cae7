#include "distbelief/cli/predict_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/idx.h"
#include "distbelief/data/formats/s_expressions.h"
#include "distbelief/data/formats/table_field.h"
#include "distbelief/data/formats/table_query.h"
#include "distbelief/data/formats/text.h"
#include "distbelief/data/inspect.h"
#include "distbelief/data/io/memory_fault.h"
#include "distbelief/data/io/random_access_file.h"

namespace distbelief::cli {
namespace {

constexpr std::string_view kTest = "test:", kText = "text:", kTree = "tree:", kMask = "[MASK]",
                           kMaskField = "?";
constexpr std::int64_t kFirstHidden = 3, kEveryHidden = 7;  // in test samples: about as many as in training
constexpr std::uint64_t kMostPromptBytes = std::uint64_t{64} << 20;
constexpr double kMostId = 0x1.0p53;  // above it, a double cannot represent every whole number

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kBadInput, message); }

// Describes the network's input for people.
std::string wanted_by(const data::SampleSpec& spec) {
  if (spec.input_type == ElementType::kUint8 && spec.input_shape.size() == 3)
    return fmt::format("images {}", distbelief::to_string(spec.input_shape));
  if (spec.input_type == ElementType::kInt64 && spec.input_shape.size() == 2)
    return fmt::format("trees of up to {} nodes", spec.input_shape[0]);
  if (spec.input_type == ElementType::kInt64)
    return fmt::format("{} tokens per sample", element_count(spec.input_shape));
  return fmt::format("{} numbers per sample", element_count(spec.input_shape));
}

void require_images(const data::SampleSpec& spec, const std::string& input) {
  const bool takes = spec.input_type == ElementType::kUint8 && spec.input_shape.size() == 3 &&
                     (spec.input_shape[0] == 1 || spec.input_shape[0] == 3);
  if (!takes) refuse(fmt::format("{}: this network takes {}, not images", input, wanted_by(spec)));
}

// Refuses a table packed by an earlier version: it has the features, but not how to compute them from the
// columns.
void require_plain_numbers(const data::SampleSpec& spec, const std::string& input) {
  if (spec.table_features)
    refuse(fmt::format(
        "{}: this network was trained on a packed table, of which means and categories were not kept (by an "
        "earlier version, or as there were too many); pack it again and train on that, or ask about test:N",
        input));
}

void add_idx(const std::string& input, GivenSamples& samples) {
  const data::SampleSpec& spec = samples.spec();
  require_images(spec, input);
  const data::IdxArray images = data::read_idx(input, 3);
  const auto count = std::uint64_t(images.shape[0]), size = std::uint64_t(images.shape[1] * images.shape[2]);
  if (images.shape[1] != spec.input_shape[1] || images.shape[2] != spec.input_shape[2] ||
      spec.input_shape[0] != 1)
    refuse(fmt::format("{}: its images are {}, this network takes {}", input,
                       distbelief::to_string(images.shape), distbelief::to_string(spec.input_shape)));
  for (std::uint64_t i = 0; i < count; ++i)
    samples.add(fmt::format("{}:{}", input, i), images.elements.data() + i * size);
}

template <typename T>
void add_values(const std::string& name, const std::vector<double>& values, GivenSamples& samples) {
  const std::vector<T> row(values.begin(), values.end());
  samples.add(name, row.data());
}

// Requires valid pixels, tokens or ids.
void require_whole_numbers(const data::CsvReader& row, const std::vector<double>& values,
                           const data::SampleSpec& spec, TokenQuestion question) {
  const std::int64_t limit = data::input_limit(spec), masks = question == TokenQuestion::kHidden ? 1 : 0;
  const double most = spec.input_type == ElementType::kUint8 ? 255
                      : limit > 0                            ? double(limit - 1 + masks)
                                                             : kMostId;
  for (const double value : values)
    if (!(value >= 0 && value <= most) || value != std::floor(value))
      throw row.fault(fmt::format("numbers must be whole and from 0 to {:.0f}, found {}", most, value));
}

// The place that asks about the hidden tokens among these.
TokenPlace hidden_place(const std::vector<std::int64_t>& tokens, std::int64_t mask) {
  TokenPlace place{.used = std::int64_t(tokens.size())};
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] == mask) place.asked.push_back(std::int64_t(i));
  return place;
}

void add_hidden_row(const data::CsvReader& row, const std::string& name, const std::vector<double>& values,
                    GivenSamples& samples) {
  const std::vector<std::int64_t> tokens(values.begin(), values.end());
  TokenPlace place = hidden_place(tokens, samples.spec().classes);
  if (place.asked.empty())
    throw row.fault(fmt::format("this network tells hidden tokens; write {} in place of one", kMaskField));
  samples.add(name, tokens.data(), std::move(place));
}

void add_row(const data::CsvReader& row, const std::vector<double>& values, GivenSamples& samples,
             const std::string& name, TokenQuestion question) {
  const data::SampleSpec& spec = samples.spec();
  if (std::int64_t(values.size()) != element_count(spec.input_shape))
    throw row.fault(fmt::format("{} numbers; this network takes {}", values.size(), wanted_by(spec)));
  if (spec.input_type != ElementType::kFloat32) require_whole_numbers(row, values, spec, question);
  if (question == TokenQuestion::kHidden) return add_hidden_row(row, name, values, samples);
  if (spec.input_type == ElementType::kUint8) add_values<std::uint8_t>(name, values, samples);
  if (spec.input_type == ElementType::kInt64) add_values<std::int64_t>(name, values, samples);
  if (spec.input_type == ElementType::kFloat32) add_values<float>(name, values, samples);
}

// Hides some of the sample's own tokens and records them. A token with target data::kNoTarget is padding.
void add_hidden_sample(std::uint64_t index, const data::Source& test, GivenSamples& samples) {
  const data::SampleSpec& spec = test.spec();
  std::vector<std::int64_t> tokens(std::size_t(element_count(spec.input_shape)));
  std::vector<std::int64_t> targets(std::size_t(std::max<std::int64_t>(1, element_count(spec.target_shape))));
  test.read(index, tokens.data(), targets.data());
  TokenPlace place{.used = std::int64_t(tokens.size())};
  auto own = std::int64_t(tokens.size());
  if (targets.size() == tokens.size())
    own = std::find(targets.begin(), targets.end(), data::kNoTarget) - targets.begin();
  for (std::int64_t at = std::max<std::int64_t>(0, std::min(kFirstHidden, own - 1)); at < own;
       at += kEveryHidden) {
    place.asked.push_back(at);
    place.truth.push_back(std::exchange(tokens[std::size_t(at)], spec.classes));
  }
  samples.add(fmt::format("test:{}", index), tokens.data(), std::move(place));
}

void add_test_samples(const std::string& input, const data::Source& test, GivenSamples& samples,
                      TokenQuestion question) {
  const auto [first, last] = parse_test_range(input, test.size());
  std::vector<std::byte> bytes(element_size(test.spec().input_type) *
                               std::size_t(element_count(test.spec().input_shape)));
  std::vector<std::byte> target(
      8 * std::size_t(std::max<std::int64_t>(1, element_count(test.spec().target_shape))));
  for (std::uint64_t i = first; i <= last; ++i) {
    if (question == TokenQuestion::kHidden) {
      add_hidden_sample(i, test, samples);
      continue;
    }
    test.read(i, bytes.data(), target.data());
    samples.add(fmt::format("test:{}", i), bytes.data());
  }
}

void require_file(const std::string& input) {
  std::error_code failure;  // ignored: the file cannot be read for any reason
  if (std::filesystem::is_directory(input, failure))
    refuse(fmt::format("{} is a folder; name the files in it", input));
  if (!std::filesystem::is_regular_file(input, failure))
    throw Error(ErrorCode::kUnavailable, fmt::format("there is no file {}", input));
}

}  // namespace

std::pair<std::uint64_t, std::uint64_t> parse_test_range(const std::string& input, std::uint64_t samples) {
  const std::string range = input.substr(kTest.size());
  std::uint64_t first = 0, last = 0;
  const char* const end = range.data() + range.size();
  auto result = std::from_chars(range.data(), end, first);
  last = first;
  if (result.ec == std::errc() && result.ptr != end && *result.ptr == '-')
    result = std::from_chars(result.ptr + 1, end, last);
  if (result.ec != std::errc() || result.ptr != end || last < first || last >= samples)
    refuse(fmt::format("{}: wanted test:N or test:N-M with numbers from 0 to {}", input, samples - 1));
  return {first, last};
}

GivenSamples::GivenSamples(const data::SampleSpec& spec)
    : bytes_(element_size(spec.input_type) * std::size_t(element_count(spec.input_shape))) {
  spec_ = spec;
}

void GivenSamples::add(std::string name, const void* input, std::optional<TokenPlace> place) {
  const std::int64_t length = spec_.input_shape.empty() ? 1 : spec_.input_shape[0];
  names_.push_back(std::move(name));
  if (!place) place = TokenPlace{.used = length, .asked = {length - 1}};
  places_.push_back(*std::move(place));
  const auto* begin = static_cast<const std::byte*>(input);
  inputs_.insert(inputs_.end(), begin, begin + bytes_);
}

void GivenSamples::read(std::uint64_t index, void* input, void* target) const {
  std::memcpy(input, inputs_.data() + index * bytes_, bytes_);
  std::memset(target, 0, element_size(spec_.target_type) * std::size_t(element_count(spec_.target_shape)));
}

void add_numbers(const std::string& input, GivenSamples& samples, TokenQuestion question) {
  if (data::has_trees(samples.spec()))
    refuse(fmt::format("{}: this network takes {}; give them as .sexp or tree:EXPRESSION", input,
                       wanted_by(samples.spec())));
  data::CsvReader row(input, data::guess_delimiter(input));
  std::vector<double> values;
  for (bool first = true; row.next(); first = false) {
    values.resize(row.size());
    std::size_t bad = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string_view field = data::trimmed(row[i]);
      if (question == TokenQuestion::kHidden && (field == kMaskField || field == kMask))
        values[i] = double(samples.spec().classes);
      else
        bad += data::parse_number(field, values[i]) ? 0 : 1;
    }
    if (bad > 0 && first) continue;  // names of columns
    if (bad > 0) throw row.fault(fmt::format("{} fields are no numbers", bad));
    add_row(row, values, samples, fmt::format("{}:{}", input, row.line()), question);
  }
}

InputReader::InputReader(const data::DataSet& data, TokenQuestion question)
    : test_(*data.test),
      question_(question),
      learnt_(data.learnt ? data.learnt : std::make_shared<const data::Learnt>()),
      images_(learnt_->images),
      table_(learnt_->table),
      vocabulary_(learnt_->vocabulary),
      tree_tokens_(learnt_->tree_tokens) {}

void InputReader::add(const std::string& input, GivenSamples& samples) const {
  if (input.starts_with(kTest)) return add_test_samples(input, test_, samples, question_);
  if (input.starts_with(kText)) return add_text(input, input.substr(kText.size()), samples);
  if (input.starts_with(kTree))
    return add_tree(input, data::parse_s_expression(std::string_view(input).substr(kTree.size())), samples);
  require_file(input);
  data::within_memory(input, [&] { add_file(input, samples); });
}

void InputReader::add_file(const std::string& input, GivenSamples& samples) const {
  const std::string ending = data::kind_ending(input);
  if (data::has_image_ending(input) || ending == ".ppm" || ending == ".pgm") return add_image(input, samples);
  if (ending == ".csv" || ending == ".tsv") {
    if (!table_) require_plain_numbers(samples.spec(), input);
    return table_ ? add_rows(input, samples) : add_numbers(input, samples, question_);
  }
  if (input.find("idx3-ubyte") != std::string::npos) return add_idx(input, samples);
  if (ending == ".sexp") return add_tree_file(input, samples);
  // For a run on text, accepts any file that `init` would take for one.
  if (ending == ".txt" || (vocabulary_ && data::looks_like_text(input))) return add_text_file(input, samples);
  refuse(
      fmt::format("{}: wanted is an image (.jpg, .png, .ppm, .pgm), a table (.csv, .tsv), a text (.txt), "
                  "trees (.sexp), an IDX file of images, test:N, text:WORDS or tree:EXPRESSION",
                  input));
}

void InputReader::add_image(const std::string& input, GivenSamples& samples) const {
  const data::SampleSpec& spec = samples.spec();
  require_images(spec, input);
  data::ImageDecoder& decoder = data::thread_decoder();
  data::read_whole(input, data::kMostImageBytes, decoder.file_space());
  std::vector<std::uint8_t> planes(std::size_t(element_count(spec.input_shape)));
  try {
    if (images_)
      decoder.decode(decoder.file_space(), *images_, planes.data());
    else
      decoder.cover(
          decoder.file_space(), std::uint32_t(spec.input_shape[0]),
          {.width = std::uint32_t(spec.input_shape[2]), .height = std::uint32_t(spec.input_shape[1])},
          planes.data());
  } catch (const data::ImageFault& fault) {
    refuse(fmt::format("'{}', byte {}: {}", input, fault.offset(), fault.what()));
  }
  samples.add(input, planes.data());
}

void InputReader::add_rows(const std::string& input, GivenSamples& samples) const {
  data::TableQuery rows(input, *table_);
  std::vector<float> features(static_cast<std::size_t>(table_->features));
  while (rows.next(features.data())) samples.add(fmt::format("{}:{}", input, rows.line()), features.data());
}

void InputReader::add_text_file(const std::string& input, GivenSamples& samples) const {
  const std::string text = data::read_text_file(input, kMostPromptBytes);
  if (!vocabulary_ || vocabulary_->level() != data::TextLevel::kSentences)
    return add_text(input, text, samples);
  std::uint64_t line = 1;  // one sentence per line
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text.find_first_not_of(" \t\r", at) < end)
      add_text(fmt::format("{}:{}", input, line), text.substr(at, end - at), samples);
    at = end + 1;
  }
}

void InputReader::add_text(const std::string& name, const std::string& text, GivenSamples& samples) const {
  const data::SampleSpec& spec = samples.spec();
  if (!vocabulary_)
    refuse(
        fmt::format("{}: this network takes {}, and was not trained on text (what an earlier version "
                    "packed has tokens, but not what they stand for)",
                    name, wanted_by(spec)));
  std::vector<std::int64_t> tokens = tokens_of(name, text);
  const auto length = static_cast<std::size_t>(spec.input_shape[0]);
  if (tokens.size() > length) tokens.erase(tokens.begin(), tokens.end() - std::ptrdiff_t(length));
  if (tokens.empty()) refuse(fmt::format("{}: there is no text", name));
  TokenPlace place{.used = std::int64_t(tokens.size()), .asked = {std::int64_t(tokens.size()) - 1}};
  if (question_ == TokenQuestion::kHidden) {
    place = hidden_place(tokens, spec.classes);
    if (place.asked.empty())
      refuse(fmt::format("{}: this network tells hidden tokens; write {} for one among the last {}", name,
                         kMask, length));
  }
  tokens.resize(length);
  samples.add(name, tokens.data(), std::move(place));
}

void InputReader::add_tree_file(const std::string& input, GivenSamples& samples) const {
  for (const data::AskedTree& asked : data::read_asked_trees(input))
    add_tree(fmt::format("{}:{}", input, asked.line), asked.tree, samples);
}

void InputReader::add_tree(const std::string& name, const std::vector<data::TreeNode>& tree,
                           GivenSamples& samples) const {
  const data::SampleSpec& spec = samples.spec();
  if (tree_tokens_.empty())
    refuse(fmt::format("{}: this network takes {}, and was not trained on trees whose names are known", name,
                       wanted_by(spec)));
  std::vector<std::int64_t> numbers(std::size_t(element_count(spec.input_shape)));
  try {
    data::write_tree(tree, tree_tokens_, spec.input_shape[0], numbers.data());
  } catch (const Error& error) {
    refuse(fmt::format("{}: {}", name, error.message()));
  }
  samples.add(name, numbers.data());
}

std::vector<std::int64_t> InputReader::tokens_of(const std::string& name, const std::string& text) const {
  std::vector<std::int64_t> tokens;
  if (vocabulary_->level() == data::TextLevel::kSentences) tokens.push_back(data::Vocabulary::kSentenceEnd);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t mask = question_ == TokenQuestion::kHidden ? text.find(kMask, at) : std::string::npos;
    const std::size_t end = std::min(mask, text.size());
    const auto piece = vocabulary_->encode(std::string_view(text).substr(at, end - at), name, at);
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    if (mask == std::string::npos) break;
    tokens.push_back(vocabulary_->size());
    at = mask + kMask.size();
  }
  return tokens;
}

std::string InputReader::class_name(std::int64_t index) const {
  const std::vector<std::string>& names = test_.spec().class_names;
  if (std::size_t(index) < names.size()) return names[std::size_t(index)];
  return vocabulary_ ? vocabulary_->decode(std::uint32_t(index)) : "";
}

double InputReader::value(double output) const {
  const data::SampleSpec& spec = test_.spec();
  return output * spec.target_unit + spec.target_mean;
}

}  // namespace distbelief::cli
