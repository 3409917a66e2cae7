#include "distbelief/data/pipeline/sampling.h"

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 62;
constexpr std::uint64_t kOrderStream = 0x6f72646572;  // separates these keys from other uses of the seed

std::uint64_t root_rounded_up(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root < value) ++root;
  while (root > 0 && (root - 1) * (root - 1) >= value) --root;
  return root;
}

// One Feistel round: shifts `side` by an amount that depends only on `other`, so it can be inverted.
std::uint64_t shifted(std::uint64_t side, std::uint64_t modulus, std::uint64_t other, std::uint64_t key) {
  const std::uint64_t moved = side + SplitMix64(key ^ other).below(modulus);
  return moved < modulus ? moved : moved - modulus;
}

std::uint64_t shifted_back(std::uint64_t side, std::uint64_t modulus, std::uint64_t other,
                           std::uint64_t key) {
  const std::uint64_t amount = SplitMix64(key ^ other).below(modulus);
  return side >= amount ? side - amount : side + modulus - amount;
}

// A position in the network, as the digits of a mixed radix.
struct Cell {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
};

// Applies `rounds`, which permutes the cells, until the result is below `size` (cycle walking).
template <typename Rounds>
std::uint64_t walked(std::uint64_t index, std::uint64_t size, std::uint64_t columns, Rounds rounds) {
  do {
    Cell at{index / columns, index % columns};
    rounds(at);
    index = at.row * columns + at.column;
  } while (index >= size);
  return index;
}

// Transposes positions from rows of `columns` to columns; positions beyond the rows stay.
std::uint64_t transposed(std::uint64_t index, std::uint64_t rows, std::uint64_t columns) {
  return index < rows * columns ? index % columns * rows + index / columns : index;
}

}  // namespace

// The halves are digits of a mixed radix instead of bits (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", 2002): fewer than rows_ positions lie outside, so the walk nearly always takes one step for any
// size. Halves of bits would take up to four.
Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) : size_(size) {
  DISTBELIEF_INVARIANT(size <= kMostSamples);
  rows_ = std::max<std::uint64_t>(1, root_rounded_up(size));
  columns_ = std::max<std::uint64_t>(1, (size + rows_ - 1) / rows_);
  for (std::uint64_t round = 0; round < keys_.size(); ++round) {
    keys_[round] = derive_seed({seed, epoch, kOrderStream, round});
  }
}

Permutation Permutation::streams(std::uint64_t size, std::uint64_t batch) {
  Permutation order;
  order.size_ = size;
  order.stream_batch_ = std::max<std::uint64_t>(1, batch);
  return order;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  DISTBELIEF_INVARIANT(index < size_);
  if (stream_batch_ > 0) return transposed(index, size_ / stream_batch_, stream_batch_);
  return walked(index, size_, columns_, [this](Cell& at) {
    at.row = shifted(at.row, rows_, at.column, keys_[0]);
    at.column = shifted(at.column, columns_, at.row, keys_[1]);
    at.row = shifted(at.row, rows_, at.column, keys_[2]);
    at.column = shifted(at.column, columns_, at.row, keys_[3]);
  });
}

std::uint64_t Permutation::index_of(std::uint64_t value) const {
  DISTBELIEF_INVARIANT(value < size_);
  if (stream_batch_ > 0) return transposed(value, stream_batch_, size_ / stream_batch_);
  return walked(value, size_, columns_, [this](Cell& at) {
    at.column = shifted_back(at.column, columns_, at.row, keys_[3]);
    at.row = shifted_back(at.row, rows_, at.column, keys_[2]);
    at.column = shifted_back(at.column, columns_, at.row, keys_[1]);
    at.row = shifted_back(at.row, rows_, at.column, keys_[0]);
  });
}

std::uint64_t EpochPlan::steps() const {
  DISTBELIEF_INVARIANT(batch > 0);
  return samples / batch + (samples % batch != 0 ? 1 : 0);
}

Range EpochPlan::step_range(std::uint64_t step) const {
  DISTBELIEF_INVARIANT(step < steps());
  const std::uint64_t begin = step * batch;
  return {begin, begin + std::min(batch, samples - begin)};
}

Range EpochPlan::lane_range(std::uint64_t step, std::uint64_t lane) const {
  DISTBELIEF_INVARIANT(lane < lanes);
  const Range whole = step_range(step);
  const std::uint64_t share = whole.size() / lanes;
  const std::uint64_t larger_lanes = whole.size() % lanes;
  const std::uint64_t begin = whole.begin + lane * share + std::min(lane, larger_lanes);
  return {begin, begin + share + (lane < larger_lanes ? 1 : 0)};
}

}  // namespace distbelief::data
