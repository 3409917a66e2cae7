#include "distbelief/mesh/cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "distbelief/base/random.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::mesh {
namespace {

using Blocks = std::vector<BlockCost>;
using Ends = std::vector<int>;

Blocks timed(const std::vector<double>& seconds) {
  Blocks blocks;
  for (const double time : seconds)
    blocks.push_back({.forward_seconds = time / 4, .backward_seconds = time * 3 / 4});
  return blocks;
}

// The rank of cuts in the order of preference, straight from its definition.
using Rank = std::tuple<double, std::size_t, Ends>;

std::optional<Rank> rank_of(const Blocks& blocks, const Ends& ends, const CutLimits& limits) {
  double slowest = 0;
  std::size_t sent = 0;
  int first = 0;
  for (const int end : ends) {
    double seconds = 0;
    double bytes = 0;
    for (int b = first; b < end; ++b) {
      const BlockCost& block = blocks[std::size_t(b)];
      seconds += block.forward_seconds + block.backward_seconds;
      bytes += double(block.parameter_bytes) * limits.bytes_per_parameter_byte +
               double(block.activation_bytes) * double(limits.lanes_alive);
    }
    if (limits.memory_bytes != 0 && bytes > double(limits.memory_bytes)) return std::nullopt;
    slowest = std::max(slowest, seconds);
    if (end < int(blocks.size())) sent += blocks[std::size_t(end) - 1].output_bytes;
    first = end;
  }
  return Rank{slowest, sent, ends};
}

// Finds the best cuts by trying all.
void try_all(const Blocks& blocks, int stages, const CutLimits& limits, Ends& made,
             std::optional<Rank>& best) {
  if (int(made.size()) == stages - 1) {
    Ends ends = made;
    ends.push_back(int(blocks.size()));
    const auto rank = rank_of(blocks, ends, limits);
    if (rank && (!best || *rank < *best)) best = rank;
    return;
  }
  for (int end = made.empty() ? 1 : made.back() + 1; end < int(blocks.size()); ++end) {
    made.push_back(end);
    try_all(blocks, stages, limits, made, best);
    made.pop_back();
  }
}

std::optional<Rank> best_of_all(const Blocks& blocks, int stages, const CutLimits& limits) {
  std::optional<Rank> best;
  Ends made;
  try_all(blocks, stages, limits, made, best);
  return best;
}

// Uses whole seconds and few different values, so that sums are exact and ties are common.
Blocks random_blocks(SplitMix64& random) {
  Blocks blocks(1 + random.below(10));
  for (BlockCost& block : blocks)
    block = {.forward_seconds = double(random.below(4)),
             .backward_seconds = double(random.below(6)),
             .parameter_bytes = 10 * random.below(20),
             .activation_bytes = random.below(50),
             .output_bytes = 1 + random.below(4)};
  return blocks;
}

TEST(ChooseCuts, FindsTheBestOfAllCuts) {
  SplitMix64 random(4);
  for (int trial = 0; trial < 200; ++trial) {
    const Blocks blocks = random_blocks(random);
    const int stages = 1 + int(random.below(blocks.size()));
    const auto best = best_of_all(blocks, stages, {});
    ASSERT_TRUE(best);
    const Cuts cuts = choose_cuts(blocks, stages, {});
    EXPECT_EQ(cuts.slowest_seconds, std::get<0>(*best)) << "trial " << trial;
    EXPECT_EQ(cuts.ends, std::get<2>(*best)) << "trial " << trial;
  }
}

TEST(ChooseCuts, FindsTheBestOfTheCutsThatFitOrSaysHowManyStagesWould) {
  SplitMix64 random(5);
  int fitting = 0;
  int refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const Blocks blocks = random_blocks(random);
    const int stages = 1 + int(random.below(blocks.size()));
    // No block is larger than 190 x 4 + 49 x 3.
    const CutLimits limits{
        .memory_bytes = 950 + random.below(1500), .bytes_per_parameter_byte = 4, .lanes_alive = 3};
    if (const auto best = best_of_all(blocks, stages, limits)) {
      ++fitting;
      const Cuts cuts = choose_cuts(blocks, stages, limits);
      EXPECT_EQ(cuts.slowest_seconds, std::get<0>(*best)) << "trial " << trial;
      EXPECT_EQ(cuts.ends, std::get<2>(*best)) << "trial " << trial;
      continue;
    }
    ++refused;
    int enough = stages;
    while (!best_of_all(blocks, enough, limits)) ++enough;
    const std::string said = testing::refusal([&] { choose_cuts(blocks, stages, limits); });
    EXPECT_NE(said.find("take " + std::to_string(enough) + " stages or more"), std::string::npos) << said;
  }
  EXPECT_GT(fitting, 20);
  EXPECT_GT(refused, 20);
}

