#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "distbelief/mesh/lane_plan.h"
#include "distbelief/planner/layout_costs.h"

// The memory of a worker in a layout. The arrays are those of SharedState.
namespace distbelief::planner {
namespace {

constexpr std::size_t kWindowSlots = 2;     // zero 2: buckets of gradients that wait to be summed
constexpr std::size_t kBlocksGathered = 2;  // zero 3: one in use, the next on its way
constexpr std::size_t kMeasuredAtOnce = std::size_t{256} << 20;
constexpr std::size_t kSnapshots = 2;  // the newest whole snapshot and the next

class Ledger {
 public:
  Ledger(const MeshLayout& layout, const LayoutInput& input)
      : layout_(layout),
        in_(input),
        hosts_(int(input.job.workers_per_host.size())),
        replicas_(std::size_t(layout.mesh.data)),
        // Copies of a stage that share memory; none when a copy has more workers than a host.
        near_(std::max<std::size_t>(1, replicas_ / std::size_t(hosts_))),
        states_(std::size_t(input.job.optimizer_arrays)) {}

  // The bytes of the place that needs most.
  WorkerBytes most() const {
    WorkerBytes most;
    for (int place = 0; place < layout_.mesh.pipeline; ++place)
      if (const WorkerBytes bytes = at(place); bytes.total() + bytes.mapped > most.total() + most.mapped)
        most = bytes;
    return most;
  }

 private:
  WorkerBytes at(int place) const {
    const std::size_t parameters = parameter_bytes(place);
    WorkerBytes bytes;
    bytes.base = in_.machine.base_bytes;
    bytes.parameters = parameters / near_;
    bytes.state = states_ * parameters / replicas_;
    bytes.gradients = gradient_stacks() * parameters;
    bytes.sums = (in_.job.keeps_sums || hosts_ > 1 ? parameters / near_ : 0) +
                 (hosts_ > 1 ? parameters / replicas_ : 0);
    // Tensors are assembled from slices, then copied.
    bytes.saving = (1 + states_) * parameters * (layout_.mesh.tensor > 1 ? 2 : 1);
    bytes.snapshots = in_.job.snapshots ? kSnapshots * (1 + states_) * all_parameters() *
                                              std::size_t(hosts_) / std::size_t(layout_.mesh.workers())
                                        : 0;
    bytes.activations = std::max(activations(place), validation(place));
    bytes.messages = messages(place);
    const bool reads = place == 0 || place + 1 == layout_.mesh.pipeline;
    bytes.batches = reads ? std::size_t(in_.job.prefetch) * in_.lane.input_bytes : 0;
    if (layout_.zero > 1) share_out(bytes, parameters, place);
    if (layout_.mesh.pipeline > 1 && place == 0) {
      const std::size_t later = bytes.total() - bytes.base;
      bytes.start = std::max(measuring(), later) - later;
    }
    // The others' part of the parameters, their state (to save it), and this worker's slice of their
    // gradients.
    bytes.mapped = parameters - parameters / near_ + states_ * (parameters / replicas_) * (near_ - 1) +
                   (layout_.zero == 1 ? parameters - parameters / near_ : 0);
    if (layout_.zero == 3) bytes.mapped = 0;
    if (layout_.zero > 1) bytes.mapped += window(place) - window(place) / near_;
    return bytes;
  }

  void share_out(WorkerBytes& bytes, std::size_t parameters, int place) const {
    bytes.gradients = window(place);
    bytes.sums = parameters / replicas_ * partial_slices();
    if (layout_.zero < 3) return;
    bytes.parameters = parameters / replicas_ + kBlocksGathered * largest_block(place);
    bytes.saving = 0;  // saved in place
  }

  // A bucket holds whole parameters, so it may be as large as a block's largest parameter.
  std::size_t window(int place) const {
    return kWindowSlots * std::max(in_.job.bucket_bytes, largest_block(place)) * std::size_t(in_.job.threads);
  }

  // Lanes come round by round; the sums of rounds wait on a stack.
  std::size_t partial_slices() const {
    const std::int64_t rounds = (layout_.lanes + layout_.mesh.data - 1) / layout_.mesh.data;
    if (rounds == 1) return in_.job.keeps_sums || hosts_ > 1 ? 1 : 0;
    return std::size_t(std::bit_width(std::uint64_t(rounds)));
  }

  // Partial sums that a worker's lanes need at once (base/tree.h), for all its threads.
  std::size_t gradient_stacks() const {
    const int carriers = layout_.mesh.data * in_.job.threads;
    const mesh::LanePlan plan = mesh::plan_lanes(std::max<std::int64_t>(layout_.lanes, carriers),
                                                 {layout_.mesh.data}, in_.job.threads);
    std::size_t deepest = 1;
    for (const mesh::Carrier& carrier : plan.carriers)
      deepest = std::max(deepest, std::size_t(carrier.program.depth));
    return deepest * std::size_t(in_.job.threads);
  }

