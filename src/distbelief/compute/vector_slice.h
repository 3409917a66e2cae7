#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "distbelief/compute/operations.h"
#include "distbelief/compute/portion_sum.h"

namespace distbelief::compute {

// One slice of the vectors of a batch method (lbfgs.h). The owner keeps vector 0, the point at which
// gradients are computed; this class keeps the others, zero at first. Repeated messages count once: a portion
// carries the number of its evaluation, which ends with a command's kCollect, and a command its sequence
// number, whose answer is kept for repeats. Deterministic: two slices with the same input in the same order
// are equal. Not thread-safe.
class VectorSlice {
 public:
  struct Options {
    std::size_t vectors = 1;
    std::int64_t portions = 1;  // in one evaluation
    std::size_t count = 0;      // elements of each vector
  };
  explicit VectorSlice(const Options& options);

  struct Portion {
    std::int64_t evaluation = 0;
    std::int64_t portion = 0;
    double weight = 1;  // share of the batch
    double loss = 0;
    const float* values = nullptr;  // its gradient
  };
  // Whether add() would change anything. Throws Error(kBadInput) for an unknown portion or a later
  // evaluation.
  bool is_new(const Portion& portion) const;
  void add(const Portion& portion);  // requires is_new()

  bool is_new(std::int64_t sequence) const { return sequence >= next_; }
  // Throws Error(kBadInput) for a command out of turn, or one that collects an incomplete sum. Changes
  // nothing.
  void require_possible(std::int64_t sequence, std::span<const Operation> operations) const;
  // Runs a new, possible command and returns its numbers; a repeated command returns its earlier numbers.
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations, float* point);

  std::int64_t evaluation() const { return evaluation_; }
  const PortionSum& sum() const { return sum_; }

  // The whole state except the point, for transfer to another process.
  std::vector<std::int64_t> words() const;
  std::vector<std::vector<float>> arrays() const;
  // Throws Error(kBadInput) for words that do not fit the arrays.
  void install(const std::vector<std::int64_t>& words, std::vector<std::vector<float>> arrays);
  // Upper limit of arrays().
  static std::size_t most_arrays(const Options& options) {
    return options.vectors + std::size_t(options.portions);
  }

 private:
  Options options_;
  std::vector<std::vector<float>> vectors_;  // from number 1 on
  PortionSum sum_;
  std::int64_t evaluation_ = 0;
  std::int64_t next_ = 0;                                // the next sequence number
  std::map<std::int64_t, std::vector<double>> answers_;  // to the last commands
};

}  // namespace distbelief::compute
