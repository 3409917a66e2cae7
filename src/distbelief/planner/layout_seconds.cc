#include <algorithm>
#include <numeric>
#include <span>

#include "distbelief/mesh/pipeline_time.h"
#include "distbelief/planner/layout_costs.h"

// The time of a step in a layout.
namespace distbelief::planner {
namespace {

double seconds_of(std::size_t bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? double(bytes) / bytes_per_second : 0;
}

std::size_t parameter_bytes(std::span<const mesh::BlockCost> blocks) {
  return std::accumulate(
      blocks.begin(), blocks.end(), std::size_t{0},
      [](std::size_t sum, const mesh::BlockCost& block) { return sum + block.parameter_bytes; });
}

class Clockwork {
 public:
  Clockwork(const MeshLayout& layout, const LayoutInput& input)
      : layout_(layout),
        in_(input),
        hosts_(int(input.job.workers_per_host.size())),
        // The fullest host sets the pace.
        busy_(*std::max_element(input.job.workers_per_host.begin(), input.job.workers_per_host.end()) *
              input.job.threads),
        carriers_(layout.mesh.data * input.job.threads),
        lanes_((layout.lanes + carriers_ - 1) / carriers_) {}

  StepSeconds predict() const { return layout_.mesh.pipeline == 1 ? whole() : cut(); }

 private:
  // The slowdown of a worker by others on its core.
  double load() const { return std::max(1.0, double(busy_) / in_.machine.cores); }
  // Loader threads have free cores, or take time from the workers.
  double data_seconds() const { return busy_ >= in_.machine.cores ? in_.lane.data_seconds : 0; }

  // Seconds per byte of parameters to store one lane, sum and update. Linear in 1 / replicas: the update is
  // shared out, but every gradient is read once.
  double share_seconds() const {
    const SharingCosts& costs = in_.machine.sharing;
    if (costs.replicas == 1) return costs.alone;
    const double dealt = (costs.alone - costs.together) / (1 - 1.0 / costs.replicas);
    return std::max(0.0, costs.alone - dealt * (1 - 1.0 / carriers_));
  }

  StepSeconds whole() const {
    double lane = data_seconds() + fetch_seconds(in_.blocks) * 2;
    for (const mesh::BlockCost& block : in_.blocks) lane += block.forward_seconds + block.backward_seconds;
    const auto bytes = double(parameter_bytes(in_.blocks));
    StepSeconds step;
    step.compute =
        load() * (double(lanes_) * lane + double(lanes_ - 1) * bytes * in_.machine.sharing.further_lane);
    step.exchange = load() * bytes * share_seconds() + in_.machine.sharing.meet_seconds;
    step.exchange += between_hosts(bytes, backward_of(in_.blocks), step.compute);
    return step;
  }

  // Fetch time of a pass over blocks whose parameters the workers of a host share out (zero 3). An idle core
  // prefetches the next block.
  double fetch_seconds(std::span<const mesh::BlockCost> blocks) const {
    const bool near = layout_.zero == 3 && layout_.mesh.data > 1 && in_.job.workers_per_host[0] > 1;
    if (!near || busy_ < in_.machine.cores) return 0;
    return seconds_of(parameter_bytes(blocks), in_.machine.fetch_bytes_per_second);
  }

  StepSeconds cut() const {
    const mesh::PipelineShape shape{
        .pipeline = layout_.mesh.pipeline, .chunks = layout_.chunks, .lanes = lanes_};
    std::vector<mesh::StageCost> costs;
    std::vector<double> place_bytes(std::size_t(layout_.mesh.pipeline));
    double work = 0;
    for (int stage = 0; stage < shape.stages(); ++stage) {
      costs.push_back(stage_cost(stage));
      work += costs.back().forward + costs.back().backward;
      place_bytes[std::size_t(shape.place_of_stage(stage))] += double(parameter_bytes(blocks_of(stage)));
    }
    const double bytes = *std::max_element(place_bytes.begin(), place_bytes.end());
    StepSeconds step;
    const double cores = busy_ > in_.machine.cores ? layout_.mesh.pipeline * double(in_.machine.cores) / busy_
                                                   : layout_.mesh.pipeline;
    step.compute = mesh::simulate_step(layout_.schedule, shape, costs, cores);
    step.idle = 1 - std::min(1.0, double(lanes_) * work * load() / (step.compute * layout_.mesh.pipeline));
    step.exchange = load() * bytes * share_seconds() + 2 * in_.machine.sharing.meet_seconds;
    step.exchange += between_hosts(bytes, costs.back().backward, step.compute);
    return step;
  }

  std::span<const mesh::BlockCost> blocks_of(int stage) const {
    const int begin = stage == 0 ? 0 : in_.cuts.ends[std::size_t(stage) - 1];
    return std::span(in_.blocks)
        .subspan(std::size_t(begin), std::size_t(in_.cuts.ends[std::size_t(stage)] - begin));
  }

