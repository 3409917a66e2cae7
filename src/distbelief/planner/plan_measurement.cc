#include "distbelief/planner/plan_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "distbelief/compute/gathered_arena.h"
#include "distbelief/mesh/allreduce_group.h"
#include "distbelief/planner/block_costs.h"
#include "distbelief/report/memory.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::planner {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
constexpr std::size_t kPieceElements = std::size_t{1} << 18;  // per parameter: 1 MiB
constexpr std::size_t kMostPieces = 32;
constexpr std::int64_t kLanes = 4;
constexpr std::size_t kCopied = std::size_t{4} << 20;
constexpr int kUntimed = 2, kRepeats = 9;

// The mean over all workers' values.
std::vector<double> mean(comm::Communicator& workers, std::vector<double> values) {
  workers.allreduce(comm::view(values.data(), values.size()), comm::ReduceOp::kSum);
  for (double& value : values) value /= workers.size();
  return values;
}

// Median seconds of `body`, which all workers start together; the mean over workers. Collective.
double timed(comm::Communicator& workers, const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int i = 0; i < kUntimed + kRepeats; ++i) {
    workers.barrier();
    const auto begin = Clock::now();
    body();
    if (i >= kUntimed) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return mean(workers, {seconds[seconds.size() / 2]})[0];
}

// A step of `peers` without compute: gradients are handed over, summed and used.
struct EmptyStep {
  std::size_t pieces = 1;
  std::size_t elements = kPieceElements;  // per piece
  std::int64_t lanes = 1;                 // per worker
};

double empty_step_seconds(World& peers, comm::Communicator& everyone, const Config& config,
                          const EmptyStep& step) {
  std::vector<compute::Layout::Parameter> parameters;
  for (std::size_t i = 0; i < step.pieces; ++i)
    parameters.push_back({fmt::format("piece{}", i), {std::int64_t(step.elements)}});
  mesh::AllreduceGroup::Options options = run::group_options(config);
  options.threads = 1;
  options.lanes = step.lanes * peers.size();
  mesh::AllreduceGroup group(peers, parameters, options);
  const std::vector<std::int64_t> samples(std::size_t(options.lanes), 1);
  const std::vector<float> gradient(step.elements, 1e-3F);
  mesh::AllreduceSharing& sharing = group.sharing(0);
  std::int64_t number = 0;
  return timed(everyone, [&] {
    sharing.begin_step({number++, config.train.optimizer.lr, samples});
    for (std::int64_t lane = group.carrier(0).first_lane; lane < group.carrier(0).end_lane; ++lane) {
      sharing.begin_lane(lane);
      for (std::size_t i = step.pieces; i-- > 0;) sharing.gradient(int(i), gradient.data());
      sharing.end_lane();
    }
    sharing.end_step();
  });
}

SharingCosts measure_sharing(World& world, const Config& config, std::size_t parameter_bytes) {
  World alone = world.split(world.rank());
  World near = world.split(world.host());
  comm::Communicator& everyone = world.communicator();
  const std::size_t pieces =
      std::clamp<std::size_t>(parameter_bytes / (kPieceElements * sizeof(float)), 1, kMostPieces);
  // A network smaller than a piece fits into the caches, so it is measured at its own size.
  const std::size_t elements =
      std::clamp<std::size_t>(parameter_bytes / sizeof(float), compute::kBlock, kPieceElements);
  const auto bytes = double(pieces * elements * sizeof(float));
  SharingCosts costs;
  costs.replicas = near.size();
  costs.meet_seconds = empty_step_seconds(near, everyone, config, {.pieces = 1, .elements = compute::kBlock});
  const double little =
      empty_step_seconds(alone, everyone, config, {.pieces = 1, .elements = compute::kBlock});
  const double one = empty_step_seconds(alone, everyone, config, {pieces, elements, 1});
  const double several = empty_step_seconds(alone, everyone, config, {pieces, elements, kLanes});
  costs.alone = std::max(0.0, one - little) / bytes;
  costs.further_lane = std::max(0.0, several - one) / (double(kLanes - 1) * bytes);
  costs.together = costs.alone;
  if (near.size() > 1)
    costs.together = std::max(0.0, empty_step_seconds(near, everyone, config, {pieces, elements, 1}) -
                                       costs.meet_seconds) /
                     bytes;
  return costs;
}

double copy_rate(comm::Communicator& workers) {
  const std::vector<char> from(kCopied, 1);
  std::vector<char> to(kCopied);
  return double(kCopied) / timed(workers, [&] { std::memcpy(to.data(), from.data(), kCopied); });
}

