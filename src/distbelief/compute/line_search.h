#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace distbelief::compute {

// How far to go along a direction: looks for a step with the strong Wolfe conditions (Nocedal and Wright,
// Numerical Optimization, algorithms 3.5 and 3.6; cubic steps that keep away from the ends of the bracket).
// Where the decrease is lost in the rounding of the loss it goes by slopes alone (Hager and Zhang, 2005). A
// value: it is told what came of a step, and says what to do next.
class LineSearch {
 public:
  LineSearch() = default;
  // The loss and its slope along the direction, which is negative, at the start.
  LineSearch(double loss, double slope) : start_{0, loss, slope}, low_{start_} {}

  enum class Verdict {
    kAccept,  // the step that was tried
    kTry,     // another one
    kFail,    // no step does
  };
  struct Next {
    Verdict verdict = Verdict::kAccept;
    double step = 0;  // to try
  };
  // What came of a step; neither number need be finite.
  Next after(double step, double loss, double slope);

  // As numbers, and back.
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
  Tried low_{};   // the best so far that decreases enough; the start at first
  Tried high_{};  // the other end of the bracket
  bool bracketed_ = false;
  std::int64_t tries_ = 0;
};

}  // namespace distbelief::compute
