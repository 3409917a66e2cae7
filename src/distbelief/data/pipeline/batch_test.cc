#include "distbelief/data/pipeline/batch.h"

#include <gtest/gtest.h>

#include <set>

#include "distbelief/base/error.h"
#include "distbelief/data/generated/synthetic.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kHeight = 5;
constexpr std::int64_t kWidth = 70;  // whole, long enough for vector arithmetic; shifted, too short

std::uint8_t pixel(std::uint64_t sample, std::int64_t channel, std::int64_t y, std::int64_t x) {
  return static_cast<std::uint8_t>(1 + (sample * 37 + channel * 100 + y * 16 + x * 3) % 255);  // never 0
}

// Two-channel images whose pixels identify sample and position.
class NumberedImages : public Source {
 public:
  explicit NumberedImages(std::uint64_t size = 200) : size_(size) {
    spec_.input_shape = {2, kHeight, kWidth};
    spec_.classes = 10;
    spec_.mean = {0.25F, 0.5F};
    spec_.deviation = {0.5F, 0.125F};
  }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override {
    auto* byte = static_cast<std::uint8_t*>(input);
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t y = 0; y < kHeight; ++y) {
        for (std::int64_t x = 0; x < kWidth; ++x) *byte++ = pixel(index, c, y, x);
      }
    }
    *static_cast<std::int64_t*>(target) = static_cast<std::int64_t>(index % 10);
  }
  SampleSpec& changeable_spec() { return spec_; }

 private:
  std::uint64_t size_;
};

float normalised(const SampleSpec& spec, std::int64_t channel, std::uint8_t value) {
  const auto c = static_cast<std::size_t>(channel);
  return (static_cast<float>(value) / 255.0F - spec.mean[c]) / spec.deviation[c];
}

// The image of `sample` shifted by (down, right), optionally mirrored, padded with zero bytes.
std::vector<float> placed(const SampleSpec& spec, std::uint64_t sample, std::int64_t down, std::int64_t right,
                          int mirrored) {
  std::vector<float> image;
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t y = 0; y < kHeight; ++y) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        const std::int64_t from_y = y + down;
        const std::int64_t from_x = (mirrored != 0 ? kWidth - 1 - column : column) + right;
        const bool inside = from_y >= 0 && from_y < kHeight && from_x >= 0 && from_x < kWidth;
        image.push_back(normalised(spec, c, inside ? pixel(sample, c, from_y, from_x) : 0));
      }
    }
  }
  return image;
}

std::vector<float> image_of(const Batch& batch, std::uint64_t slot) {
  const float* begin = batch.input.as<float>() + slot * 2 * kHeight * kWidth;
  return {begin, begin + 2 * kHeight * kWidth};
}

TEST(BatchMaker, EvalReadsInOrderAndNormalisesEachChannel) {
  const NumberedImages source;
  Batch batch;
  BatchMaker(source, {.augment_pad_crop = true, .augment_flip = true}).eval_batch({7, 10}, batch);
  ASSERT_EQ(batch.size, 3U);
  EXPECT_EQ(batch.input.shape(), (Shape{3, 2, kHeight, kWidth}));
  EXPECT_EQ(batch.input.type(), ElementType::kFloat32);
  EXPECT_EQ(batch.target.shape(), Shape{3});
  EXPECT_EQ(batch.samples, (std::vector<std::uint64_t>{7, 8, 9}));
  for (std::uint64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(image_of(batch, slot), placed(source.spec(), 7 + slot, 0, 0, 0));
    EXPECT_EQ(batch.target.as<std::int64_t>()[slot], static_cast<std::int64_t>(7 + slot));
  }
}

TEST(BatchMaker, OnlyScalesWhenNormalisationIsOffOrUnknown) {
  NumberedImages source;
  Batch off;
  BatchMaker(source, {.normalize = false}).eval_batch({0, 1}, off);
  EXPECT_EQ(off.input.as<float>()[0], static_cast<float>(pixel(0, 0, 0, 0)) / 255.0F);
  source.changeable_spec().mean.clear();
  source.changeable_spec().deviation.clear();
  Batch unknown;
  BatchMaker(source, {}).eval_batch({0, 1}, unknown);
  EXPECT_EQ(image_of(unknown, 0), image_of(off, 0));
}

