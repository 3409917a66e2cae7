#pragma once

#include <memory>

#include "distbelief/compute/gathered_arena.h"
#include "distbelief/model/network.h"

namespace distbelief::train {

// Where the parameters of each block lie in the arena. Borrowed ones count for both blocks.
std::vector<std::vector<compute::Span>> block_spans(model::Network& network, const compute::Layout& layout);

// Has the parameters of a network in memory block by block: just before a block runs forward they are
// fetched, and again before its backward; the next block's are fetched meanwhile. The network's parameters
// must be views into arena(). Used by the thread that runs the network.
class LaneGather final : public model::BlockWatch {
 public:
  // `fetch` as in GatheredArena.
  LaneGather(model::Network& network, const compute::Layout& layout,
             std::function<void(compute::Span from, float* to)> fetch);
  ~LaneGather() override;

  float* arena() const { return arena_.data(); }
  torch::Tensor enter(int block, torch::Tensor input) override;
  torch::Tensor leave(int block, torch::Tensor output) override;
  // After backward: nothing is held any more.
  void finish() { arena_.release_all(); }

 private:
  class AtBackward;
  void begin_backward(int block);
  bool is_last(int block) const { return block + 1 == network_.range().end; }
  int index(int block) const { return block - network_.range().begin; }

  model::Network& network_;
  compute::GatheredArena arena_;
};

}  // namespace distbelief::train
