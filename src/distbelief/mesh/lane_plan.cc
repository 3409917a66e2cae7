#include "distbelief/mesh/lane_plan.h"

#include <fmt/format.h>

#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

Carrier make_carrier(std::int64_t lanes, std::int64_t first, std::int64_t end) {
  std::vector<TreeNode> leaves;
  Carrier carrier{first, end, {}, {}};
  for (std::int64_t lane = first; lane < end; ++lane) {
    leaves.push_back({lane, lane + 1});
    carrier.lanes.push_back(lane);
  }
  carrier.program = tree_program(lanes, leaves);
  return carrier;
}

// Groups the carriers' nodes by the host node that contains them.
Host make_host(const LanePlan& plan, int first_carrier, int carriers, std::vector<TreeNode>& host_nodes) {
  Host host{.first_carrier = first_carrier, .carriers = carriers};
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

// Deals the host's lanes again in turns: each carrier keeps its number of lanes, and the first round has the
// first lanes.
Host deal_in_rounds(LanePlan& plan, int first_carrier, int carriers, std::vector<TreeNode>& host_nodes) {
  Host host{.first_carrier = first_carrier, .carriers = carriers};
  const auto carrier = [&](int c) -> Carrier& { return plan.carriers[std::size_t(first_carrier + c)]; };
  const std::int64_t first = carrier(0).first_lane, end = carrier(carriers - 1).end_lane;
  std::vector<TreeNode> leaves;
  for (std::int64_t lane = first; lane < end; ++lane) leaves.push_back({lane, lane + 1});
  const TreeProgram program = tree_program(plan.lanes, leaves);
  std::vector<std::size_t> counts;
  for (int c = 0; c < carriers; ++c) {
    counts.push_back(carrier(c).lanes.size());
    carrier(c) = Carrier{};
  }
  int height = 0;
  for (std::int64_t lane = first; lane < end;) {
    Round round{.before = height, .after = 0, .carriers = {}, .merges = {}};
    for (int c = 0; c < carriers; ++c) {
      if (counts[std::size_t(c)] <= host.rounds.size()) continue;
      carrier(c).lanes.push_back(lane);
      round.carriers.push_back(c);
      round.merges.push_back(program.merges[std::size_t(lane - first)]);
      height += 1 - round.merges.back();
      ++lane;
    }
    round.after = height;
    host.rounds.push_back(std::move(round));
  }
  for (int c = 0; c < carriers; ++c)
    if (!carrier(c).lanes.empty()) {
      carrier(c).first_lane = carrier(c).lanes.front();
      carrier(c).end_lane = carrier(c).lanes.back() + 1;
    }
  host.nodes.resize(program.remainder.size());
  host_nodes.insert(host_nodes.end(), program.remainder.begin(), program.remainder.end());
  return host;
}

void add_hosts(LanePlan& plan, const std::vector<int>& workers_per_host, int threads, Dealing dealing) {
  std::vector<TreeNode> nodes;
  int first = 0;
  for (int workers : workers_per_host) {
    const int carriers = workers * threads;
    const std::int64_t first_lane = plan.carriers[std::size_t(first)].first_lane;
    const std::int64_t end_lane = plan.carriers[std::size_t(first + carriers - 1)].end_lane;
    plan.hosts.push_back(dealing == Dealing::kRuns ? make_host(plan, first, carriers, nodes)
                                                   : deal_in_rounds(plan, first, carriers, nodes));
    plan.hosts.back().first_lane = first_lane;
    plan.hosts.back().end_lane = end_lane;
    first += carriers;
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
  std::int64_t before = 0;  // workers that have their lanes
  for (std::int64_t& share : dealt) {
    if (share == 0) continue;
    share = lanes * (before + 1) / working - lanes * before / working;
    ++before;
  }
  return dealt;
}

LanePlan plan_lanes(std::int64_t lanes, const std::vector<int>& workers_per_host, int threads,
                    Dealing dealing) {
  return plan_part(lanes, {0, lanes}, workers_per_host, threads, dealing);
}

LanePlan plan_part(std::int64_t lanes, TreeNode part, const std::vector<int>& workers_per_host, int threads,
                   Dealing dealing) {
  const std::int64_t count = part.end - part.begin;
  const int carriers = threads * std::accumulate(workers_per_host.begin(), workers_per_host.end(), 0);
  if (count < carriers)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} lanes cannot keep {} workers x {} threads busy: set parallel.lanes to {} or more, or "
                    "use fewer workers",
                    count, carriers / threads, threads, carriers));
  LanePlan plan;
  plan.lanes = lanes;
  for (int c = 0; c < carriers; ++c)
    plan.carriers.push_back(
        make_carrier(lanes, part.begin + count * c / carriers, part.begin + count * (c + 1) / carriers));
  add_hosts(plan, workers_per_host, threads, dealing);
  return plan;
}

LanePlan plan_lanes(const std::vector<std::int64_t>& lanes_of_workers,
                    const std::vector<int>& workers_per_host, int threads, Dealing dealing) {
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
  add_hosts(plan, workers_per_host, threads, dealing);
  return plan;
}

SliceShare slice_share(const LanePlan& plan, int host, int carrier_of_host) {
  const Host& place = plan.hosts[std::size_t(host)];
  const auto has_lanes = [&](int carrier) {
    const Carrier& one = plan.carriers[std::size_t(place.first_carrier + carrier)];
    return !one.lanes.empty();
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

}  // namespace distbelief::mesh