TEST(BatchMaker, TrainFollowsThePermutationWithoutAugmentation) {
  const NumberedImages source;
  const Permutation order(source.size(), 3, 1);
  Batch batch;
  BatchMaker(source, {.seed = 9}).train_batch(order, 1, {20, 30}, batch);
  ASSERT_EQ(batch.size, 10U);
  EXPECT_EQ(batch.epoch, 1U);
  for (std::uint64_t slot = 0; slot < batch.size; ++slot) {
    EXPECT_EQ(batch.samples[slot], order(20 + slot));
    EXPECT_EQ(image_of(batch, slot), placed(source.spec(), order(20 + slot), 0, 0, 0));
  }
}

// Returns the index of the placement that an augmented image shows; fails when no placement matches.
int placement_number(const SampleSpec& spec, const Batch& batch, std::uint64_t slot, std::int64_t pad) {
  const std::vector<float> image = image_of(batch, slot);
  int number = 0;
  for (std::int64_t down = -pad; down <= pad; ++down) {
    for (std::int64_t right = -pad; right <= pad; ++right) {
      for (int mirrored = 0; mirrored < 2; ++mirrored, ++number) {
        if (image == placed(spec, batch.samples[slot], down, right, mirrored)) return number;
      }
    }
  }
  ADD_FAILURE() << "sample " << batch.samples[slot] << " is no shifted or mirrored form of itself";
  return -1;
}

TEST(BatchMaker, AugmentsToEveryShiftAndMirrorImageWithZeroBytesAround) {
  const NumberedImages source;
  const BatchMaker maker(source, {.seed = 4, .augment_pad_crop = true, .augment_flip = true, .pad = 1});
  const Permutation order(source.size(), 1, 0);
  Batch batch;
  maker.train_batch(order, 0, {0, 200}, batch);
  std::set<int> seen;
  for (std::uint64_t slot = 0; slot < batch.size; ++slot) {
    seen.insert(placement_number(source.spec(), batch, slot, 1));
  }
  EXPECT_EQ(seen.size(), 18U);
}

TEST(BatchMaker, ShiftsFarEnoughToLeaveNarrowParts) {
  const NumberedImages source;
  const BatchMaker maker(source, {.seed = 2, .augment_pad_crop = true, .augment_flip = true, .pad = 20});
  Batch batch;
  maker.train_batch(Permutation(source.size(), 1, 0), 0, {0, 40}, batch);
  for (std::uint64_t slot = 0; slot < batch.size; ++slot)
    EXPECT_GE(placement_number(source.spec(), batch, slot, 20), 0);
}

