#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/data/pipeline/split.h"

namespace distbelief::cli {

// Says on stderr how far something is: on a terminal a line that is drawn over again, elsewhere a line now
// and then. One thread at a time.
class ProgressLine {
 public:
  ProgressLine(std::string what, std::string unit);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::uint64_t done, std::uint64_t all);  // all 0: not known

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  std::string unit_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = terminal_ ? Clock::time_point{} : begun_;
};

// A bar of at most `width` cells, to an eighth of a cell; anything above 0 is visible.
std::string bar(double share, int width);

// One line per class: how many samples, and a bar against the largest. Classes without names go by number.
std::string draw_balance(const std::vector<std::uint64_t>& balance, const std::vector<std::string>& names);

// One line per client: how many samples, a bar against the largest client, and how much of each class.
std::string draw_split(const data::Split& split, const data::SplitColumns& columns);

// 1536 -> "1.5 kB", in steps of 1000.
std::string bytes_text(std::uint64_t bytes);

}  // namespace distbelief::cli
