#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distbelief/compute/layout.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/mesh/mesh.h"
#include "distbelief/model/network.h"

namespace distbelief::mesh {

// What one stage holds: a run of the network's blocks.
struct StageOutline {
  model::BlockRange blocks;
  std::vector<compute::Layout::Parameter> parameters{};  // that it updates
  std::vector<std::string> tied{};  // parameters that it reads and an earlier stage updates
  std::size_t first_parameter = 0;  // among those of the whole network
  std::size_t first_buffer = 0;     // in floats of running statistics
  std::size_t buffers = 0;
  std::vector<std::size_t> offsets{};  // of each parameter in the arena of the whole network, in elements
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

// Where so many stages end, as rank 0 chooses. Collective; all throw what `choose` throws.
std::vector<int> agree_on_ends(World& world, int stages, const std::function<Cuts()>& choose);

// A stage that this worker holds, or its slices of one, and how those who hold the same share its training.
struct Stage {
  int index = 0;  // of all stages
  const StageOutline* outline = nullptr;
  std::shared_ptr<model::Network> network;  // its parameters are the group's, but for tied ones
  std::unique_ptr<AllreduceGroup> group{};
  // Of the outline's parameters, what is here.
  std::vector<compute::Layout::Parameter> parameters{};
  std::vector<Slice> slices{};
  // Of a tensor that is not sliced the first of a tensor group speaks for all.
  bool leads_group = true;

  bool speaks_for(std::size_t parameter) const { return leads_group || !slices[parameter].is_whole(); }
};
// A null network is made later, whole.
Stage make_stage(int index, const StageOutline& outline, std::shared_ptr<model::Network> network,
                 const model::TensorGroup* group);

// Where floats of a stage lie in the same array of the whole network: runs that follow one another here and
// are `stride` apart there.
struct StageRuns {
  static constexpr std::size_t kNowhere = std::size_t(-1);
  std::size_t local = 0;  // kNowhere: zeros between two parameters
  std::size_t whole = 0;
  std::size_t count = 0;  // of one run
  std::size_t runs = 1;
  std::size_t stride = 0;
};
enum class Which { kAll, kSpokenFor };
// Of the arena, those that `peers`, who hold the same, leave to this worker.
std::vector<StageRuns> arena_runs(const Stage& stage, const World& peers, Which which);
// Of the running statistics, as compute::BufferSet has them.
std::vector<StageRuns> buffer_runs(const Stage& stage, Which which);
// Copies them out of an array of the whole network.
void copy_runs(std::span<const StageRuns> runs, const float* whole, float* local);
// Copies them into one; zeros for what is nowhere here.
void write_runs(std::span<const StageRuns> runs, const float* local, float* whole);

// Bytes of the largest array that goes from stage to stage, found out by an input that goes through all of
// them. Collective; leaves the networks in training mode.
std::size_t largest_array(std::span<const Stage> stages, const Mesh& mesh, World& world,
                          const torch::Tensor& input);

// How many updates each parameter of the whole network has had. Collective over all workers where the network
// is cut; `peers` are those who hold the same stages.
std::vector<std::int64_t> update_counts(std::span<const Stage> stages, const NetworkOutline& outline,
                                        World& world, const World& peers);

}  // namespace distbelief::mesh
