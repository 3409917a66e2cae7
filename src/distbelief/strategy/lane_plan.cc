#include "distbelief/strategy/lane_plan.h"

#include <fmt/format.h>

#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::strategy {
namespace {

Carrier make_carrier(std::int64_t lanes, std::int64_t first, std::int64_t end) {
  std::vector<TreeNode> leaves;
  for (std::int64_t lane = first; lane < end; ++lane) leaves.push_back({lane, lane + 1});
  return {first, end, tree_program(lanes, leaves)};
}

// Groups the carriers' nodes by the host node that they add up to.
Host make_host(const LanePlan& plan, int first_carrier, int carriers, std::vector<TreeNode>& host_nodes) {
  Host host{first_carrier, carriers, {}};
  std::vector<TreeNode> inputs;
  std::vector<NodeSource> sources;
  for (int c = 0; c < carriers; ++c) {
    const auto& remainder = plan.carriers[std::size_t(first_carrier + c)].program.remainder;
    for (std::size_t slot = 0; slot < remainder.size(); ++slot) {
      inputs.push_back(remainder[slot]);
      sources.push_back({c, int(slot)});
    }
  }
  const TreeProgram program = tree_program(plan.lanes, inputs);
  std::size_t input = 0;
  for (const TreeNode& node : program.remainder) {
    HostNode& made = host.nodes.emplace_back();
    for (; input < inputs.size() && inputs[input].end <= node.end; ++input) {
      made.sources.push_back(sources[input]);
      made.merges.push_back(program.merges[input]);
    }
    host_nodes.push_back(node);
  }
  return host;
}

void add_hosts(LanePlan& plan, const std::vector<int>& workers_per_host, int threads) {
  std::vector<TreeNode> nodes;
  int first = 0;
  for (int workers : workers_per_host) {
    plan.hosts.push_back(make_host(plan, first, workers * threads, nodes));
    first += workers * threads;
  }
  const TreeProgram whole = tree_program(plan.lanes, nodes);
  DISTBELIEF_INVARIANT(whole.remainder.size() == 1);
  plan.merges_of_hosts = whole.merges;
}

}  // namespace

std::vector<std::int64_t> deal_lanes(std::int64_t lanes, int workers, const std::vector<int>& resting) {
  std::vector<std::int64_t> dealt(std::size_t(workers), 1);
  for (const int worker : resting) dealt[std::size_t(worker)] = 0;
  const std::int64_t working = std::accumulate(dealt.begin(), dealt.end(), std::int64_t{0});
  std::int64_t before = 0;  // workers that have got theirs
  for (std::int64_t& share : dealt) {
    if (share == 0) continue;
    share = lanes * (before + 1) / working - lanes * before / working;
    ++before;
  }
  return dealt;
}

LanePlan plan_lanes(std::int64_t lanes, const std::vector<int>& workers_per_host, int threads) {
  const int carriers = threads * std::accumulate(workers_per_host.begin(), workers_per_host.end(), 0);
  if (lanes < carriers)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} lanes cannot keep {} workers x {} threads busy: set parallel.lanes to {} or more, or "
                    "use fewer workers",
                    lanes, carriers / threads, threads, carriers));
  LanePlan plan;
  plan.lanes = lanes;
  for (int c = 0; c < carriers; ++c)
    plan.carriers.push_back(make_carrier(lanes, lanes * c / carriers, lanes * (c + 1) / carriers));
  add_hosts(plan, workers_per_host, threads);
  return plan;
}

LanePlan plan_lanes(const std::vector<std::int64_t>& lanes_of_workers,
                    const std::vector<int>& workers_per_host, int threads) {
  LanePlan plan;
  plan.lanes = std::accumulate(lanes_of_workers.begin(), lanes_of_workers.end(), std::int64_t{0});
  std::int64_t first = 0;
  for (const std::int64_t lanes : lanes_of_workers) {
    DISTBELIEF_INVARIANT(lanes == 0 || lanes >= threads);
    for (int t = 0; t < threads; ++t)
      plan.carriers.push_back(
          make_carrier(plan.lanes, first + lanes * t / threads, first + lanes * (t + 1) / threads));
    first += lanes;
  }
  add_hosts(plan, workers_per_host, threads);
  return plan;
}

SliceShare slice_share(const LanePlan& plan, int host, int carrier_of_host) {
  const Host& place = plan.hosts[std::size_t(host)];
  const auto has_lanes = [&](int carrier) {
    const Carrier& one = plan.carriers[std::size_t(place.first_carrier + carrier)];
    return one.first_lane < one.end_lane;
  };
  SliceShare share{0, 0};
  for (int c = 0; c < place.carriers; ++c) {
    if (!has_lanes(c)) continue;
    if (c < carrier_of_host) ++share.member;
    ++share.members;
  }
  if (share.members == 0) return {place.carriers, carrier_of_host};
  if (!has_lanes(carrier_of_host)) share.member = share.members;
  return share;
}

}  // namespace distbelief::strategy
