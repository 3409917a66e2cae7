#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "distbelief/compute/operations.h"
#include "distbelief/compute/portion_sum.h"

namespace distbelief::compute {

// One slice of the vectors of a batch method (lbfgs.h): vector 0, the point at which gradients are computed,
// is the owner's, the others are kept here and zero at first. Portions and commands come with numbers, so
// that what is sent twice counts once: a portion by its evaluation, which a command's kCollect ends, a
// command by its sequence number, whose answer is kept for whoever asks again. Deterministic: two that are
// told the same in the same order are the same. Not thread safe.
class VectorSlice {
 public:
  struct Options {
    std::size_t vectors = 1;
    std::int64_t portions = 1;  // of an evaluation
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
  // Whether add() would change anything. Throws Error(kBadInput) for one that cannot be yet.
  bool is_new(const Portion& portion) const;
  void add(const Portion& portion);  // that is new

  bool is_new(std::int64_t sequence) const { return sequence >= next_; }
  // Throws Error(kBadInput), before anything has changed: a command before its turn, or one that collects
  // what is not complete.
  void require_possible(std::int64_t sequence, std::span<const Operation> operations) const;
  // The numbers of a command that is new and possible; or what it gave before.
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations, float* point);

  std::int64_t evaluation() const { return evaluation_; }
  const PortionSum& sum() const { return sum_; }

  // All of it but the point, for another who is to go on with it.
  std::vector<std::int64_t> words() const;
  std::vector<std::vector<float>> arrays() const;
  // Throws Error(kBadInput) for words that do not fit the arrays.
  void install(const std::vector<std::int64_t>& words, std::vector<std::vector<float>> arrays);
  // Most arrays that there can be.
  static std::size_t most_arrays(const Options& options) {
    return options.vectors + std::size_t(options.portions);
  }

 private:
  Options options_;
  std::vector<std::vector<float>> vectors_;  // from number 1 on
  PortionSum sum_;
  std::int64_t evaluation_ = 0;
  std::int64_t next_ = 0;                                // sequence number
  std::map<std::int64_t, std::vector<double>> answers_;  // of the last commands
};

}  // namespace distbelief::compute
