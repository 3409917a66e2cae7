#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace distbelief::compute {

// Searches a step along a direction that meets the strong Wolfe conditions (Nocedal and Wright, Numerical
// Optimization, algorithms 3.5 and 3.6; cubic steps that keep away from the ends of the bracket). Where
// rounding of the loss hides the decrease, it uses slopes alone (Hager and Zhang, 2005). A value type:
// after() takes the result of a step and returns what to do next.
class LineSearch {
 public:
  LineSearch() = default;
  // The loss and its slope along the direction at the start; the slope is negative.
  LineSearch(double loss, double slope) : start_{0, loss, slope}, low_{start_} {}

  enum class Verdict {
    kAccept,  // take the step that was tried
    kTry,     // try another step
    kFail,    // no step meets the conditions
  };
  struct Next {
    Verdict verdict = Verdict::kAccept;
    double step = 0;  // to try
  };
  // Takes the result of a step; loss and slope may be infinite or NaN.
  Next after(double step, double loss, double slope);

  // Conversion to and from numbers.
  static constexpr std::size_t kNumbers = 11;
  std::vector<double> numbers() const;
  static LineSearch from(std::span<const double> numbers);

 private:
  struct Tried {
    double step = 0;
    double loss = 0;
    double slope = 0;
  };
  bool decreases(const Tried& tried) const;
  Next inside_bracket();
  Next end() const;

  Tried start_{};
  Tried low_{};   // best step so far with enough decrease; the start at first
  Tried high_{};  // the other end of the bracket
  bool bracketed_ = false;
  std::int64_t tries_ = 0;
};

}  // namespace distbelief::compute
