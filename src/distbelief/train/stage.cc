#include "distbelief/train/stage.h"

#include <set>

#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/train/state_file.h"

namespace distbelief::train {
namespace {

// Parameters begin on blocks, so that a stage's arena is a run of the whole one's.
void place_stages(NetworkOutline& outline) {
  const compute::Layout whole(outline.parameters, 1);
  for (StageOutline& stage : outline.stages) {
    if (stage.parameters.empty()) continue;
    const std::size_t last = stage.first_parameter + stage.parameters.size() - 1;
    stage.arena_begin = whole.entries()[last].offset;
    stage.arena_size = compute::Layout(stage.parameters, 1).size();
  }
}

// The parameters of one more stage, whose blocks hold these.
void add_parameters(NetworkOutline& outline, StageOutline& stage, const model::Network& blocks,
                    std::set<std::string>& known) {
  for (compute::Layout::Parameter& parameter : compute::trainable_parameters(blocks)) {
    const auto own = [&](const compute::Layout::Parameter& each) { return each.name == parameter.name; };
    if (std::any_of(stage.parameters.begin(), stage.parameters.end(), own)) continue;
    if (!known.insert(parameter.name).second) {
      stage.tied.push_back(parameter.name);
      continue;
    }
    outline.parameters.push_back(parameter);
    stage.parameters.push_back(std::move(parameter));
  }
  const std::size_t buffers = compute::BufferSet(blocks).size();
  for (const auto& buffer : blocks.named_buffers()) outline.buffer_names.push_back(buffer.key());
  stage.buffers += buffers;
  outline.buffers += buffers;
}

}  // namespace

NetworkOutline outline_of(const model::Network& network) {
  NetworkOutline outline;
  std::set<std::string> known;
  outline.stages.push_back({.blocks = network.range()});
  add_parameters(outline, outline.stages.back(), network, known);
  place_stages(outline);
  return outline;
}

NetworkOutline outline_of(const model::Blueprint& blueprint, std::span<const int> ends, std::uint64_t seed) {
  NetworkOutline outline;
  std::set<std::string> known;
  int begin = 0;
  for (const int end : ends) {
    StageOutline stage{.blocks = {begin, end},
                       .first_parameter = outline.parameters.size(),
                       .first_buffer = outline.buffers};
    for (int block = begin; block < end; ++block)
      add_parameters(outline, stage, model::Network(blueprint, {block, block + 1}, seed), known);
    outline.stages.push_back(std::move(stage));
    begin = end;
  }
  place_stages(outline);
  return outline;
}

DoneWithTensor done_with(const Stage& stage) {
  if (!stage.group->shares_out_parameters()) return nullptr;
  return [](const checkpoint::TensorView& view) { comm::unmap_pages(view.data, view.byte_count()); };
}

std::vector<checkpoint::TensorView> weight_views(const Stage& stage) {
  std::vector<checkpoint::TensorView> views =
      parameter_views(*stage.network, stage.group->layout(), stage.group->parameters());
  for (checkpoint::TensorView& view : views) view.done = done_with(stage);
  return views;
}

std::vector<std::int64_t> update_counts(std::span<const Stage> stages, const NetworkOutline& outline,
                                        World& world, const World& peers) {
  std::vector<std::int64_t> counts(outline.parameters.size());
  for (const Stage& stage : stages) {
    const std::vector<std::int64_t>& own = stage.group->sharing(0).update_counts();
    if (peers.rank() == 0 || outline.stages.size() == 1)
      std::copy(own.begin(), own.end(), counts.begin() + std::ptrdiff_t(stage.outline->first_parameter));
  }
  if (outline.stages.size() > 1)
    world.communicator().allreduce(comm::view(counts.data(), counts.size()), comm::ReduceOp::kSum);
  return counts;
}

}  // namespace distbelief::train
