#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distbelief/checkpoint/tensor_index.h"
#include "distbelief/compute/layout.h"
#include "distbelief/model/network.h"
#include "distbelief/strategy/allreduce_group.h"

namespace distbelief::train {

// What one stage holds: a run of the network's blocks.
struct StageOutline {
  model::BlockRange blocks;
  std::vector<compute::Layout::Parameter> parameters{};  // that it updates
  std::vector<std::string> tied{};  // parameters that it reads and an earlier stage updates
  std::size_t first_parameter = 0;  // among those of the whole network
  std::size_t first_buffer = 0;     // in floats of running statistics
  std::size_t buffers = 0;
  std::size_t arena_begin = 0;  // where its arena lies in that of the whole network, in elements
  std::size_t arena_size = 0;
};

// A network and its stages, the same in every process.
struct NetworkOutline {
  std::vector<compute::Layout::Parameter> parameters;  // of the whole, as if one process held it
  std::size_t buffers = 0;                             // in floats
  std::vector<std::string> buffer_names;
  std::vector<StageOutline> stages;
};

// Of a network that one process holds whole.
NetworkOutline outline_of(const model::Network& network);
// Of one that is cut: stage s ends before block ends[s]. Makes the blocks one after another and forgets them.
NetworkOutline outline_of(const model::Blueprint& blueprint, std::span<const int> ends, std::uint64_t seed);

// A stage that this worker holds, and how those who hold the same one share its training.
struct Stage {
  int index = 0;  // of all stages
  const StageOutline* outline = nullptr;
  std::shared_ptr<model::Network> network;  // its parameters are the group's, but for tied ones
  std::unique_ptr<strategy::AllreduceGroup> group;
};

// Its parameters where they live for good. Whoever reads them one after another has few of the pages that
// other workers keep in its own memory at a time, when parameters are shared out.
std::vector<checkpoint::TensorView> weight_views(const Stage& stage);
// What such a reader calls after each (TensorView::done); null: nothing.
using DoneWithTensor = void (*)(const checkpoint::TensorView& view);
DoneWithTensor done_with(const Stage& stage);

// How many updates each parameter of the whole network has had. Collective over all workers where the network
// is cut; `peers` are those who hold the same stages.
std::vector<std::int64_t> update_counts(std::span<const Stage> stages, const NetworkOutline& outline,
                                        World& world, const World& peers);

}  // namespace distbelief::train
