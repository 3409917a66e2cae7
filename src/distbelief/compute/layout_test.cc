#include "distbelief/compute/layout.h"

#include <gtest/gtest.h>

namespace distbelief::compute {
namespace {

const std::vector<Layout::Parameter> kParameters{{"first.weight", {40, 30}}, {"first.bias", {40}},
                                                 {"empty", {0, 3}},          {"scale", {}},
                                                 {"last.weight", {10, 333}}, {"last.bias", {10}}};

TEST(Layout, PlacesParametersBackwardsOnBlocks) {
  const Layout layout(kParameters, std::size_t{1} << 20);
  const auto& entries = layout.entries();
  ASSERT_EQ(entries.size(), kParameters.size());
  EXPECT_EQ(entries[5].offset, 0U);
  EXPECT_EQ(entries[4].offset, kBlock);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].name, kParameters[i].name);
    EXPECT_EQ(entries[i].offset % kBlock, 0U) << entries[i].name;
    const std::size_t limit = i > 0 ? entries[i - 1].offset : layout.size();
    EXPECT_LE(entries[i].offset + entries[i].count, limit) << entries[i].name;
  }
  EXPECT_EQ(layout.parameter_count(), 1200U + 40 + 0 + 1 + 3330 + 10);
  EXPECT_EQ(layout.size() % kBlock, 0U);
}

TEST(Layout, ARunOfParametersLiesAsInTheWholeWhateverTheBuckets) {
  const Layout whole(kParameters, 4096);
  for (std::size_t begin = 0; begin < kParameters.size(); ++begin)
    for (std::size_t end = begin + 1; end <= kParameters.size(); ++end) {
      const Layout run(
          {kParameters.begin() + std::ptrdiff_t(begin), kParameters.begin() + std::ptrdiff_t(end)},
          std::size_t{1} << 20);
      for (std::size_t i = begin; i < end; ++i)
        EXPECT_EQ(run.entries()[i - begin].offset,
                  whole.entries()[i].offset - whole.entries()[end - 1].offset);
    }
}

TEST(Layout, ClosesABucketOnceItHasEnoughBytes) {
  const Layout layout(kParameters, 12000);
  ASSERT_EQ(layout.buckets().size(), 2U);
  EXPECT_EQ(layout.buckets()[0].parameters, (std::vector<int>{5, 4}));
  EXPECT_EQ(layout.buckets()[1].parameters, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(layout.bucket_of(4), 0);
  EXPECT_EQ(layout.bucket_of(0), 1);
}

TEST(Layout, BucketsAdjoinOnBlockBoundariesAndCoverTheArena) {
  for (std::size_t bucket_bytes : {1, 4096, 1 << 20}) {
    const Layout layout(kParameters, bucket_bytes);
    std::size_t next = 0;
    for (const Bucket& bucket : layout.buckets()) {
      EXPECT_EQ(bucket.span.begin, next);
      EXPECT_EQ(bucket.span.end % kBlock, 0U);
      next = bucket.span.end;
      for (int parameter : bucket.parameters) {
        const Entry& entry = layout.entries()[std::size_t(parameter)];
        EXPECT_GE(entry.offset, bucket.span.begin);
        EXPECT_LE(entry.offset + entry.count, bucket.span.end);
      }
    }
    EXPECT_EQ(next, layout.size());
  }
}

TEST(Layout, SegmentsCoverEveryParameterOnceAndNeverCrossABlock) {
  const Layout layout(kParameters, 4096);
  std::vector<int> owner(layout.size(), -1);
  for (std::size_t block = 0; block < layout.size() / kBlock; ++block)
    for (std::size_t i = layout.first_segment(block); i < layout.first_segment(block + 1); ++i) {
      const Segment& segment = layout.segments()[i];
      EXPECT_GE(segment.span.begin, block * kBlock);
      EXPECT_LE(segment.span.end, (block + 1) * kBlock);
      for (std::size_t at = segment.span.begin; at < segment.span.end; ++at) {
        EXPECT_EQ(owner[at], -1);
        owner[at] = segment.parameter;
      }
    }
  EXPECT_EQ(layout.first_segment(layout.size() / kBlock), layout.segments().size());
  std::size_t owned = 0;
  for (std::size_t at = 0; at < owner.size(); ++at) {
    if (owner[at] < 0) continue;
    ++owned;
    const Entry& entry = layout.entries()[std::size_t(owner[at])];
    EXPECT_TRUE(at >= entry.offset && at < entry.offset + entry.count);
  }
  EXPECT_EQ(owned, layout.parameter_count());
}

TEST(Layout, SlicesCoverAWholeInBlocksThatDifferByAtMostOne) {
  for (std::size_t blocks : {0, 1, 2, 7, 64})
    for (int slices = 1; slices <= 5; ++slices) {
      const Span whole{3 * kBlock, (3 + blocks) * kBlock};
      std::size_t next = whole.begin;
      for (int i = 0; i < slices; ++i) {
        const Span slice = slice_of(whole, slices, i);
        EXPECT_EQ(slice.begin, next);
        EXPECT_EQ(slice.end % kBlock, 0U);
        EXPECT_GE(slice.size() / kBlock, blocks / std::size_t(slices));
        EXPECT_LE(slice.size() / kBlock, (blocks + std::size_t(slices) - 1) / std::size_t(slices));
        next = slice.end;
      }
      EXPECT_EQ(next, whole.end);
    }
}

}  // namespace
}  // namespace distbelief::compute
