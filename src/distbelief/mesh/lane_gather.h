#pragma once

#include <memory>
#include <optional>

#include "distbelief/compute/gathered_arena.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/mesh/block_passes.h"
#include "distbelief/model/network.h"

namespace distbelief::mesh {

// Where the parameters of each block lie in the arena. Borrowed ones count for both blocks.
std::vector<std::vector<compute::Span>> block_spans(model::Network& network, const compute::Layout& layout);

// How a pass goes over the network.
enum class Course {
  kOnce,   // each block once forward, and once back
  kOften,  // any number of times: hosts gather all blocks for the whole pass
};
// What hosts gather at a time, in the order of forward.
std::vector<std::vector<compute::Span>> gathered_spans(model::Network& network, const compute::Layout& layout,
                                                       Course course);

// Has the parameters of a network in memory block by block: just before a block runs forward they are
// fetched, and again before its backward; the next block's are fetched meanwhile. The network's parameters
// must be views into arena(). A pass lies between begin() and finish(). Used by the thread that runs the
// network.
class LaneGather final : public model::BlockWatch {
 public:
  struct Options {
    model::Network* network = nullptr;
    const compute::Layout* layout = nullptr;
    float* shared = nullptr;  // the host's arena
    // As in GatheredArena; null: blocks are used where the host has them.
    std::function<void(compute::Span from, float* to)> fetch{};
    BlockPasses* passes = nullptr;  // of blocks that the host gathers from others; may be null
    Course course = Course::kOnce;
  };
  explicit LaneGather(const Options& options);
  ~LaneGather() override;

  float* arena() const { return arena_ ? arena_->data() : options_.shared; }
  torch::Tensor enter(int block, torch::Tensor input) override;
  torch::Tensor leave(int block, torch::Tensor output) override;
  void begin(Pass pass);
  // Nothing is held any more.
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

// What a group's parameters need to be there for a network; null: they always are. Its passes are the
// thread's.
std::unique_ptr<LaneGather> make_gather(AllreduceGroup& group, model::Network& network, int thread,
                                        Course course = Course::kOnce);

}  // namespace distbelief::mesh