  // Workers themselves copy arrays into and out of shared memory; between hosts a thread sends.
  mesh::StageCost stage_cost(int stage) const {
    const bool first = stage == 0, last = stage + 1 == std::ssize(in_.cuts.ends);
    const std::span<const mesh::BlockCost> blocks = blocks_of(stage);
    const std::size_t out = last ? 0 : blocks.back().output_bytes;
    const std::size_t in =
        first ? 0 : in_.blocks[std::size_t(in_.cuts.ends[std::size_t(stage) - 1]) - 1].output_bytes;
    const double copies = seconds_of(in + out, in_.machine.copy_bytes_per_second);
    const double fetch = fetch_seconds(blocks);
    mesh::StageCost cost{.forward = copies + fetch + (first || last ? data_seconds() : 0),
                         .backward = copies + fetch * (layout_.recompute && !last ? 2 : 1)};
    for (const mesh::BlockCost& block : blocks) {
      cost.forward += block.forward_seconds;
      cost.backward += block.backward_seconds + (layout_.recompute && !last ? block.forward_seconds : 0);
    }
    const double stored = double(lanes_ - 1) / double(lanes_);  // the exchange includes the first lane
    cost.backward += stored * double(parameter_bytes(blocks)) * in_.machine.sharing.further_lane;
    const LinkCosts& link = in_.machine.between_hosts;
    const bool far = hosts_ > 1 && layout_.mesh.pipeline * layout_.mesh.tensor > in_.job.workers_per_host[0];
    cost.transfer = far ? link.latency_seconds + seconds_of(out, link.bytes_per_second)
                        : in_.machine.sharing.meet_seconds / 2;
    return cost;
  }

  static double backward_of(std::span<const mesh::BlockCost> blocks) {
    double seconds = 0;
    for (const mesh::BlockCost& block : blocks) seconds += block.backward_seconds;
    return seconds;
  }

  // Each host sends the others their parts of the gradient, then its part of the new parameters to all. With
  // zero 3, parameters go from host to host in each pass instead, overlapping all of compute.
  double between_hosts(double bytes, double last_backward, double compute) const {
    const LinkCosts& link = in_.machine.between_hosts;
    const bool spread = hosts_ > 1 && layout_.mesh.data > 1;
    if (!spread || link.bytes_per_second <= 0) return 0;
    const double others = bytes * (hosts_ - 1) / hosts_;
    if (layout_.zero == 3)
      return others / link.bytes_per_second +
             std::max(0.0, 2 * double(lanes_) * others / link.bytes_per_second - compute);
    const double sent = 2 * others;
    const double buckets = std::max(1.0, bytes / std::max<double>(1, double(in_.job.bucket_bytes)));
    const double seconds = sent / link.bytes_per_second + 2 * buckets * link.latency_seconds;
    return in_.job.overlaps ? std::max(0.0, seconds - last_backward) : seconds;
  }

  const MeshLayout& layout_;
  const LayoutInput& in_;
  int hosts_;
  int busy_;            // carriers per host
  int carriers_;        // carriers that share an update
  std::int64_t lanes_;  // per carrier
};

}  // namespace

std::vector<mesh::BlockCost> split_blocks(const LaneCosts& lane, const std::vector<TensorSplit>& splits,
                                          int tensor, const MachineCosts& machine) {
  std::vector<mesh::BlockCost> blocks = lane.blocks;
  if (tensor == 1) return blocks;
  for (std::size_t i = 0; i < blocks.size() && i < splits.size(); ++i) {
    mesh::BlockCost& block = blocks[i];
    const double kept = 1 - splits[i].share * (1 - 1.0 / tensor);
    const double moved = 2.0 * double(block.output_bytes) * (tensor - 1) / tensor;
    const double exchange = machine.sharing.meet_seconds +
                            (machine.copy_bytes_per_second > 0 ? moved / machine.copy_bytes_per_second : 0);
    const double half = 0.5 * splits[i].exchanges * exchange;
    block.forward_seconds = block.forward_seconds * kept + half;
    block.backward_seconds = block.backward_seconds * kept + half;
    block.parameter_bytes = std::size_t(double(block.parameter_bytes) * kept);
    // Exchanged outputs are whole on every worker and kept for backward.
    block.activation_bytes =
        std::size_t(double(block.activation_bytes) * kept +
                    splits[i].exchanges * double(block.output_bytes) * (1 - 1.0 / tensor));
    block.working_bytes = std::size_t(double(block.working_bytes) * kept);
    block.forward_bytes = std::size_t(double(block.forward_bytes) * kept);
  }
  return blocks;
}

StepSeconds predict_seconds(const MeshLayout& layout, const LayoutInput& input) {
  return Clockwork(layout, input).predict();
}

}  // namespace distbelief::planner
