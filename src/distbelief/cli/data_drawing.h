#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/data/pipeline/split.h"

namespace distbelief::cli {

// Prints the progress of an operation on stderr: on a terminal one line that is redrawn, elsewhere an
// occasional line. For one thread at a time.
class ProgressLine {
 public:
  ProgressLine(std::string what, std::string unit);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::uint64_t done, std::uint64_t all);  // all 0: unknown

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  std::string unit_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = terminal_ ? Clock::time_point{} : begun_;
};

// A bar of at most `width` cells, in eighths of a cell; any share above 0 is visible.
std::string bar(double share, int width);

// One line per class: number of samples, and a bar relative to the largest class. Classes without names show
// their number.
std::string draw_balance(const std::vector<std::uint64_t>& balance, const std::vector<std::string>& names);

// One line per client: number of samples, a bar relative to the largest client, and the share of each class.
std::string draw_split(const data::Split& split, const data::SplitColumns& columns);

// 1536 -> "1.5 kB", in steps of 1000.
std::string bytes_text(std::uint64_t bytes);

}  // namespace distbelief::cli
