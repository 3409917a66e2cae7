#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "distbelief/compute/optimizer.h"
#include "distbelief/mesh/shared_state.h"
#include "distbelief/mesh/sharing.h"

namespace distbelief::mesh {

// The gradient over a run of the arena, summed over all lanes.
struct SummedSlice {
  compute::Span span;
  const float* sums = nullptr;  // from span.begin on
};

// What becomes of summed gradients: applies the optimizer to the slices that a carrier owns, and before that
// measures what clipping and layerwise optimizers need. Norms lie in shared memory: between a measure_...()
// and its add_up_...() all carriers meet, which is the caller's. One carrier's object, used by its thread.
class SliceUpdate {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    SharedState* state = nullptr;
    const compute::Optimizer* optimizer = nullptr;
    int carriers = 1;  // of this host
    int hosts = 1;
    std::vector<double> lr_factors{};  // per parameter, of the step's learning rate; empty: 1
    // Adds up what other groups have of the same layers: squared norms per parameter; may be empty.
    std::function<void(std::span<double>)> join_layers = {};
  };
  explicit SliceUpdate(Options options);

  // `round` counts the steps of this run, as SharedState does.
  void begin_step(std::int64_t round, const StepPlan& plan);
  // One block of the arena, from `begin` on.
  void update_block(std::size_t begin, const float* gradients);
  // Every parameter that had a gradient has had one more update.
  void end_step();

  void measure_gradients(std::span<const SummedSlice> slices);
  std::vector<double> add_up_gradients() const;  // squared norms per parameter
  // From here on gradients count so many times.
  void scale_gradients(float factor) { factor_ = factor; }

  bool is_layerwise() const { return layerwise_ != nullptr; }
  void measure_layers(std::span<const SummedSlice> slices);
  void add_up_layers();

  const std::vector<std::int64_t>& counts() const { return counts_; }  // of updates, per parameter
  void set_counts(const std::vector<std::int64_t>& counts) { counts_ = counts; }

 private:
  template <typename Visit>
  void for_each_segment(std::span<const SummedSlice> slices, const Visit& visit) const;
  bool touched(int parameter) const;
  const float* scaled(const float* gradients, std::size_t count);
  compute::UpdateRange range_of(const compute::Segment& segment, const float* gradients) const;

  Options options_;
  const compute::LayerwiseOptimizer* layerwise_;
  std::size_t states_;  // optimizer arrays
  std::int64_t round_ = -1;
  double lr_ = 0;
  float factor_ = 1;
  std::vector<double> trust_;
  std::vector<std::int64_t> counts_;
  std::vector<float> scratch_;  // a block
};

}  // namespace distbelief::mesh
