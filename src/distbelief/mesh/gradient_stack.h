#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "distbelief/compute/layout.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::mesh {

// Stores gradients when every carrier keeps its own whole (otherwise see GradientWindow). Each lane's
// gradient is pushed on a stack of buffers in shared memory and merged in one pass with those below it, as
// the tree of lanes prescribes. Owners of slices then sum the stacks of all carriers. One per carrier, used
// by its thread.
class GradientStack {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    SharedState* state = nullptr;
    int host = 0;
    int carrier = 0;  // index on the host
    // Called when this carrier's gradients of all buckets below `buckets` are final.
    std::function<void(int buckets)> filled;
  };
  explicit GradientStack(Options options);

  void begin_step();
  void begin_lane(std::int64_t lane);
  // Buffer into which a gradient of the current lane may be written before put(); null when the gradient is
  // merged instead.
  float* place(int parameter);
  // Stores a gradient of the current lane; null means zero.
  void put(int parameter, const float* values);

  int nodes() const { return int(host().nodes.size()); }  // tree nodes that this host hands to other hosts
  // One block of a node's sum; valid until the next call.
  const float* sum(int node, std::size_t at);
  // Prefetches the other carriers' memory that sum(node, at) reads.
  void expect(int node, std::size_t at) const;

 private:
  float* buffer(int slot, int parameter) const;
  void store(int parameter, const float* values);
  const Host& host() const { return options_.plan->hosts[std::size_t(options_.host)]; }
  const Carrier& carrier() const {
    return options_.plan->carriers[std::size_t(host().first_carrier + options_.carrier)];
  }

  Options options_;
  int buckets_;
  std::int64_t lane_ = 0;
  int slot_ = 0;              // stack slot of this lane's gradient
  int merges_ = 0;            // merges after this lane
  std::vector<int> pending_;  // per bucket: parameters missing in the last lane
  int filled_ = 0;
  std::vector<float> scratch_;
  std::vector<const float*> inputs_;
};

}  // namespace distbelief::mesh
