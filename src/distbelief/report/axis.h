#pragma once

#include <string>
#include <vector>

// Where the ticks of an axis stand and what they say. Pure functions.
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

// About `wanted` round values from low to high, both positive for a logarithm; none unless low < high and
// both are finite.
std::vector<Tick> ticks(AxisKind kind, double low, double high, int wanted);

// A number for people: 1234567 is "1.23M", 0.00012 "0.00012".
std::string short_number(double value);
// A time for people: "45 s", "3 min 20 s", "2 h 5 min".
std::string short_time(double seconds);

}  // namespace distbelief::report