TEST(ChooseCuts, IsAsGoodAsTheBestForTimesThatRound) {
  SplitMix64 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    Blocks blocks = random_blocks(random);
    for (BlockCost& block : blocks) block.forward_seconds = random.uniform() * 1e-3;
    const int stages = 1 + int(random.below(blocks.size()));
    const double best = std::get<0>(*best_of_all(blocks, stages, {}));
    EXPECT_NEAR(choose_cuts(blocks, stages, {}).slowest_seconds, best, best * 1e-8) << "trial " << trial;
  }
}

TEST(ChooseCuts, TellsStageTimesAndBalance) {
  const Cuts cuts = choose_cuts(timed({0.002, 0.002, 0.003, 0.001, 0.004}), 3, {});
  EXPECT_EQ(cuts.ends, (Ends{2, 4, 5}));
  EXPECT_NEAR(cuts.slowest_seconds, 0.004, 1e-12);
  EXPECT_NEAR(cuts.balance, 1, 1e-9);
  const Cuts uneven = choose_cuts(timed({0.001, 0.006, 0.002}), 2, {});
  EXPECT_EQ(uneven.ends, (Ends{2, 3}));
  EXPECT_NEAR(uneven.balance, 4.5 / 7, 1e-9);
  EXPECT_EQ(uneven.reason, "stage 0 (blocks 0 to 1) is slowest: 7 ms per lane, balance 0.64");
}

TEST(ChooseCuts, OneStageHoldsAll) {
  const Cuts cuts = choose_cuts(timed({1, 2, 3}), 1, {});
  EXPECT_EQ(cuts.ends, (Ends{3}));
  EXPECT_EQ(cuts.slowest_seconds, 6);
  EXPECT_EQ(cuts.balance, 1);
}

TEST(ChooseCuts, OfEqualCutsTakesTheOneThatSendsLess) {
  Blocks blocks = timed({4, 0, 0, 4});
  blocks[0].output_bytes = 100;
  blocks[1].output_bytes = 10;
  blocks[2].output_bytes = 30;
  EXPECT_EQ(choose_cuts(blocks, 2, {}).ends, (Ends{2, 4}));
}

TEST(ChooseCuts, OfCutsThatAreEqualInAllTakesTheEarlier) {
  EXPECT_EQ(choose_cuts(timed({4, 0, 0, 4}), 2, {}).ends, (Ends{1, 4}));
  EXPECT_EQ(choose_cuts(timed({0, 0, 0, 0}), 2, {}).ends, (Ends{1, 4}));
  EXPECT_EQ(choose_cuts(timed({1, 1, 1, 1, 1}), 2, {}).ends, (Ends{2, 5}));
}

TEST(ChooseCuts, RoundingDoesNotUndoATie) {
  SplitMix64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const Blocks exact = random_blocks(random);
    Blocks rounded = exact;
    for (BlockCost& block : rounded) {
      block.forward_seconds *= 0.1;
      block.backward_seconds *= 0.1;
    }
    const int stages = 1 + int(random.below(exact.size()));
    EXPECT_EQ(choose_cuts(rounded, stages, {}).ends, choose_cuts(exact, stages, {}).ends)
        << "trial " << trial;
  }
}

TEST(ChooseCuts, GivesUpBalanceForMemory) {
  Blocks blocks = timed({1, 1, 1, 1});
  for (BlockCost& block : blocks) block.activation_bytes = 10;
  blocks[0].parameter_bytes = 100;
  const CutLimits limits{.memory_bytes = 440, .bytes_per_parameter_byte = 4, .lanes_alive = 4};
  EXPECT_EQ(stage_bytes(std::span(blocks).first(1), limits), 440);
  EXPECT_EQ(choose_cuts(blocks, 2, {}).ends, (Ends{2, 4}));
  EXPECT_EQ(choose_cuts(blocks, 2, limits).ends, (Ends{1, 4}));
}

