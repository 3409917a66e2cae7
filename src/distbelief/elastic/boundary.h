#pragma once

#include <array>
#include <chrono>
#include <cstdint>

// Decides the actions between two steps. Worker 0 decides and tells the others about every kDecisionInterval
// rather than after every step. Each decision says how many steps later the next one comes, so all workers
// know without further messages.
namespace distbelief::elastic {

inline constexpr std::chrono::milliseconds kDecisionInterval{20};

struct Facts {
  bool stop = false;  // ordered, as are hand_over and pause
  bool hand_over = false;
  bool pause = false;
  bool snapshot_due = false;
  bool checkpoint_due = false;
  bool can_resume = true;  // whether another number of workers could resume from here
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

// Pure. At a place from which only the same number of workers could resume, it does nothing, not even on an
// order.
Decision decide(const Facts& facts);

using DecisionWords = std::array<std::int64_t, 4>;  // for transmission
DecisionWords to_words(const Decision& decision);
Decision from_words(const DecisionWords& words);

}  // namespace distbelief::elastic
