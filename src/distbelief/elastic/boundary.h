#pragma once

#include <array>
#include <chrono>
#include <cstdint>

// What to do between two steps. Worker 0 decides and tells the others, not after every step but about every
// kDecisionInterval: the decision says after how many steps the next one comes, so all know without talking.
namespace distbelief::elastic {

inline constexpr std::chrono::milliseconds kDecisionInterval{20};

struct Facts {
  bool stop = false;  // what was ordered
  bool hand_over = false;
  bool pause = false;
  bool snapshot_due = false;
  bool checkpoint_due = false;
  bool can_resume = true;  // whether another number of workers could go on from here
  std::chrono::nanoseconds step{0};
};

enum class Course : std::int64_t { kGoOn, kPause, kStop, kHandOver };

struct Decision {
  bool snapshot = false;
  bool checkpoint = false;
  Course course = Course::kGoOn;
  std::int64_t next = 1;  // steps until the next decision

  bool saves() const { return snapshot || checkpoint; }
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Pure. Nothing is done, not even at an order, at a place from where only as many workers could go on.
Decision decide(const Facts& facts);

using DecisionWords = std::array<std::int64_t, 4>;  // as it travels
DecisionWords to_words(const Decision& decision);
Decision from_words(const DecisionWords& words);

}  // namespace distbelief::elastic