  int stages() const { return layout_.mesh.pipeline * layout_.chunks; }
  std::span<const mesh::BlockCost> blocks_of(int stage) const {
    const int begin = stage == 0 ? 0 : in_.cuts.ends[std::size_t(stage) - 1];
    return std::span(in_.blocks)
        .subspan(std::size_t(begin), std::size_t(in_.cuts.ends[std::size_t(stage)] - begin));
  }
  std::size_t input_of(int stage) const {
    return stage == 0 ? in_.lane.input_bytes : blocks_of(stage - 1).back().output_bytes;
  }

  std::size_t parameter_bytes(int place) const {
    std::size_t bytes = 0;
    for (int stage = place; stage < stages(); stage += layout_.mesh.pipeline)
      for (const mesh::BlockCost& block : blocks_of(stage)) bytes += block.parameter_bytes;
    return bytes;
  }
  // The whole network without tensor parallelism.
  std::size_t all_parameters() const {
    return std::accumulate(
        in_.lane.blocks.begin(), in_.lane.blocks.end(), std::size_t{0},
        [](std::size_t sum, const mesh::BlockCost& block) { return sum + block.parameter_bytes; });
  }
  std::size_t largest_block(int place) const {
    std::size_t largest = 0;
    for (int stage = place; stage < stages(); stage += layout_.mesh.pipeline)
      for (const mesh::BlockCost& block : blocks_of(stage))
        largest = std::max(largest, block.parameter_bytes);
    return largest;
  }

  // Activations of lanes between forward and backward, plus the peak of the block that runs.
  std::size_t activations(int place) const {
    std::vector<mesh::PipelineAction> actions;
    if (layout_.mesh.pipeline > 1)
      actions = mesh::pipeline_actions(layout_.schedule,
                                       {.pipeline = layout_.mesh.pipeline,
                                        .chunks = layout_.chunks,
                                        .lanes = (layout_.lanes + layout_.mesh.data - 1) / layout_.mesh.data},
                                       place);
    std::size_t kept = 0, beside = 0;
    for (int stage = place; stage < stages(); stage += layout_.mesh.pipeline) {
      std::size_t one = 0, working = 0;
      for (const mesh::BlockCost& block : blocks_of(stage)) {
        one += block.activation_bytes;
        working = std::max(working, block.working_bytes);
      }
      const std::size_t alive = actions.empty() ? 1 : std::size_t(mesh::most_alive(actions, stage));
      const bool recomputed = layout_.recompute && layout_.mesh.pipeline > 1 && stage + 1 < stages();
      kept += recomputed ? alive * input_of(stage) : alive * (one + (actions.empty() ? 0 : input_of(stage)));
      beside = std::max(beside, working + (recomputed ? one : 0));
    }
    return kept + beside * std::size_t(in_.job.threads) + kept * std::size_t(in_.job.threads - 1);
  }

  std::size_t validation(int place) const {
    std::size_t most = 0;
    for (int stage = place; stage < stages(); stage += layout_.mesh.pipeline)
      for (const mesh::BlockCost& block : blocks_of(stage)) most = std::max(most, block.forward_bytes);
    return std::size_t(double(most) * double(in_.job.validated) / double(in_.lane.samples));
  }

  // The first worker measures all blocks before it holds its own (planner/block_costs.h).
  std::size_t measuring() const {
    std::size_t kept = 0, working = 0;
    for (const mesh::BlockCost& block : in_.lane.blocks) {
      kept += block.activation_bytes;
      working = std::max(working, block.working_bytes);
    }
    return std::min(all_parameters(), kMeasuredAtOnce) + kept + working;
  }

  // The rings that its stages receive from, with pipeline + 1 slots each (mesh/stage_streams.cc).
  std::size_t messages(int place) const {
    if (layout_.mesh.pipeline == 1) return 0;
    std::size_t bytes = 0;
    const auto slots = std::size_t(layout_.mesh.pipeline + 1);
    for (int stage = place; stage < stages(); stage += layout_.mesh.pipeline) {
      if (stage > 0) bytes += slots * input_of(stage);
      if (stage + 1 < stages()) bytes += slots * blocks_of(stage).back().output_bytes;
    }
    return bytes;
  }

  const MeshLayout& layout_;
  const LayoutInput& in_;
  int hosts_;
  std::size_t replicas_;
  std::size_t near_;
  std::size_t states_;
};

}  // namespace

WorkerBytes predict_bytes(const MeshLayout& layout, const LayoutInput& input) {
  return Ledger(layout, input).most();
}

}  // namespace distbelief::planner
