#include "distbelief/compute/gathered_arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

namespace distbelief::compute {
namespace {

// Three blocks; the first and the last share a span.
class GatheredArenaTest : public ::testing::Test {
 protected:
  GatheredArenaTest() : source_(4 * kBlock) { std::iota(source_.begin(), source_.end(), 1.0F); }

  GatheredArena make() {
    return GatheredArena(
        {.elements = source_.size(), .blocks = blocks_, .fetch = [this](Span from, float* to) {
           ++fetched_;
           std::copy(source_.begin() + std::ptrdiff_t(from.begin), source_.begin() + std::ptrdiff_t(from.end),
                     to);
         }});
  }

  std::vector<float> source_;
  std::vector<std::vector<Span>> blocks_{{{0, kBlock}, {kBlock, 2 * kBlock}},
                                         {{2 * kBlock, 3 * kBlock}},
                                         {{0, kBlock}, {3 * kBlock, 4 * kBlock}}};
  std::atomic<int> fetched_{0};
};

TEST_F(GatheredArenaTest, HasABlockWhileItIsHeld) {
  GatheredArena arena = make();
  arena.hold(1);
  EXPECT_EQ(arena.data()[2 * kBlock], float(2 * kBlock + 1));
  EXPECT_EQ(arena.data()[0], 0);
  arena.release(1);
  EXPECT_EQ(arena.data()[2 * kBlock], 0);
}

TEST_F(GatheredArenaTest, KeepsWhatAnotherHeldBlockShares) {
  GatheredArena arena = make();
  arena.hold(0);
  arena.hold(2);
  EXPECT_EQ(fetched_, 3);  // the shared span once
  arena.release(0);
  EXPECT_EQ(arena.data()[0], 1);
  EXPECT_EQ(arena.data()[kBlock], 0);
  arena.release(2);
  EXPECT_EQ(arena.data()[0], 0);
}

TEST_F(GatheredArenaTest, ABlockFetchedAheadIsThereWhenItIsHeld) {
  GatheredArena arena = make();
  for (int round = 0; round < 100; ++round) {
    arena.hold(0);
    arena.prefetch(1);
    arena.release(0);
    arena.hold(1);
    ASSERT_EQ(arena.data()[3 * kBlock - 1], float(3 * kBlock));
    arena.prefetch(2);
    arena.release_all();
    ASSERT_EQ(arena.data()[0], 0);
  }
  EXPECT_EQ(fetched_, 100 * 5);
}

TEST_F(GatheredArenaTest, AFailedFetchAheadIsThrownByTheNextHold) {
  GatheredArena arena({.elements = kBlock,
                       .blocks = {{{0, kBlock}}, {{0, kBlock}}},
                       .fetch = [](Span, float*) { throw std::runtime_error("no such pages"); }});
  arena.prefetch(0);
  EXPECT_THROW(arena.hold(0), std::runtime_error);
}

TEST_F(GatheredArenaTest, TheMostHeldIsOfNeighbours) {
  EXPECT_EQ(GatheredArena::most_held(blocks_), 3 * kBlock);
}

}  // namespace
}  // namespace distbelief::compute
