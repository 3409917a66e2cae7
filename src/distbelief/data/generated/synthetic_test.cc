#include "distbelief/data/generated/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

struct Sample {
  std::vector<std::uint8_t> pixels;
  std::int64_t label = -1;
};

Sample read(const SyntheticImages& source, std::uint64_t index) {
  Sample sample;
  sample.pixels.resize(static_cast<std::size_t>(element_count(source.spec().input_shape)));
  source.read(index, reinterpret_cast<std::byte*>(sample.pixels.data()), &sample.label);
  return sample;
}

double distance(const std::vector<double>& centre, const std::vector<std::uint8_t>& pixels) {
  double sum = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) sum += (centre[i] - pixels[i]) * (centre[i] - pixels[i]);
  return sum;
}

TEST(SyntheticImages, DescribesWhatWasAskedFor) {
  const SyntheticImages source(Part::kTrain,
                               {.samples = 7, .channels = 3, .height = 9, .width = 13, .classes = 4});
  EXPECT_EQ(source.size(), 7U);
  EXPECT_EQ(source.spec().input_shape, (Shape{3, 9, 13}));
  EXPECT_EQ(source.spec().classes, 4);
  EXPECT_EQ(source.spec().mean.size(), 3U);
  EXPECT_EQ(source.spec().deviation.size(), 3U);
}

