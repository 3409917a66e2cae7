#include "distbelief/report/phases.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace distbelief::report {
namespace {

using std::chrono::seconds;

double of(const PhaseSeconds& totals, Phase phase) { return totals[static_cast<std::size_t>(phase)]; }

TEST(PhaseClock, AddsUpEachPhaseAndTheRunningOne) {
  const PhaseClock::Clock::time_point zero{};
  PhaseClock clock(zero);
  clock.start(Phase::kData, zero + seconds(1));
  clock.start(Phase::kForward, zero + seconds(3));
  clock.start(Phase::kData, zero + seconds(7));
  clock.start(Phase::kExchange, zero + seconds(8));
  const PhaseSeconds totals = clock.seconds(zero + seconds(18));
  EXPECT_EQ(of(totals, Phase::kOther), 1.0);
  EXPECT_EQ(of(totals, Phase::kData), 3.0);
  EXPECT_EQ(of(totals, Phase::kForward), 4.0);
  EXPECT_EQ(of(totals, Phase::kExchange), 10.0);
  EXPECT_EQ(std::accumulate(totals.begin(), totals.end(), 0.0), 18.0);
}

TEST(PhaseClock, ResetForgetsTotalsButNotTheRunningPhase) {
  const PhaseClock::Clock::time_point zero{};
  PhaseClock clock(zero);
  clock.start(Phase::kUpdate, zero + seconds(1));
  clock.reset(zero + seconds(5));
  const PhaseSeconds totals = clock.seconds(zero + seconds(7));
  EXPECT_EQ(of(totals, Phase::kUpdate), 2.0);
  EXPECT_EQ(of(totals, Phase::kOther), 0.0);
}

TEST(PhaseClock, ReadsTheSteadyClockByItself) {
  const auto before = PhaseClock::Clock::now();
  PhaseClock clock;
  const auto switched = clock.start(Phase::kBackward);
  const PhaseSeconds totals = clock.seconds();
  const double elapsed = std::chrono::duration<double>(PhaseClock::Clock::now() - before).count();
  EXPECT_GE(switched, before);
  EXPECT_LE(std::accumulate(totals.begin(), totals.end(), 0.0), elapsed);
}

TEST(Phase, NamesDiffer) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kPhaseCount; ++i) names.insert(to_string(static_cast<Phase>(i)));
  EXPECT_EQ(names.size(), kPhaseCount);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace distbelief::report
