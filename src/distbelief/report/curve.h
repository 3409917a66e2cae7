#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distbelief::report {

// Neighbouring points of a curve that are drawn as one.
struct CurvePiece {
  double first = 0;  // x of the first and the last point
  double last = 0;
  double sum = 0;
  double low = 0;
  double high = 0;
  std::int64_t count = 0;

  double x() const { return (first + last) / 2; }
  double mean() const { return sum / double(count); }
};

// A curve of any length in bounded memory: at most `most` pieces of equally many points. When it is full,
// neighbouring pieces are joined in pairs. Pieces keep the lowest and highest value, so no peak is lost. Not
// thread-safe.
class Curve {
 public:
  explicit Curve(std::size_t most = 1000) : most_(most < 2 ? 2 : most) {}

  // x must not decrease between calls, unless cut() came in between. Ignores values that are not finite.
  void add(double x, double y);
  // Removes points at x and beyond, for steps that are repeated. A piece that spans x keeps its mean.
  void cut(double x);

  const std::vector<CurvePiece>& pieces() const { return pieces_; }
  bool empty() const { return pieces_.empty(); }

 private:
  void join_neighbours();

  std::size_t most_;
  std::int64_t points_per_piece_ = 1;
  std::vector<CurvePiece> pieces_;
};

}  // namespace distbelief::report
