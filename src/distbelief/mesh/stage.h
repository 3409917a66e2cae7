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

// The contents of one stage: consecutive blocks of the network.
struct StageOutline {
  model::BlockRange blocks;
  std::vector<compute::Layout::Parameter> parameters{};  // parameters that it updates
  std::vector<std::string> tied{};  // parameters that it reads and an earlier stage updates
  std::size_t first_parameter = 0;  // index in the whole network
  std::size_t first_buffer = 0;     // in floats of the whole network's running statistics
  std::size_t buffers = 0;
  std::vector<std::size_t> offsets{};  // of each parameter in the whole network's arena, in elements
};

// A network and its stages, the same in every process.
struct NetworkOutline {
  std::vector<compute::Layout::Parameter> parameters;  // of the whole network, as in one process
  std::size_t buffers = 0;                             // in floats
  std::vector<std::string> buffer_names;
  std::vector<StageOutline> stages;
};

// The outline of a network that one process holds whole.
NetworkOutline outline_of(const model::Network& network);
// The outline of a network cut into stages: stage s ends before block ends[s]. Builds the blocks one at a
// time and frees each.
NetworkOutline outline_of(const model::Blueprint& blueprint, std::span<const int> ends, std::uint64_t seed);

// The ends of the stages, as chosen by rank 0. Collective; all ranks throw what `choose` throws.
std::vector<int> agree_on_ends(World& world, int stages, const std::function<Cuts()>& choose);

// A stage, or slices of one, that this worker holds, with the group that trains it.
struct Stage {
  int index = 0;  // among all stages
  const StageOutline* outline = nullptr;
  std::shared_ptr<model::Network> network;  // its parameters are views into the group's, except tied ones
  std::unique_ptr<AllreduceGroup> group{};
  // The outline's parameters that this worker holds.
  std::vector<compute::Layout::Parameter> parameters{};
  std::vector<Slice> slices{};
  // The first worker of a tensor group answers for tensors that are not sliced.
  bool leads_group = true;

  bool speaks_for(std::size_t parameter) const { return leads_group || !slices[parameter].is_whole(); }
};
// A null network is made later, whole.
Stage make_stage(int index, const StageOutline& outline, std::shared_ptr<model::Network> network,
                 const model::TensorGroup* group);

// Maps floats of a stage to the same array of the whole network: runs that are contiguous in the stage and
// `stride` apart in the whole.
struct StageRuns {
  static constexpr std::size_t kNowhere = std::size_t(-1);
  std::size_t local = 0;  // kNowhere: zeros between two parameters
  std::size_t whole = 0;
  std::size_t count = 0;  // floats per run
  std::size_t runs = 1;
  std::size_t stride = 0;
};
enum class Which { kAll, kSpokenFor };
// The runs of the arena that this worker handles; `peers` hold the same stage and handle the rest.
std::vector<StageRuns> arena_runs(const Stage& stage, const World& peers, Which which);
// The same for one of `parts` workers that share the arena out.
std::vector<StageRuns> arena_runs(const Stage& stage, int part, int parts, Which which);
// The runs of the running statistics, in the order of compute::BufferSet.
std::vector<StageRuns> buffer_runs(const Stage& stage, Which which);
// Copies runs from an array of the whole network.
void copy_runs(std::span<const StageRuns> runs, const float* whole, float* local);
// Copies the elements of runs that are in `some`, which is the array of the whole network from `begin` on.
void copy_runs(std::span<const StageRuns> runs, std::span<const float> some, std::size_t begin, float* local);
// Copies runs into an array of the whole network; writes zeros for kNowhere.
void write_runs(std::span<const StageRuns> runs, const float* local, float* whole);

// Bytes of the largest array that goes from stage to stage, measured by sending an input through all stages.
// Collective; leaves the networks in training mode.
std::size_t largest_array(std::span<const Stage> stages, const Mesh& mesh, World& world,
                          const torch::Tensor& input);

// Number of updates of each parameter of the whole network. Collective over all workers when the network is
// cut; `peers` hold the same stages.
std::vector<std::int64_t> update_counts(std::span<const Stage> stages, const NetworkOutline& outline,
                                        World& world, const World& peers);

}  // namespace distbelief::mesh
