#include "distbelief/server/scheduler/freshness.h"

#include <gtest/gtest.h>

namespace distbelief::server {
namespace {

// At clock 3 with a bound of 1, a step has to see the steps of clocks 0 and 1.
TEST(Freshness, WhatOthersDidSinceTheLastBeginMattersBelowTheBound) {
  Freshness freshness;
  EXPECT_FALSE(freshness.begin(0, 1, -1, {{0, 0}, {1, 0}}));
  EXPECT_FALSE(freshness.begin(0, 2, 0, {{0, 1}, {1, 1}})) << "a step that need not be seen yet";
  EXPECT_FALSE(freshness.begin(0, 3, 1, {{0, 2}, {1, 1}})) << "it fetched after that one";
  EXPECT_TRUE(freshness.begin(0, 4, 2, {{0, 3}, {1, 2}}));
  EXPECT_FALSE(freshness.begin(0, 5, 3, {{0, 4}, {1, 2}})) << "it was told, and nothing is new";
  EXPECT_FALSE(freshness.begin(0, 6, 4, {{0, 5}, {1, 2}})) << "its own it has always";
}

TEST(Freshness, NothingIsKnownOfOneThatCame) {
  Freshness freshness;
  EXPECT_TRUE(freshness.begin(0, 1, 2, {{0, 3}, {1, 2}})) << "its first step";
  EXPECT_TRUE(freshness.begin(0, 2, 3, {{0, 4}, {1, 2}, {2, 3}})) << "another has come and done steps";
  EXPECT_FALSE(freshness.begin(0, 3, 3, {{0, 4}, {1, 2}, {2, 3}}));
  freshness.forget(2);
  EXPECT_TRUE(freshness.begin(0, 4, 3, {{0, 4}, {1, 2}, {2, 2}})) << "it came again, with an earlier clock";
  freshness.forget(0);
  EXPECT_TRUE(freshness.begin(0, 5, 3, {{0, 4}, {1, 2}, {2, 2}}));
}

TEST(Freshness, WhoAsksAgainIsToldTheSame) {
  Freshness freshness;
  EXPECT_FALSE(freshness.begin(0, 1, 0, {{0, 0}, {1, 0}}));
  EXPECT_TRUE(freshness.begin(0, 2, 1, {{0, 1}, {1, 1}}));
  EXPECT_TRUE(freshness.begin(0, 2, 1, {{0, 1}, {1, 1}})) << "it did not hear that, and has not fetched";
  EXPECT_TRUE(freshness.begin(0, 2, 1, {{0, 1}, {1, 2}})) << "nor that";
  EXPECT_FALSE(freshness.begin(0, 3, 2, {{0, 2}, {1, 2}})) << "it fetched when it heard the last";
  EXPECT_FALSE(freshness.begin(0, 3, 2, {{0, 2}, {1, 2}}));
}

}  // namespace
}  // namespace distbelief::server