TEST(SyntheticImages, SamplesAreFixedByPartAndIndex) {
  const SyntheticImages train(Part::kTrain, {});
  const SyntheticImages longer(Part::kTrain, {.samples = 1'000'000'000});
  const SyntheticImages test(Part::kTest, {});
  EXPECT_EQ(read(train, 12).pixels, read(longer, 12).pixels);
  EXPECT_EQ(read(train, 12).label, read(test, 12).label);
  EXPECT_NE(read(train, 12).pixels, read(test, 12).pixels);
  EXPECT_NE(read(train, 12).pixels, read(train, 22).pixels);
}

TEST(SyntheticImages, HasTheSameBytesOnEveryMachine) {
  const Sample sample = read(SyntheticImages(Part::kTrain, {.channels = 2, .height = 8, .width = 11}), 3'456);
  std::uint64_t hash = 0;
  for (const std::uint8_t value : sample.pixels) hash = derive_seed({hash, value});
  EXPECT_EQ(hash, 17142945634707082912ULL);
}

TEST(SyntheticImages, ReachesSamplesFarOut) {
  const SyntheticImages source(Part::kTrain, {.samples = std::int64_t{1} << 62});
  EXPECT_EQ(read(source, 1'000'000'007).label, 7);
  EXPECT_NE(read(source, source.size() - 1).pixels, read(source, 0).pixels);
}

TEST(SyntheticImages, WithoutNoiseAClassIsOneSmoothPattern) {
  const SyntheticImages source(Part::kTrain, {.noise = 0.0});
  const Sample sample = read(source, 3);
  EXPECT_EQ(sample.pixels, read(source, 13).pixels);
  EXPECT_NE(sample.pixels, read(source, 4).pixels);
  for (std::size_t i = 0; i + 1 < sample.pixels.size(); ++i) {
    if (i % 28 == 27) continue;
    EXPECT_LE(std::abs(sample.pixels[i] - sample.pixels[i + 1]), 255 * 3 / 28 + 2);
  }
}

TEST(SyntheticImages, ClassesCanBeLearntFromTheTrainingPart) {
  constexpr std::size_t kClasses = 10;
  const SyntheticImages train(Part::kTrain, {.noise = 1.0});
  const SyntheticImages test(Part::kTest, {.noise = 1.0});
  std::vector<std::vector<double>> centres(kClasses, std::vector<double>(784));
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Sample sample = read(train, i);
    for (std::size_t p = 0; p < 784; ++p)
      centres[static_cast<std::size_t>(sample.label)][p] += sample.pixels[p] / 30.0;
  }
  int right = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Sample sample = read(test, i);
    std::size_t best = 0;
    for (std::size_t c = 1; c < kClasses; ++c) {
      if (distance(centres[c], sample.pixels) < distance(centres[best], sample.pixels)) best = c;
    }
    right += static_cast<std::int64_t>(best) == sample.label ? 1 : 0;
  }
  EXPECT_GT(right, 180);
}

TEST(SyntheticImages, RefusesOptionsOutOfRange) {
  const auto make = [](SyntheticImages::Options options) { SyntheticImages(Part::kTrain, options); };
  EXPECT_NO_THROW(make({.samples = 1, .channels = 1, .height = 1, .width = 1, .classes = 2, .noise = 0}));
  EXPECT_THROW(make({.samples = 0}), Error);
  EXPECT_THROW(make({.channels = 0}), Error);
  EXPECT_THROW(make({.height = -1}), Error);
  EXPECT_THROW(make({.channels = 1000, .height = 10000, .width = 10000}), Error);
  EXPECT_THROW(make({.width = std::numeric_limits<std::int64_t>::max()}), Error);
  EXPECT_THROW(make({.classes = 1}), Error);
  EXPECT_THROW(make({.noise = 1.5}), Error);
  EXPECT_THROW(make({.noise = std::nan("")}), Error);
}

TEST(SyntheticTokens, TargetIsTheNextInputToken) {
  const SyntheticTokens source(Part::kTrain, {.samples = 10, .length = 40, .vocabulary = 50});
  EXPECT_EQ(source.spec().input_type, ElementType::kInt64);
  EXPECT_EQ(source.spec().input_shape, Shape{40});
  EXPECT_EQ(source.spec().target_shape, Shape{40});
  EXPECT_EQ(source.spec().classes, 50);
  std::vector<std::int64_t> tokens(40);
  std::vector<std::int64_t> targets(40);
  for (std::uint64_t index = 0; index < source.size(); ++index) {
    source.read(index, reinterpret_cast<std::byte*>(tokens.data()), targets.data());
    EXPECT_TRUE(std::equal(tokens.begin() + 1, tokens.end(), targets.begin()));
    for (const std::int64_t token : targets) EXPECT_TRUE(token >= 0 && token < 50);
  }
}

TEST(SyntheticTokens, NextTokenFollowsMostlyFromTheTwoBefore) {
  const SyntheticTokens source(Part::kTest, {.samples = 100, .length = 64, .vocabulary = 256});
  std::vector<std::int64_t> tokens(64);
  std::vector<std::int64_t> targets(64);
  int from_two = 0;
  int from_one = 0;
  for (std::uint64_t index = 0; index < source.size(); ++index) {
    source.read(index, reinterpret_cast<std::byte*>(tokens.data()), targets.data());
    for (std::size_t i = 1; i < 64; ++i) {
      from_two += targets[i] == (2 * tokens[i] - tokens[i - 1] + 256) % 256 ? 1 : 0;
      from_one += targets[i] == (tokens[i] + 1) % 256 ? 1 : 0;
    }
  }
  EXPECT_GT(from_two, 63 * 100 * 8 / 10);
  EXPECT_LT(from_one, 63 * 100 * 4 / 10);
}

TEST(SyntheticTokens, PartsDifferAndSamplesAreFixed) {
  const SyntheticTokens train(Part::kTrain, {});
  const SyntheticTokens again(Part::kTrain, {.samples = 1'000'000'000});
  const SyntheticTokens test(Part::kTest, {});
  std::vector<std::vector<std::int64_t>> tokens(3, std::vector<std::int64_t>(128));
  std::vector<std::int64_t> targets(128);
  int i = 0;
  for (const SyntheticTokens* source : {&train, &again, &test}) {
    source->read(5, reinterpret_cast<std::byte*>(tokens[i++].data()), targets.data());
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_NE(tokens[0], tokens[2]);
}

TEST(SyntheticTokens, TestsOnNoSequenceThatIsTrainedOn) {
  const auto sequences = [](Part part, std::int64_t samples) {
    const SyntheticTokens source(part, {.samples = samples, .length = 32, .vocabulary = 32});
    std::set<std::vector<std::int64_t>> found;
    std::vector<std::int64_t> tokens(32), targets(32);
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      source.read(i, tokens.data(), targets.data());
      found.insert(tokens);
    }
    return found;
  };
  const auto train = sequences(Part::kTrain, 4000);
  EXPECT_GT(train.size(), 2000U);
  for (const auto& sequence : sequences(Part::kTest, 500)) EXPECT_FALSE(train.contains(sequence));
}

TEST(SyntheticTokens, RefusesOptionsOutOfRange) {
  EXPECT_THROW(SyntheticTokens(Part::kTrain, {.samples = 0}), Error);
  EXPECT_THROW(SyntheticTokens(Part::kTrain, {.length = 0}), Error);
  EXPECT_THROW(SyntheticTokens(Part::kTrain, {.vocabulary = 1}), Error);
}

}  // namespace
}  // namespace distbelief::data
