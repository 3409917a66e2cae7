#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/mesh/cuts.h"
#include "distbelief/mesh/mesh.h"
#include "distbelief/mesh/pipeline_schedule.h"

// The cost of a layout of a job: seconds per step, bytes per worker. Pure: takes measured costs, returns
// predictions. docs/explanation/model_parallelism.md describes them. Any thread.
namespace distbelief::planner {

// How workers hold and train a network.
struct MeshLayout {
  mesh::Mesh mesh;
  int zero = 1;  // ZeRO stage: copies share out 1 state, 2 + gradients, 3 + parameters
  mesh::PipelineSchedule schedule = mesh::PipelineSchedule::kOneForwardOneBackward;
  int chunks = 1;  // stages per worker
  bool recompute = false;
  std::int64_t lanes = 1;  // of the whole job
  friend bool operator==(const MeshLayout&, const MeshLayout&) = default;
};
std::string to_string(const MeshLayout& layout);  // "data 2 x pipeline 2, 1f1b, 16 lanes"

// The effect of tensor parallelism on a block.
struct TensorSplit {
  double share = 0;   // split share of its time and parameters
  int exchanges = 0;  // sums of its output over the group per lane, forward and backward
};

// Costs measured with lanes of one size.
struct LaneCosts {
  std::int64_t samples = 1;
  double data_seconds = 0;      // time to make a lane's batch
  std::size_t input_bytes = 0;  // of that batch
  std::vector<mesh::BlockCost> blocks;
};

// A worker's cost of storing, summing and using gradients, in seconds per byte of parameters.
struct SharingCosts {
  double alone = 0;     // with one copy: store one lane, sum, update
  double together = 0;  // the same with `replicas` copies
  int replicas = 1;
  double further_lane = 0;  // store and add one more lane
  double meet_seconds = 0;  // time of a step that moves almost no data: synchronization of the workers
};

struct LinkCosts {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // 0: no link
};

struct MachineCosts {
  int cores = 1;               // per host
  std::size_t base_bytes = 0;  // a worker with libtorch, MPI and the open data, before it has a network
  double copy_bytes_per_second = 0;
  double fetch_bytes_per_second = 0;  // reading shared-out parameters into memory that is freed again
  SharingCosts sharing;
  LinkCosts between_hosts;
};

// The properties of the job that a prediction depends on.
struct LayoutJob {
  std::vector<int> workers_per_host{1};
  std::int64_t batch = 1;
  int threads = 1;
  std::int64_t accumulate = 1;  // multiplies the lanes of a job that sets none
  int optimizer_arrays = 0;
  bool keeps_sums = false;  // as AllreduceSharing::keeps_sums() on one host
  bool overlaps = true;     // the exchange between hosts overlaps backward
  bool snapshots = false;   // in shared memory
  std::size_t bucket_bytes = 0;
  std::int64_t prefetch = 0;   // batches kept ready
  std::int64_t validated = 0;  // samples per validation batch
};

struct StepSeconds {
  double compute = 0;   // forward, backward, storing gradients; waits in a pipeline; shared cores
  double exchange = 0;  // sums, update, synchronization, and transfers between hosts that nothing hides
  double idle = 0;      // share of compute in which an average worker waits
  double total() const { return compute + exchange; }
};

// Bytes of the worker that needs most: the first, which saves.
struct WorkerBytes {
  std::size_t base = 0, parameters = 0, state = 0, gradients = 0, sums = 0;
  std::size_t activations = 0, messages = 0, batches = 0, snapshots = 0, saving = 0;
  std::size_t start = 0;  // extra memory for measuring the blocks before the cuts
  // Its contribution to its host's memory: of shared memory, its share.
  std::size_t total() const {
    return base + parameters + state + gradients + sums + activations + messages + batches + snapshots +
           saving + start;
  }
  std::size_t mapped = 0;  // other shared pages that it reads; they count in its resident size, too
};

// One lane's costs in a tensor group of this size.
std::vector<mesh::BlockCost> split_blocks(const LaneCosts& lane, const std::vector<TensorSplit>& splits,
                                          int tensor, const MachineCosts& machine);

struct LayoutInput {
  const LayoutJob& job;
  const MachineCosts& machine;
  const LaneCosts& lane;                       // for this layout's lane size
  const std::vector<mesh::BlockCost>& blocks;  // from split_blocks()
  const mesh::Cuts& cuts;                      // one stage if the network is not cut
};
StepSeconds predict_seconds(const MeshLayout& layout, const LayoutInput& input);
WorkerBytes predict_bytes(const MeshLayout& layout, const LayoutInput& input);

}  // namespace distbelief::planner
