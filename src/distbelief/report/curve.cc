#include "distbelief/report/curve.h"

#include <algorithm>
#include <cmath>

namespace distbelief::report {
namespace {

void join(CurvePiece& piece, const CurvePiece& next) {
  piece.last = next.last;
  piece.sum += next.sum;
  piece.low = std::min(piece.low, next.low);
  piece.high = std::max(piece.high, next.high);
  piece.count += next.count;
}

}  // namespace

void Curve::add(double x, double y) {
  if (!std::isfinite(x) || !std::isfinite(y)) return;
  const CurvePiece point{.first = x, .last = x, .sum = y, .low = y, .high = y, .count = 1};
  if (!pieces_.empty() && pieces_.back().count < points_per_piece_) return join(pieces_.back(), point);
  if (pieces_.size() == most_) join_neighbours();
  if (!pieces_.empty() && pieces_.back().count < points_per_piece_) return join(pieces_.back(), point);
  pieces_.push_back(point);
}

void Curve::join_neighbours() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pieces_.size(); i += 2) {
    CurvePiece piece = pieces_[i];
    if (i + 1 < pieces_.size()) join(piece, pieces_[i + 1]);
    pieces_[kept++] = piece;
  }
  pieces_.resize(kept);
  points_per_piece_ *= 2;
}

void Curve::cut(double x) {
  while (!pieces_.empty() && pieces_.back().first >= x) pieces_.pop_back();
  if (!pieces_.empty()) pieces_.back().last = std::min(pieces_.back().last, x);
}

}  // namespace distbelief::report
