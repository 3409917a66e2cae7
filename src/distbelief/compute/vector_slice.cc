#include "distbelief/compute/vector_slice.h"

#include <fmt/format.h>

#include <bit>

#include "distbelief/base/error.h"

namespace distbelief::compute {
namespace {

// A coordinator repeats at most the commands that follow one evaluation.
constexpr std::size_t kAnswers = 8;

// Reads words one by one; throws when none are left.
class WordReader {
 public:
  explicit WordReader(const std::vector<std::int64_t>& words) : words_(words) {}
  std::int64_t take() {
    if (at_ >= words_.size()) throw Error(ErrorCode::kBadInput, "the state of vectors is cut short");
    return words_[at_++];
  }
  std::size_t take_size(std::size_t most) {
    const std::int64_t size = take();
    if (size < 0 || std::size_t(size) > most)
      throw Error(ErrorCode::kBadInput, fmt::format("the state of vectors has {} of {}", size, most));
    return std::size_t(size);
  }
  double take_double() { return std::bit_cast<double>(take()); }

 private:
  const std::vector<std::int64_t>& words_;
  std::size_t at_ = 0;
};

}  // namespace

VectorSlice::VectorSlice(const Options& options)
    : options_(options),
      vectors_(options.vectors - 1, std::vector<float>(options.count)),
      sum_(options.portions, options.count) {}

bool VectorSlice::is_new(const Portion& portion) const {
  if (portion.portion < 0 || portion.portion >= options_.portions || portion.evaluation > evaluation_)
    throw Error(ErrorCode::kBadInput,
                fmt::format("portion {} of evaluation {}, which is {} and has {} portions", portion.portion,
                            portion.evaluation, evaluation_, options_.portions));
  return portion.evaluation == evaluation_ && !sum_.has(portion.portion);
}

void VectorSlice::add(const Portion& portion) {
  sum_.add(portion.portion, portion.weight, portion.loss, portion.values);
}

void VectorSlice::require_possible(std::int64_t sequence, std::span<const Operation> operations) const {
  if (sequence > next_)
    throw Error(ErrorCode::kBadInput, fmt::format("command {} before command {}", sequence, next_));
  if (sequence < next_ && !answers_.contains(sequence))
    throw Error(ErrorCode::kBadInput,
                fmt::format("the answer to command {} is gone, the next one is {}", sequence, next_));
  if (sequence < next_) return;
  require_sound(operations, options_.vectors);
  if (has_collect(operations) && !sum_.is_complete())
    throw Error(ErrorCode::kBadInput,
                fmt::format("evaluation {} is not complete and cannot be collected", evaluation_));
}

std::vector<double> VectorSlice::run(std::int64_t sequence, std::span<const Operation> operations,
                                     float* point) {
  if (sequence < next_) return answers_.at(sequence);
  std::vector<float*> vectors{point};
  for (std::vector<float>& vector : vectors_) vectors.push_back(vector.data());
  const bool collects = has_collect(operations);
  const Collected collected{.sum = collects ? sum_.sum() : nullptr, .loss = collects ? sum_.loss() : 0};
  std::vector<double> numbers = run_operations(operations, vectors, options_.count, collected);
  if (collects) {
    sum_.reset();
    ++evaluation_;
  }
  answers_[next_++] = numbers;
  if (answers_.size() > kAnswers) answers_.erase(answers_.begin());
  return numbers;
}

std::vector<std::int64_t> VectorSlice::words() const {
  std::vector<std::int64_t> words{evaluation_, next_, std::int64_t(answers_.size())};
  for (const auto& [sequence, numbers] : answers_) {
    words.push_back(std::int64_t(numbers.size()));
    for (const double number : numbers) words.push_back(std::bit_cast<std::int64_t>(number));
  }
  for (const double loss : sum_.losses()) words.push_back(std::bit_cast<std::int64_t>(loss));
  const std::vector<PortionSum::Part> parts = sum_.parts();
  words.push_back(std::int64_t(parts.size()));
  for (const PortionSum::Part& part : parts)
    words.insert(words.end(), {part.portions.begin, part.portions.end});
  return words;
}

std::vector<std::vector<float>> VectorSlice::arrays() const {
  std::vector<std::vector<float>> arrays = vectors_;
  for (PortionSum::Part& part : sum_.parts()) arrays.push_back(std::move(part.values));
  return arrays;
}

void VectorSlice::install(const std::vector<std::int64_t>& words, std::vector<std::vector<float>> arrays) {
  WordReader reader(words);
  const std::int64_t evaluation = reader.take(), next = reader.take();
  std::map<std::int64_t, std::vector<double>> answers;
  const std::size_t kept = reader.take_size(kAnswers);
  for (std::size_t i = 0; i < kept; ++i) {
    std::vector<double>& numbers = answers[next - std::int64_t(kept - i)];
    numbers.resize(reader.take_size(kMaxOperations));
    for (double& number : numbers) number = reader.take_double();
  }
  std::vector<double> losses(std::size_t(options_.portions));
  for (double& loss : losses) loss = reader.take_double();
  std::vector<PortionSum::Part> parts(reader.take_size(std::size_t(options_.portions)));
  if (arrays.size() != vectors_.size() + parts.size())
    throw Error(ErrorCode::kBadInput, fmt::format("{} arrays for {} vectors and {} sums", arrays.size(),
                                                  vectors_.size(), parts.size()));
  std::int64_t end = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].portions.begin = reader.take();
    parts[i].portions.end = reader.take();
    const auto [begin_of, end_of] = parts[i].portions;
    if (begin_of < end || end_of <= begin_of || end_of > options_.portions)
      throw Error(ErrorCode::kBadInput, fmt::format("a sum of portions {} to {}", begin_of, end_of));
    end = end_of;
    parts[i].values = std::move(arrays[vectors_.size() + i]);
  }
  for (std::size_t i = 0; i < vectors_.size(); ++i) vectors_[i] = std::move(arrays[i]);
  sum_.install(std::move(parts), std::move(losses));
  evaluation_ = evaluation;
  next_ = next;
  answers_ = std::move(answers);
}

}  // namespace distbelief::compute
