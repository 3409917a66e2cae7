#include "distbelief/data/generated/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr int kGridSide = 4;
constexpr int kOne = 256;  // the value 1 in the fixed-point arithmetic of the patterns
constexpr std::int64_t kMostSide = 1 << 14;
constexpr std::int64_t kMostSampleBytes = 1 << 28;
constexpr std::int64_t kMostLength = 1 << 20;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
constexpr std::uint64_t kMostStride = 4;
constexpr std::uint64_t kTokensPerJump = 16;

// Separate streams of random numbers.
constexpr std::uint64_t kPatternStream = 1;
constexpr std::uint64_t kNoiseStream = 2;
constexpr std::uint64_t kTokenStream = 3;

using PatternGrid = std::array<std::array<int, kGridSide>, kGridSide>;

void check(const SyntheticImages::Options& options) {
  check_generated("channels", options.channels, 1, kMostSide);
  check_generated("height", options.height, 1, kMostSide);
  check_generated("width", options.width, 1, kMostSide);
  check_generated("classes", options.classes, 2, kMostTokens);
  check_generated("channels * height * width", options.channels * options.height * options.width, 1,
                  kMostSampleBytes);
  if (!(options.noise >= 0.0 && options.noise <= 1.0)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("option 'noise' of a generated data set must be 0 to 1, it is {}", options.noise),
                {.key = "data.noise"});
  }
}

PatternGrid pattern_grid(std::uint64_t label, std::uint64_t channel) {
  SplitMix64 random(derive_seed({kPatternStream, label, channel}));
  PatternGrid grid;
  for (auto& row : grid) {
    for (int& value : row) value = static_cast<int>(random.below(kOne));
  }
  return grid;
}

int blend(int from, int to, int fraction) { return (from * (kOne - fraction) + to * fraction) / kOne; }

}  // namespace

SyntheticImages::SyntheticImages(Part part, const Options& options) : GeneratedSource(part, options.samples) {
  check(options);
  noise_amplitude_ = static_cast<int>(std::lround(options.noise * 255.0));
  rows_ = grid_positions(options.height);
  columns_ = grid_positions(options.width);
  spec_.input_type = ElementType::kUint8;
  spec_.input_shape = {options.channels, options.height, options.width};
  spec_.classes = options.classes;
  spec_.mean.assign(static_cast<std::size_t>(options.channels), 0.5F);
  spec_.deviation.assign(static_cast<std::size_t>(options.channels), 0.25F);
}

std::vector<SyntheticImages::GridPosition> SyntheticImages::grid_positions(std::int64_t count) {
  std::vector<GridPosition> positions;
  for (std::int64_t i = 0; i < count; ++i) {
    // Stops before the end of the last cell, so that cell + 1 always exists.
    const auto place = static_cast<int>(i * (kGridSide - 1) * kOne / count);
    positions.push_back({place / kOne, place % kOne});
  }
  return positions;
}

void SyntheticImages::draw(std::uint64_t index, void* input, void* target) const {
  const std::uint64_t label = index % static_cast<std::uint64_t>(spec_.classes);
  *static_cast<std::int64_t*>(target) = static_cast<std::int64_t>(label);
  auto* pixel = static_cast<std::uint8_t*>(input);
  SplitMix64 noise = randomness(kNoiseStream, index);
  for (std::int64_t channel = 0; channel < spec_.input_shape[0]; ++channel) {
    const PatternGrid grid = pattern_grid(label, static_cast<std::uint64_t>(channel));
    for (const GridPosition& row : rows_) {
      std::array<int, kGridSide> line;
      for (int i = 0; i < kGridSide; ++i)
        line[i] = blend(grid[row.cell][i], grid[row.cell + 1][i], row.fraction);
      std::uint64_t bits = 0;
      for (std::size_t x = 0; x < columns_.size(); ++x, bits >>= 8) {
        if (x % 8 == 0) bits = noise();
        const GridPosition& column = columns_[x];
        const int clean = blend(line[column.cell], line[column.cell + 1], column.fraction);
        const int change = (2 * static_cast<int>(bits & 255) - 255) * noise_amplitude_ / 255;
        *pixel++ = static_cast<std::uint8_t>(std::clamp(clean + change, 0, 255));
      }
    }
  }
}

SyntheticTokens::SyntheticTokens(Part part, const Options& options)
    : DiscreteSource(part, options.samples,
                     {.stream = kTokenStream,
                      .name = "synthetic_tokens",
                      .advice = "raise option 'length' or 'vocabulary'"}) {
  check_generated("length", options.length, 1, kMostLength);
  check_generated("vocabulary", options.vocabulary, 2, kMostTokens);
  length_ = static_cast<std::uint64_t>(options.length);
  vocabulary_ = static_cast<std::uint64_t>(options.vocabulary);
  spec_.input_type = ElementType::kInt64;
  spec_.input_shape = {options.length};
  spec_.target_shape = {options.length};
  spec_.classes = options.vocabulary;
  require_samples();
}

void SyntheticTokens::draw_any(SplitMix64& random, std::int64_t* tokens, std::int64_t* next) const {
  const std::uint64_t stride = 1 + random.below(std::min(kMostStride, vocabulary_));
  std::uint64_t token = random.below(vocabulary_);
  for (std::uint64_t i = 0; i < length_; ++i) {
    tokens[i] = static_cast<std::int64_t>(token);
    const bool jump = random.below(kTokensPerJump) == 0;
    token = jump ? random.below(vocabulary_) : (token + stride) % vocabulary_;
    next[i] = static_cast<std::int64_t>(token);
  }
}

}  // namespace distbelief::data
