#pragma once

#include <memory>
#include <optional>

#include "distbelief/compute/gathered_arena.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/mesh/block_passes.h"
#include "distbelief/model/network.h"

namespace distbelief::mesh {

// The spans of each block's parameters in the arena. A borrowed parameter belongs to both blocks.
std::vector<std::vector<compute::Span>> block_spans(model::Network& network, const compute::Layout& layout);

// How a pass visits the blocks of a network.
enum class Course {
  kOnce,   // each block once forward and once backward
  kOften,  // any number of times: hosts gather all blocks for the whole pass
};
// The spans that hosts gather together, in the order of forward.
std::vector<std::vector<compute::Span>> gathered_spans(model::Network& network, const compute::Layout& layout,
                                                       Course course);

// Keeps the parameters of a network in memory block by block: fetches a block's parameters before its forward
// and again before its backward, and prefetches the next block. The network's parameters must be views into
// arena(). A pass runs from begin() to finish(). Used by the thread that runs the network.
class LaneGather final : public model::BlockWatch {
 public:
  struct Options {
    model::Network* network = nullptr;
    const compute::Layout* layout = nullptr;
    float* shared = nullptr;  // the host's arena
    // As in GatheredArena; null: blocks are used in the host's arena.
    std::function<void(compute::Span from, float* to)> fetch{};
    BlockPasses* passes = nullptr;  // for blocks that the host gathers from other hosts; may be null
    Course course = Course::kOnce;
  };
  explicit LaneGather(const Options& options);
  ~LaneGather() override;

  float* arena() const { return arena_ ? arena_->data() : options_.shared; }
  torch::Tensor enter(int block, torch::Tensor input) override;
  torch::Tensor leave(int block, torch::Tensor output) override;
  void begin(Pass pass);
  // Releases all blocks.
  void finish();

 private:
  class AtBackward;
  void begin_backward(int block);
  void end_backward(int block);
  void hold(int block, int place, int next);
  void release(int block, int place);
  int index(int block) const { return block - options_.network->range().begin; }
  int blocks() const { return options_.network->range().size(); }

  Options options_;
  std::optional<compute::GatheredArena> arena_;
  Pass pass_ = Pass::kForward;
};

// Makes the LaneGather that a network needs for a group; null when all parameters are always in memory.
// `thread` selects the group's passes.
std::unique_ptr<LaneGather> make_gather(AllreduceGroup& group, model::Network& network, int thread,
                                        Course course = Course::kOnce);

}  // namespace distbelief::mesh
