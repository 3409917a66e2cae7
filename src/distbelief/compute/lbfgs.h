#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/operation.h"
#include "distbelief/compute/line_search.h"

namespace distbelief::compute {

// The vectors of a batch method: in slices on parameter servers, or in this process. Operations run where the
// vectors are; only numbers come back.
class VectorStore {
 public:
  virtual ~VectorStore() = default;
  // Runs a command. A sequence number that has run before only returns its numbers again. Blocks; throws
  // Error.
  virtual std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations) = 0;
};

struct LbfgsOptions {
  std::int64_t history = 10;     // pairs of differences
  double weight_decay = 0;       // the loss includes half of it times the squared norm of the parameters
  double tolerance = 0;          // stop when the gradient's norm is at most this
  std::int64_t evaluations = 0;  // limit
};

// Indices of the vectors.
inline constexpr std::int32_t kPoint = 0;     // where gradients are computed
inline constexpr std::int32_t kBase = 1;      // the best point so far, where the search began
inline constexpr std::int32_t kGradient = 2;  // at the base
inline constexpr std::int32_t kDirection = 3;
inline constexpr std::int32_t kNewGradient = 4;  // at the point
inline constexpr std::int32_t kFirstPair = 5;    // differences of points and of gradients alternate
inline constexpr std::int64_t kMostHistory = 20;
inline std::size_t lbfgs_vectors(std::int64_t history) { return std::size_t(kFirstPair + 2 * history); }

// State of the method between two evaluations: numbers only.
struct LbfgsState {
  enum class End { kNot, kConverged, kNoProgress, kEvaluations };
  End end = End::kNot;
  std::int64_t sequence = 0;     // of the next command
  std::int64_t evaluations = 0;  // done
  std::int64_t iterations = 0;   // accepted points after the first
  double loss = 0;               // at the base, like gradient_norm
  double gradient_norm = 0;
  double step = 0;           // the step under trial
  std::int64_t pairs = 0;    // in use
  std::int64_t newest = -1;  // place of the newest pair
  LineSearch search{};
  std::vector<double> dots{};  // products of all pairs and the gradient with each other: see dot_at()

  std::vector<double> numbers() const;
  // No numbers give the initial state. Throws Error(kBadInput) for numbers that do not describe a state.
  static LbfgsState from(std::span<const double> numbers, const LbfgsOptions& options);
};
std::string describe(LbfgsState::End end);

// L-BFGS as a series of commands (Dean et al., Large Scale Distributed Deep Networks, section 4.2). The
// two-loop recursion runs on the dot products of the vectors instead of the vectors themselves (Chen et al.,
// Large-scale L-BFGS using MapReduce, 2014): four commands per iteration for any length of history. Called
// after a complete evaluation at the point; sets the point to evaluate next, or at the end to the best one.
// The same state gives the same commands, so a restarted coordinator repeats them harmlessly.
LbfgsState advance(const LbfgsState& state, const LbfgsOptions& options, VectorStore& store);

// Coefficients of the direction in s_0, y_0, s_1, y_1, ..., gradient: minus the estimated inverse Hessian
// times the gradient. `order`: places of the pairs, oldest first; `dots`: all products of these vectors, by
// row. Pure.
std::vector<double> direction_coefficients(std::span<const std::int64_t> order, std::size_t places,
                                           std::span<const double> dots);

}  // namespace distbelief::compute
