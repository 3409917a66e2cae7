#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::replica {

struct PartitionOptions {
  data::EpochPlan epochs{};                // of the job
  std::optional<TreeNode> lanes{};         // that this replica carries of the job's; nothing: all
  int sub_network = -1;                    // the replica trains this one of a decomposed model; -1: the whole
  std::filesystem::path measured_costs{};  // file of the blocks' costs, which choose the cuts
};

// How the network of a job lies on the workers of one replica: the mesh, the worlds of those who share a
// stage or a layer, and the stages that this worker holds. Made by all workers of the replica together; the
// world and the job outlive it.
class Partition {
 public:
  Partition(World& world, run::PreparedJob& job, const PartitionOptions& options);

  // The network lies on several workers.
  bool is_cut() const { return plan_.mesh.pipeline * plan_.mesh.tensor > 1; }
  const run::PipelinePlan& plan() const { return plan_; }
  const mesh::NetworkOutline& outline() const { return outline_; }
  std::vector<mesh::Stage>& stages() { return stages_; }
  const std::vector<mesh::Stage>& stages() const { return stages_; }
  // The workers that hold the same stages.
  World& peers() { return peers_ ? *peers_ : world_; }
  // The same workers once more for each further stage, so that the stages' exchanges run side by side.
  World& peers_of(std::size_t stage) { return stage == 0 ? peers() : further_peers_[stage - 1]; }
  // The workers that hold slices of the same tensors; null: tensors are not sliced.
  World* tensor_world() { return tensor_world_ ? &*tensor_world_ : nullptr; }
  model::TensorGroup* tensor_group() const { return tensor_group_.get(); }
  // Bytes of the largest array that goes from one stage to another.
  std::size_t array_bytes() const { return array_bytes_; }
  // Adds up the norms of layers whose slices the tensor group holds. Collective over that group.
  void add_up_layers(const mesh::Stage& stage, std::span<double> norms);

 private:
  void hold_whole(const PartitionOptions& options);
  void split_worlds(const mesh::MeshPlace& own);
  void hold_stages(const PartitionOptions& options, const mesh::MeshPlace& own);
  std::vector<int> choose_stage_ends(const PartitionOptions& options, int stages);

  World& world_;
  run::PreparedJob& job_;
  run::PipelinePlan plan_;
  std::optional<World> peers_;
  std::deque<World> further_peers_;
  std::optional<World> tensor_world_;
  std::unique_ptr<model::TensorGroup> tensor_group_;
  mesh::NetworkOutline outline_;
  std::vector<mesh::Stage> stages_;
  std::size_t array_bytes_ = 0;
};

}  // namespace distbelief::replica
