#include "distbelief/elastic/boundary.h"

#include <algorithm>

namespace distbelief::elastic {
namespace {

// Limits how long an order waits when steps suddenly become slower.
constexpr std::int64_t kMostSteps = 64;

std::int64_t steps_until_next(std::chrono::nanoseconds step) {
  const std::chrono::nanoseconds interval = kDecisionInterval;
  return std::clamp<std::int64_t>(interval / std::max(step, std::chrono::nanoseconds(1)), 1, kMostSteps);
}

}  // namespace

Decision decide(const Facts& facts) {
  if (!facts.can_resume) return {};
  if (facts.stop) return {.checkpoint = true, .course = Course::kStop};
  if (facts.hand_over) return {.snapshot = true, .course = Course::kHandOver};
  return {.snapshot = facts.snapshot_due,
          .checkpoint = facts.checkpoint_due,
          .course = facts.pause ? Course::kPause : Course::kGoOn,
          .next = steps_until_next(facts.step)};
}

DecisionWords to_words(const Decision& decision) {
  return {decision.snapshot ? 1 : 0, decision.checkpoint ? 1 : 0, std::int64_t(decision.course),
          decision.next};
}

Decision from_words(const DecisionWords& words) {
  return {words[0] != 0, words[1] != 0, Course(words[2]), words[3]};
}

}  // namespace distbelief::elastic
