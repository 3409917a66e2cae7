#include "distbelief/data/slices/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

// Slices of 100 bytes, each filled with its number.
struct Shelf {
  std::atomic<int> transfers{0};
  std::atomic<int> longest{0};
  std::atomic<bool> broken{false};

  SliceCache::Options options(std::uint64_t held, int threads) {
    return {.slices = 50,
            .most_bytes = held * 100,
            .threads = threads,
            .bring =
                [this](Range numbers, const auto& deliver) {
                  ++transfers;
                  longest = std::max(int(longest), int(numbers.size()));
                  if (broken) throw Error(ErrorCode::kUnavailable, "the shelf broke");
                  for (std::uint64_t i = numbers.begin; i < numbers.end; ++i)
                    deliver(i, SliceCache::Bytes(100, std::uint8_t(i)));
                },
            .bytes_of = [](std::uint64_t) { return std::uint64_t{100}; }};
  }
};

TEST(SliceCache, BringsASliceOnceWhileItIsHeld) {
  Shelf shelf;
  SliceCache cache(shelf.options(10, 0));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*cache.get(7), SliceCache::Bytes(100, 7));
  EXPECT_EQ(shelf.transfers, 1);
}

TEST(SliceCache, MergesAnnouncedNeighboursIntoOneTransfer) {
  Shelf shelf;
  SliceCache cache(shelf.options(10, 0));
  cache.announce({4, 9});
  for (std::uint64_t i = 4; i < 9; ++i) cache.get(i);
  EXPECT_EQ(shelf.transfers, 1);
  EXPECT_EQ(shelf.longest, 5);
}

TEST(SliceCache, BringsWhatWasAnnouncedByItself) {
  Shelf shelf;
  SliceCache cache(shelf.options(10, 2));
  cache.announce({0, 3});
  cache.announce({20, 22});
  while (cache.brought() < 5) std::this_thread::yield();  // bounded by the test's timeout
  cache.get(1);
  cache.get(21);
  EXPECT_EQ(shelf.transfers, 2);
}

TEST(SliceCache, HoldsNoMoreThanItMayAndDropsWhatWasUsedLongestAgo) {
  Shelf shelf;
  SliceCache cache(shelf.options(5, 0));
  const SliceCache::Slice kept = cache.get(0);
  for (std::uint64_t i = 1; i < 30; ++i) {
    cache.get(i);
    cache.get(1);
    EXPECT_LE(cache.held_bytes(), 500U);
  }
  EXPECT_EQ(shelf.transfers, 30);  // slice 1 was never evicted
  EXPECT_EQ(*kept, SliceCache::Bytes(100, 0));
}

TEST(SliceCache, GivesAFailureToTheReaderAndTriesAgainLater) {
  Shelf shelf;
  SliceCache cache(shelf.options(5, 1));
  shelf.broken = true;
  cache.announce({2, 4});
  EXPECT_THROW(cache.get(2), Error);
  EXPECT_THROW(cache.get(3), Error);
  shelf.broken = false;
  EXPECT_EQ(*cache.get(2), SliceCache::Bytes(100, 2));
  EXPECT_LE(cache.held_bytes(), 500U);
}

TEST(SliceCache, ServesManyReadersAtOnceThoughItHoldsFewSlices) {
  Shelf shelf;
  SliceCache cache(shelf.options(4, 2));
  std::vector<std::jthread> readers;
  std::atomic<int> wrong{0};
  for (int r = 0; r < 4; ++r)
    readers.emplace_back([&, r] {
      for (std::uint64_t i = 0; i < 2000; ++i) {
        const std::uint64_t number = (i * 7 + std::uint64_t(r) * 13) % 50;
        if (i % 5 == 0) cache.announce({number, std::min<std::uint64_t>(50, number + 3)});
        if (*cache.get(number) != SliceCache::Bytes(100, std::uint8_t(number))) ++wrong;
      }
    });
  readers.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace distbelief::data
