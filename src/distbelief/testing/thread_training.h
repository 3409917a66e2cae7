#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/comm/communicator.h"
#include "distbelief/compute/layout.h"
#include "distbelief/mesh/allreduce.h"

// A few steps of synthetic training with threads as carriers and groups of threads as hosts.
namespace distbelief::testing {

struct TrainingJob {
  OptimizerConfig optimizer;
  std::vector<double> lr_factors;  // per parameter; empty: all 1
  double clip_norm = 0;
  mesh::Overlap overlap = mesh::Overlap::kOff;
  comm::Algorithm algorithm = comm::Algorithm::kDirect;
  std::int64_t lanes = 4;
  std::vector<std::int64_t> lanes_of_carriers;  // empty: as even as possible
  int zero = 1;
  std::int64_t steps = 4;
  std::size_t buffers = 3;
  std::size_t bucket_bytes = 4096;
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
  // Whether a lane has samples in a step, and whether it contributes a gradient to a parameter.
  std::function<bool(std::int64_t step, std::int64_t lane)> occupied = [](auto, auto) { return true; };
  std::function<bool(std::int64_t step, std::int64_t lane, int parameter)> gives = [](auto, auto, auto) {
    return true;
  };
};

// The values that must be equal on every carrier of every host (the harness checks this), and the first
// host's state.
struct TrainingOutcome {
  std::vector<float> parameters;
  std::vector<std::vector<float>> states;
  std::vector<std::int64_t> update_counts;
  std::vector<float> mean_buffers;
  double gradient_norm = 0;

  bool operator==(const TrainingOutcome&) const = default;
};

std::string to_string(mesh::Overlap overlap);

// Several buckets and blocks, irregular sizes, one parameter of a single element.
const std::vector<compute::Layout::Parameter>& training_parameters();
// The initial parameters.
std::vector<float> first_parameters(const compute::Layout& layout);

// The gradient of a lane. It depends on (step, lane, parameter) and on the parameter's present value in
// `arena`, so an early update changes the outcome.
std::vector<float> lane_gradient(const compute::Layout& layout, const float* arena, std::int64_t step,
                                 std::int64_t lane, int parameter);
inline constexpr double kTrainingRate = 0.05;

// Trains with carriers_per_host[h] threads on host h. Throws the exception of the failed carrier with the
// lowest rank.
TrainingOutcome train_on_threads(const TrainingJob& job, const std::vector<int>& carriers_per_host);

}  // namespace distbelief::testing