TEST(BatchMaker, ShiftsBeyondTheImageGiveOnlyPadding) {
  const NumberedImages source;
  const BatchMaker maker(source, {.augment_pad_crop = true, .pad = 1'000'000'000});
  Batch batch;
  maker.train_batch(Permutation(source.size(), 1, 0), 0, {0, 1}, batch);
  EXPECT_EQ(image_of(batch, 0), placed(source.spec(), batch.samples[0], 1000, 1000, 0));
}

TEST(BatchMaker, FlipAloneGivesBothOrientationsAndNoShift) {
  const NumberedImages source;
  const BatchMaker maker(source, {.augment_flip = true});
  Batch batch;
  maker.train_batch(Permutation(source.size(), 1, 0), 0, {0, 200}, batch);
  int mirrored = 0;
  for (std::uint64_t slot = 0; slot < batch.size; ++slot) {
    mirrored += placement_number(source.spec(), batch, slot, 0);
  }
  EXPECT_NEAR(mirrored, 100, 40);
}

TEST(BatchMaker, AugmentationDependsOnSeedEpochAndSampleAlone) {
  const NumberedImages source;
  const BatchMaker maker(source, {.seed = 4, .augment_pad_crop = true, .augment_flip = true});
  const Permutation order(source.size(), 1, 0);
  Batch whole;
  Batch tail;
  maker.train_batch(order, 5, {0, 200}, whole);
  maker.train_batch(order, 5, {150, 200}, tail);
  for (std::uint64_t slot = 0; slot < tail.size; ++slot) {
    ASSERT_EQ(image_of(tail, slot), image_of(whole, 150 + slot));
  }
  const auto differing = [&](const BatchMaker& other, std::uint64_t epoch) {
    Batch batch;
    other.train_batch(order, epoch, {0, 200}, batch);
    int count = 0;
    for (std::uint64_t slot = 0; slot < 200; ++slot)
      count += image_of(batch, slot) != image_of(whole, slot) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(differing(maker, 5), 0);
  EXPECT_GT(differing(maker, 6), 150);
  EXPECT_GT(differing(BatchMaker(source, {.seed = 5, .augment_pad_crop = true, .augment_flip = true}), 5),
            150);
}

// Batches larger than the caches use another way of writing.
TEST(BatchMaker, GivesASampleTheSameBitsInBatchesOfAnySize) {
  const NumberedImages source(1600);
  const Permutation order(source.size(), 1, 0);
  for (const bool moves : {false, true}) {
    const BatchMaker maker(source, {.augment_pad_crop = moves, .augment_flip = moves});
    Batch large, small;
    maker.train_batch(order, 0, {0, 1600}, large);
    ASSERT_GE(large.input.byte_count(), std::size_t{4} << 20);
    for (std::uint64_t first = 0; first < 1600; first += 100) {
      maker.train_batch(order, 0, {first, first + 100}, small);
      for (std::uint64_t slot = 0; slot < 100; ++slot)
        ASSERT_EQ(image_of(large, first + slot), image_of(small, slot)) << moves;
    }
  }
}

TEST(BatchMaker, FillsAgainWithoutNewMemory) {
  const NumberedImages source;
  const BatchMaker maker(source, {});
  Batch batch;
  maker.eval_batch({0, 20}, batch);
  const std::byte* input = batch.input.data();
  const std::byte* target = batch.target.data();
  const std::uint64_t* samples = batch.samples.data();
  const std::uint8_t* raw = batch.raw.data();
  const std::int64_t* shape = batch.input.shape().data();
  maker.eval_batch({30, 50}, batch);
  EXPECT_EQ(batch.input.shape().data(), shape);
  maker.eval_batch({0, 3}, batch);
  EXPECT_EQ(batch.size, 3U);
  maker.eval_batch({10, 30}, batch);
  EXPECT_EQ(batch.input.data(), input);
  EXPECT_EQ(batch.target.data(), target);
  EXPECT_EQ(batch.samples.data(), samples);
  EXPECT_EQ(batch.raw.data(), raw);
}

TEST(BatchMaker, MakesEmptyBatches) {
  const NumberedImages source;
  Batch batch;
  BatchMaker(source, {}).eval_batch({5, 5}, batch);
  EXPECT_EQ(batch.size, 0U);
  EXPECT_EQ(batch.input.shape(), (Shape{0, 2, kHeight, kWidth}));
  EXPECT_EQ(batch.input.byte_count(), 0U);
}

TEST(BatchMaker, LeavesTokensAsTheyAre) {
  const SyntheticTokens source(Part::kTrain, {.samples = 50, .length = 6, .vocabulary = 20});
  Batch batch;
  BatchMaker(source, {}).train_batch(Permutation(50, 1, 0), 0, {4, 8}, batch);
  EXPECT_EQ(batch.input.type(), ElementType::kInt64);
  EXPECT_EQ(batch.input.shape(), (Shape{4, 6}));
  EXPECT_EQ(batch.target.shape(), (Shape{4, 6}));
  std::vector<std::int64_t> input(6);
  std::vector<std::int64_t> target(6);
  for (std::uint64_t slot = 0; slot < 4; ++slot) {
    source.read(batch.samples[slot], reinterpret_cast<std::byte*>(input.data()), target.data());
    EXPECT_TRUE(std::equal(input.begin(), input.end(), batch.input.as<std::int64_t>() + slot * 6));
    EXPECT_TRUE(std::equal(target.begin(), target.end(), batch.target.as<std::int64_t>() + slot * 6));
  }
}

TEST(BatchMaker, RefusesWhatCannotBeMeant) {
  const SyntheticTokens tokens(Part::kTrain, {});
  EXPECT_THROW(BatchMaker(tokens, {.augment_flip = true}), Error);
  NumberedImages images;
  EXPECT_THROW(BatchMaker(images, {.augment_pad_crop = true, .pad = -1}), Error);
  images.changeable_spec().deviation = {0.5F};
  EXPECT_THROW(BatchMaker(images, {}), Error);
  images.changeable_spec().deviation = {0.5F, 0.0F};
  EXPECT_THROW(BatchMaker(images, {}), Error);
}

}  // namespace
}  // namespace distbelief::data
