#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/operation.h"
#include "distbelief/compute/line_search.h"

namespace distbelief::compute {

// Where the vectors of a batch method are: in slices on parameter servers, or in this process. Operations are
// done by who has them; only numbers come here.
class VectorStore {
 public:
  virtual ~VectorStore() = default;
  // Does a command; one that was done before, by its sequence number, only gives its numbers again. Blocks;
  // throws Error.
  virtual std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations) = 0;
};

struct LbfgsOptions {
  std::int64_t history = 10;     // pairs of differences
  double weight_decay = 0;       // the loss has half of it times the squared norm of the parameters
  double tolerance = 0;          // ends where the gradient's norm is no larger
  std::int64_t evaluations = 0;  // most of them
};

// Vectors by number.
inline constexpr std::int32_t kPoint = 0;     // where gradients are computed
inline constexpr std::int32_t kBase = 1;      // the best point so far, where the search began
inline constexpr std::int32_t kGradient = 2;  // there
inline constexpr std::int32_t kDirection = 3;
inline constexpr std::int32_t kNewGradient = 4;  // at the point
inline constexpr std::int32_t kFirstPair = 5;    // differences of points and of gradients, in turn
inline constexpr std::int64_t kMostHistory = 20;
inline std::size_t lbfgs_vectors(std::int64_t history) { return std::size_t(kFirstPair + 2 * history); }

// What the method knows between two evaluations: numbers alone.
struct LbfgsState {
  enum class End { kNot, kConverged, kNoProgress, kEvaluations };
  End end = End::kNot;
  std::int64_t sequence = 0;     // of the next command
  std::int64_t evaluations = 0;  // done
  std::int64_t iterations = 0;   // points that were accepted after the first
  double loss = 0;               // at the base, as is the next
  double gradient_norm = 0;
  double step = 0;           // that is being tried
  std::int64_t pairs = 0;    // in use
  std::int64_t newest = -1;  // place of the last one
  LineSearch search{};
  std::vector<double> dots{};  // of all pairs and the gradient with each other: see dot_at()

  std::vector<double> numbers() const;
  // No numbers: the beginning. Throws Error(kBadInput) for numbers that are none of these.
  static LbfgsState from(std::span<const double> numbers, const LbfgsOptions& options);
};
std::string describe(LbfgsState::End end);

// L-BFGS as a series of commands (Dean et al., Large Scale Distributed Deep Networks, section 4.2), with the
// two-loop recursion done on the dot products of the vectors instead of the vectors themselves (Chen et al.,
// Large-scale L-BFGS using MapReduce, 2014): four commands an iteration, however long the history. An
// evaluation at the point is complete; leaves the next point to evaluate, or at the end the best one. The
// same state gives the same commands: whoever begins again where another was lost repeats them harmlessly.
LbfgsState advance(const LbfgsState& state, const LbfgsOptions& options, VectorStore& store);

// The coefficients of the direction in s_0, y_0, s_1, y_1, ..., gradient: minus the inverse Hessian's guess
// times the gradient. `order`: places of the pairs, oldest first; `dots`: all products of these vectors, by
// row. Pure.
std::vector<double> direction_coefficients(std::span<const std::int64_t> order, std::size_t places,
                                           std::span<const double> dots);

}  // namespace distbelief::compute
