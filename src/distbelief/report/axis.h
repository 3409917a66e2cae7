#pragma once

#include <string>
#include <vector>

// Computes the ticks of an axis and their labels. Pure functions.
namespace distbelief::report {

struct Tick {
  double value = 0;
  std::string label;
};

enum class AxisKind {
  kNumber,
  kLogarithm,  // ticks at powers of ten, and at 2 and 5 times those when there are few
  kSeconds,    // "30 s", "5 min", "2 h"
};

// About `wanted` round values from low to high, both positive for a logarithm. Empty unless low < high and
// both are finite.
std::vector<Tick> ticks(AxisKind kind, double low, double high, int wanted);

// A number in short form: 1234567 is "1.23M", 0.00012 "0.00012".
std::string short_number(double value);
// A duration in short form: "45 s", "3 min 20 s", "2 h 5 min".
std::string short_time(double seconds);

}  // namespace distbelief::report
