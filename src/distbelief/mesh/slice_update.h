#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "distbelief/compute/optimizer.h"
#include "distbelief/mesh/shared_state.h"
#include "distbelief/mesh/sharing.h"

namespace distbelief::mesh {

// The gradient over a span of the arena, summed over all lanes.
struct SummedSlice {
  compute::Span span;
  const float* sums = nullptr;  // points at span.begin
};

// Applies the optimizer to the slices that a carrier owns, and first measures the norms that clipping and
// layerwise optimizers need. Norms lie in shared memory: the caller must synchronize all carriers between a
// measure_...() and its add_up_...(). One per carrier, used by its thread.
class SliceUpdate {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    SharedState* state = nullptr;
    const compute::Optimizer* optimizer = nullptr;
    int carriers = 1;  // carriers of this host
    int hosts = 1;
    std::vector<double> lr_factors{};  // factor on the step's learning rate per parameter; empty: 1
    // Adds the squared norms per parameter of other groups with parts of the same layers; may be empty.
    std::function<void(std::span<double>)> join_layers = {};
  };
  explicit SliceUpdate(Options options);

  // `round` counts the steps of this run, as SharedState does.
  void begin_step(std::int64_t round, const StepPlan& plan);
  // Updates one block of the arena that starts at `begin`.
  void update_block(std::size_t begin, const float* gradients);
  // Counts one more update for every parameter that had a gradient.
  void end_step();

  void measure_gradients(std::span<const SummedSlice> slices);
  std::vector<double> add_up_gradients() const;  // squared norms per parameter
  // Sets the factor on all further gradients of this step.
  void scale_gradients(float factor) { factor_ = factor; }

  bool is_layerwise() const { return layerwise_ != nullptr; }
  void measure_layers(std::span<const SummedSlice> slices);
  void add_up_layers();

  const std::vector<std::int64_t>& counts() const { return counts_; }  // updates per parameter
  void set_counts(const std::vector<std::int64_t>& counts) { counts_ = counts; }

 private:
  template <typename Visit>
  void for_each_segment(std::span<const SummedSlice> slices, const Visit& visit) const;
  bool touched(int parameter) const;
  const float* scaled(const float* gradients, std::size_t count);
  compute::UpdateRange range_of(const compute::Segment& segment, const float* gradients) const;

  Options options_;
  const compute::LayerwiseOptimizer* layerwise_;
  std::size_t states_;  // number of optimizer arrays
  std::int64_t round_ = -1;
  double lr_ = 0;
  float factor_ = 1;
  std::vector<double> trust_;
  std::vector<std::int64_t> counts_;
  std::vector<float> scratch_;  // one block
};

}  // namespace distbelief::mesh
