#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distbelief::report {

// Neighbouring points of a curve, drawn as one.
struct CurvePiece {
  double first = 0;  // x of the first and the last
  double last = 0;
  double sum = 0;
  double low = 0;
  double high = 0;
  std::int64_t count = 0;

  double x() const { return (first + last) / 2; }
  double mean() const { return sum / double(count); }
};

// A curve of any length in bounded memory: at most `most` pieces, each of equally many points. When there
// would be more, neighbours are joined two by two. Pieces keep lowest and highest value, so no peak is lost.
// Not thread-safe.
class Curve {
 public:
  explicit Curve(std::size_t most = 1000) : most_(most < 2 ? 2 : most) {}

  // x does not fall between calls, unless cut() came before. What is not finite is left out.
  void add(double x, double y);
  // Forgets what lies at x or behind it: steps that were done again. Of a piece across x its mean stays.
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
