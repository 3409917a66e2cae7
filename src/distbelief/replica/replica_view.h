#pragma once

#include <span>
#include <vector>

#include "distbelief/mesh/replica_window.h"
#include "distbelief/replica/replica.h"

namespace distbelief::replica {

struct ReplicaViewOptions {
  TreeNode lanes{};        // lanes of the replica whose values are put together; empty: none
  std::size_t slices = 0;  // of the arena, that servers answer for
};

// A replica as one arena, for a mode: the gradient of the whole network, its parameters and its running
// statistics, however the network is cut over the workers. Where it is cut they are put together in a window
// of shared memory and taken out of it again, so the workers are on one host. Made and used by all workers of
// the replica together.
class ReplicaView {
 public:
  ReplicaView(Replica& replica, const ReplicaViewOptions& options);

  bool is_first() const { return replica_.world().rank() == 0; }
  const compute::Layout& layout() const { return layout_; }
  // Arrays of the whole network; one worker writes at a time, or each its own span.
  std::span<float> parameters();
  std::span<float> gradient();
  // Running statistics, then notes: the mean over lanes.
  std::span<float> mean() { return window_.mean(); }
  // Room for what workers tell each other: a number that the first worker gives, one of each worker, one for
  // each slice.
  std::int64_t& number() { return window_.step(); }
  std::span<std::int64_t> numbers() { return window_.versions(); }
  std::span<std::int64_t> answers() { return window_.answers(); }

  // All workers meet, however long one of them takes; what each wrote before is then there for all.
  void meet() { window_.meet(); }
  // The first worker's numbers on all workers, after they have met.
  void from_first(std::vector<std::int64_t>& numbers);

  // Puts the parameters and statistics that the stages have into the view. The workers have met then.
  void put();
  // Puts together the gradient of the step that has been added up, and the values of its lanes. The workers
  // have met then.
  void collect();
  // The parameters with no gradient in that step; their elements of `own` are zeros in the gradient now.
  std::vector<std::int32_t> forget_untouched(compute::Span own);
  // The values of each lane of the replica, one row after the other, with the notes of all its workers.
  std::span<const float> lane_rows();
  // The stages take over new parameters, after the workers have met.
  void take();
  // The statistics of the mean, for every copy of every stage.
  void take_statistics();
  mesh::LaneNotes mean_notes();

 private:
  struct Held {
    const mesh::Stage* stage = nullptr;
    std::size_t buffers = 0;                           // floats of running statistics that are here
    std::vector<mesh::StageRuns> spoken_for{}, all{};  // of the arena, by this worker
    std::vector<mesh::StageRuns> buffers_spoken_for{}, buffers_all{};  // of the running statistics
    std::vector<std::int64_t> counts{};                                // of updates, per parameter
  };
  bool is_cut() const { return replica_.partition().is_cut(); }
  bool speaks_for_peers() const { return replica_.partition().peers().rank() == 0; }
  void note_touched();
  void put_rows();
  void put_notes(const Held& held, std::int64_t lane);

  Replica& replica_;
  ReplicaViewOptions options_;
  compute::Layout layout_;  // of the whole network
  mesh::ReplicaWindow window_;
  std::vector<Held> held_;
};

}  // namespace distbelief::replica