// Reads more blocks in turn than fit into caches, as ZeRO-3 does.
double fetch_rate(World& world, const Config& config) {
  constexpr std::int64_t kBlocks = 16;
  World near = world.split(world.host());
  mesh::AllreduceGroup::Options options = run::group_options(config);
  options.threads = 1;
  options.lanes = near.size();
  options.zero = 3;
  options.zero_inside_host = true;
  std::vector<compute::Layout::Parameter> parameters;
  for (std::int64_t i = 0; i < kBlocks; ++i)
    parameters.push_back({fmt::format("block{}", i), {std::int64_t(kCopied / sizeof(float))}});
  mesh::AllreduceGroup group(near, parameters, options);
  std::vector<std::vector<compute::Span>> blocks;
  for (const compute::Entry& entry : group.layout().entries())
    blocks.push_back({{entry.offset, entry.offset + entry.count}});
  compute::GatheredArena arena(
      {.elements = group.layout().size(), .blocks = blocks, .fetch = [&](compute::Span from, float* to) {
         group.read_parameters(from, to);
       }});
  return double(kBlocks) * double(kCopied) / timed(world.communicator(), [&] {
           for (int block = 0; block < int(kBlocks); ++block) {
             arena.hold(block);
             arena.release(block);
           }
         });
}

LinkCosts measure_link(World& world) {
  if (world.hosts() == 1) return {};
  std::vector<float> values(kCopied / sizeof(float));
  const auto summed = [&](std::size_t count) {
    return timed(world.communicator(), [&, count] {
      if (world.leaders() != nullptr)
        world.leaders()->allreduce(comm::view(values.data(), count), comm::ReduceOp::kSum);
    });
  };
  const double little = summed(1), much = summed(values.size());
  const double moved = 2.0 * double(kCopied) * (world.hosts() - 1) / world.hosts();
  // An allreduce is two rounds of messages. Only leaders take part; the others contribute no time.
  const double share = double(world.size()) / world.hosts();
  return {.latency_seconds = share * little / 2,
          .bytes_per_second = moved / std::max(1e-9, share * (much - little))};
}

// Measurements vary between workers, so all take the mean.
void average(comm::Communicator& workers, LaneCosts& lane) {
  std::vector<double> values{lane.data_seconds};
  for (const mesh::BlockCost& block : lane.blocks) {
    values.push_back(block.forward_seconds);
    values.push_back(block.backward_seconds);
  }
  values = mean(workers, std::move(values));
  lane.data_seconds = values[0];
  for (std::size_t i = 0; i < lane.blocks.size(); ++i) {
    lane.blocks[i].forward_seconds = values[1 + 2 * i];
    lane.blocks[i].backward_seconds = values[2 + 2 * i];
  }
}

// libtorch loads much on its first computation; this counts for no network.
std::size_t base_bytes(const run::PreparedJob& job, const PlanMeasurementOptions& options) {
  measure_lane(job, {.samples = 1});
  if (options.release_unused_memory) options.release_unused_memory();
  return report::rss_bytes();
}

double largest(comm::Communicator& workers, double own) {
  std::vector<double> all(std::size_t(workers.size()));
  all[std::size_t(workers.rank())] = own;
  workers.allreduce(comm::view(all.data(), all.size()), comm::ReduceOp::kSum);
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

PlanMeasurement measure_for_plan(World& world, const Config& config, const PlanMeasurementOptions& options) {
  comm::Communicator& workers = world.communicator();
  const report::MemoryBound bound(world.local_size());
  const run::PreparedJob job = run::prepare_blueprint(config);
  PlanMeasurement measured;
  measured.machine.cores = int(std::max(1U, std::thread::hardware_concurrency()));
  measured.machine.base_bytes = std::size_t(largest(workers, double(base_bytes(job, options))));
  measured.validated = std::int64_t(std::min(tasks::kEvaluationChunk, job.data.test->size()));
  std::size_t parameter_bytes = 0;
  for (const std::int64_t samples : options.lane_sizes) {
    measured.lanes.push_back(measure_lane(
        job, {.samples = samples, .largest_of_all = [&](double own) { return largest(workers, own); }}));
    average(workers, measured.lanes.back());
    parameter_bytes = 0;
    for (const mesh::BlockCost& block : measured.lanes.back().blocks)
      parameter_bytes += block.parameter_bytes;
  }
  measured.machine.sharing = measure_sharing(world, config, parameter_bytes);
  measured.machine.copy_bytes_per_second = copy_rate(workers);
  measured.machine.fetch_bytes_per_second = fetch_rate(world, config);
  measured.machine.between_hosts = measure_link(world);
  return measured;
}

}  // namespace distbelief::planner
