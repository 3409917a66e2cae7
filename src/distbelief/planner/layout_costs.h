#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/mesh/cuts.h"
#include "distbelief/mesh/mesh.h"
#include "distbelief/mesh/pipeline_schedule.h"

// What a layout of a job costs: seconds of a step, bytes of a worker. Pure: measured costs in, predictions
// out. docs/explanation/model_parallelism.md describes them. Any thread.
namespace distbelief::planner {

// How workers hold and train a network.
struct MeshLayout {
  mesh::Mesh mesh;
  int zero = 1;  // what replicas share out: 1 state, 2 + gradients, 3 + parameters
  mesh::PipelineSchedule schedule = mesh::PipelineSchedule::kOneForwardOneBackward;
  int chunks = 1;  // stages per worker
  bool recompute = false;
  std::int64_t lanes = 1;  // of the whole job
  friend bool operator==(const MeshLayout&, const MeshLayout&) = default;
};
std::string to_string(const MeshLayout& layout);  // "data 2 x pipeline 2, 1f1b, 16 lanes"

// What tensor parallelism makes of a block.
struct TensorSplit {
  double share = 0;   // of its time and parameters that is split
  int exchanges = 0;  // sums of its output over the group for each lane, forward and backward
};

// Measured with lanes of one size.
struct LaneCosts {
  std::int64_t samples = 1;
  double data_seconds = 0;      // to make a lane's batch
  std::size_t input_bytes = 0;  // of it
  std::vector<mesh::BlockCost> blocks;
};

// What storing, adding up and using gradients costs a worker, per byte of parameters.
struct SharingCosts {
  double alone = 0;     // one lane stored, summed and the update, with no other replica
  double together = 0;  // the same with so many:
  int replicas = 1;
  double further_lane = 0;  // stored and added
  double meet_seconds = 0;  // of a step that moves next to nothing: workers wait for each other
};

struct LinkCosts {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // 0: there is none
};

struct MachineCosts {
  int cores = 1;               // of a host
  std::size_t base_bytes = 0;  // a worker with libtorch, MPI and the open data, before it holds a network
  double copy_bytes_per_second = 0;
  double fetch_bytes_per_second = 0;  // of parameters that workers share out, into memory that is given back
  SharingCosts sharing;
  LinkCosts between_hosts;
};

// What of the job a prediction depends on.
struct LayoutJob {
  std::vector<int> workers_per_host{1};
  std::int64_t batch = 1;
  int threads = 1;
  std::int64_t accumulate = 1;  // multiplies the lanes of a job that names none
  int optimizer_arrays = 0;
  bool keeps_sums = false;  // as AllreduceSharing::keeps_sums() for one host
  bool overlaps = true;     // exchange between hosts goes on beside backward
  bool snapshots = false;   // in shared memory
  std::size_t bucket_bytes = 0;
  std::int64_t prefetch = 0;   // batches kept ready
  std::int64_t validated = 0;  // samples of a batch of validation
};

struct StepSeconds {
  double compute = 0;   // forward, backward, storing gradients; waiting in a pipeline; sharing cores
  double exchange = 0;  // sums, update, meetings, what goes between hosts beside that
  double idle = 0;      // share of compute that an average worker waits
  double total() const { return compute + exchange; }
};

// Of the worker that needs most: the first, which saves.
struct WorkerBytes {
  std::size_t base = 0, parameters = 0, state = 0, gradients = 0, sums = 0;
  std::size_t activations = 0, messages = 0, batches = 0, snapshots = 0, saving = 0;
  std::size_t start = 0;  // what measuring the blocks for the cuts takes more than training
  // What it adds to its host: of what several share, its part.
  std::size_t total() const {
    return base + parameters + state + gradients + sums + activations + messages + batches + snapshots +
           saving + start;
  }
  std::size_t mapped = 0;  // shared pages besides that it reads: counted in its resident size, too
};

// One lane's costs in a group of so many tensor workers.
std::vector<mesh::BlockCost> split_blocks(const LaneCosts& lane, const std::vector<TensorSplit>& splits,
                                          int tensor, const MachineCosts& machine);

struct LayoutInput {
  const LayoutJob& job;
  const MachineCosts& machine;
  const LaneCosts& lane;                       // of this layout's size
  const std::vector<mesh::BlockCost>& blocks;  // of split_blocks()
  const mesh::Cuts& cuts;                      // one stage when the network is not cut
};
StepSeconds predict_seconds(const MeshLayout& layout, const LayoutInput& input);
WorkerBytes predict_bytes(const MeshLayout& layout, const LayoutInput& input);

}  // namespace distbelief::planner
