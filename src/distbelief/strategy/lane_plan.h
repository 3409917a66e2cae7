#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/tree.h"

// Which carrier computes which lanes, and in what order their gradients are added. Pure. A carrier is
// a worker, or one of its threads when a worker carries several lanes at a time.
namespace distbelief::strategy {

struct Carrier {
  std::int64_t first_lane = 0;
  std::int64_t end_lane = 0;
  // The lanes' gradients are pushed on a stack of gradient buffers: lane i goes on top, then the two
  // topmost are merged program.merges[i - first_lane] times. program.remainder is what is handed over.
  TreeProgram program;
};

// Gradient buffers to add: carrier `carrier` of this host, slot `slot` of its stack.
struct NodeSource {
  int carrier = 0;
  int slot = 0;
};

// One node of the tree that a host hands to the others, and how it is made from its carriers' buffers.
struct HostNode {
  std::vector<NodeSource> sources;
  std::vector<int> merges;
};

struct Host {
  int first_carrier = 0;
  int carriers = 0;
  std::vector<HostNode> nodes;
};

struct LanePlan {
  std::int64_t lanes = 1;
  std::vector<Carrier> carriers;  // all, in order of lanes
  std::vector<Host> hosts;
  std::vector<int> merges_of_hosts;  // how the hosts' nodes, one after another, add up to the whole
};

// So many lanes for each worker, as even as can be; none for those that rest.
std::vector<std::int64_t> deal_lanes(std::int64_t lanes, int workers, const std::vector<int>& resting);

// Lanes are dealt out in order, as evenly as can be. Throws Error(kBadInput) when there are more
// carriers than lanes.
LanePlan plan_lanes(std::int64_t lanes, const std::vector<int>& workers_per_host, int threads);
// With so many lanes for each worker, dealt out to its threads as evenly as can be. A worker has none, or one
// for each thread at least.
LanePlan plan_lanes(const std::vector<std::int64_t>& lanes_of_workers,
                    const std::vector<int>& workers_per_host, int threads);

// A carrier's share of adding up and updating on its host: one of `members` equal slices. Carriers without
// lanes have none (member == members), unless no carrier of the host has any.
struct SliceShare {
  int members = 1;
  int member = 0;
};
SliceShare slice_share(const LanePlan& plan, int host, int carrier_of_host);

}  // namespace distbelief::strategy