TEST(ChooseCuts, NamesTheStageThatDoesNotFitAndHowManyStagesWould) {
  Blocks blocks = timed({1, 1, 1, 1});
  for (BlockCost& block : blocks) block.parameter_bytes = 1 << 20;
  EXPECT_EQ(testing::refusal(
                [&] { choose_cuts(blocks, 2, {.memory_bytes = 6 << 20, .bytes_per_parameter_byte = 4}); }),
            "stage 0 of 2 (blocks 0 to 1) needs 8.0 MiB, a stage may have 6.0 MiB; take 4 stages or more");
}

TEST(ChooseCuts, NamesABlockThatFitsNowhere) {
  Blocks blocks = timed({1, 1, 1});
  blocks[1].activation_bytes = 500;
  EXPECT_EQ(
      testing::refusal([&] { choose_cuts(blocks, 2, {.memory_bytes = 900, .lanes_alive = 2}); }),
      "block 1 alone needs 1000 bytes for its parameters, their state and 2 lanes' activations, a stage may "
      "have 900 bytes; no cut helps: give workers more memory, make the block smaller, or split it with "
      "parallel.tensor");
}

TEST(ChooseCuts, RefusesMoreStagesThanBlocks) {
  EXPECT_EQ(testing::refusal([] {
              choose_cuts(timed({1, 1, 1}), 5, {});
            }),
            "5 stages want 5 blocks or more, the network has 3; take 3 stages or fewer");
  EXPECT_EQ(testing::refusal([] { choose_cuts(timed({1}), 2, {}); }),
            "2 stages want 2 blocks or more, the network has 1; take 1 stage");
  EXPECT_EQ(testing::refusal([] { choose_cuts(timed({1}), 0, {}); }),
            "a pipeline wants 1 or more stages; found 0");
  EXPECT_EQ(testing::refusal([] { choose_cuts({}, 1, {}); }),
            "a network without blocks cannot be cut into stages");
}

std::string refusal_of_given(const Ends& firsts, int stages, const CutLimits& limits = {}) {
  Blocks blocks = timed({1, 1, 1, 1, 1, 1, 1, 1});
  for (BlockCost& block : blocks) block.parameter_bytes = 100;
  return testing::refusal([&] { given_cuts(firsts, blocks, stages, limits); });
}

TEST(GivenCuts, AreTakenAsTheyAre) {
  const Cuts cuts = given_cuts(Ends{3, 6}, timed({1, 1, 1, 1, 1, 1, 1, 2}), 3, {});
  EXPECT_EQ(cuts.ends, (Ends{3, 6, 8}));
  EXPECT_EQ(cuts.slowest_seconds, 3);
  EXPECT_EQ(cuts.balance, 1);
  EXPECT_EQ(given_cuts(Ends{}, timed({1, 1}), 1, {}).ends, (Ends{2}));
}

TEST(GivenCuts, MustBeOneLessThanTheStages) {
  EXPECT_EQ(
      refusal_of_given({3}, 3),
      "parallel.cuts = [3] makes 2 stages, the pipeline has 3; give 2 numbers, the first block of each stage "
      "but the first");
}

TEST(GivenCuts, MustAscend) {
  EXPECT_EQ(refusal_of_given({6, 3}, 3),
            "parallel.cuts = [6, 3]: 3 follows 6; each number must be larger than the one before");
  EXPECT_NE(refusal_of_given({3, 3}, 3).find("3 follows 3"), std::string::npos);
}

TEST(GivenCuts, MustLieInsideTheNetwork) {
  const std::string advice =
      " is not the first block of a later stage; the network has blocks 0 to 7, take 1 to 7";
  EXPECT_EQ(refusal_of_given({3, 8}, 3), "parallel.cuts = [3, 8]: 8" + advice);
  EXPECT_EQ(refusal_of_given({0, 3}, 3), "parallel.cuts = [0, 3]: 0" + advice);
  EXPECT_EQ(refusal_of_given({-1, 3}, 3), "parallel.cuts = [-1, 3]: -1" + advice);
  EXPECT_EQ(refusal_of_given({1, 7}, 3), "accepted");
}

TEST(GivenCuts, MustFitIntoMemory) {
  EXPECT_EQ(
      refusal_of_given({1, 6}, 3, {.memory_bytes = 300}),
      "stage 1 of 3 (blocks 1 to 5) needs 500 bytes, a stage may have 300 bytes; other cuts would fit: leave "
      "parallel.cuts out");
  EXPECT_EQ(
      refusal_of_given({4}, 2, {.memory_bytes = 300}),
      "stage 0 of 2 (blocks 0 to 3) needs 400 bytes, a stage may have 300 bytes; take 3 stages or more");
}

}  // namespace
}  // namespace distbelief::mesh
