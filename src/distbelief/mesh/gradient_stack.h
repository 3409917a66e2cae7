#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "distbelief/compute/layout.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::mesh {

// How gradients are kept when every carrier keeps its own whole (see GradientWindow for when none does): each
// lane's goes on a stack of buffers in shared memory, and is merged with those below it as the tree of lanes
// has it, in one pass. Owners of slices then add up what the carriers' stacks hold. One carrier's object,
// used by its thread.
class GradientStack {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    SharedState* state = nullptr;
    int host = 0;
    int carrier = 0;  // of the host
    // This carrier's gradients of all buckets below `buckets` are final.
    std::function<void(int buckets)> filled;
  };
  explicit GradientStack(Options options);

  void begin_step();
  void begin_lane(std::int64_t lane);
  // Where a gradient of the current lane may be written before it is put; null when it is to be merged.
  float* place(int parameter);
  // A gradient of the current lane; null: it is zero.
  void put(int parameter, const float* values);

  int nodes() const { return int(host().nodes.size()); }  // of the tree, that this host hands to the others
  // One block of a node's sum, valid until the next call.
  const float* sum(int node, std::size_t at);
  // Fetches what sum(node, at) reads of the others' memory into the cache.
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
  int slot_ = 0;              // where this lane's gradient goes
  int merges_ = 0;            // and how often it is merged downwards
  std::vector<int> pending_;  // parameters that a bucket still waits for in the last lane
  int filled_ = 0;
  std::vector<float> scratch_;
  std::vector<const float*> inputs_;
};

}  // namespace distbelief::mesh
