#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/tree.h"

// Which carrier computes which lanes, and in what order gradients are added. Pure. A carrier is a worker, or
// one of its threads when a worker carries several lanes at once.
namespace distbelief::mesh {

struct Carrier {
  std::int64_t first_lane = 0;  // its lanes lie in [first_lane, end_lane); with kRuns all of them are its own
  std::int64_t end_lane = 0;
  std::vector<std::int64_t> lanes;  // in the order of execution
  // The lanes' gradients are pushed on a stack of buffers: after lane i is pushed, the two topmost entries
  // are merged program.merges[i - first_lane] times. program.remainder lists the nodes that are handed over.
  TreeProgram program;
};

// A gradient buffer to add: slot `slot` on the stack of carrier `carrier` of this host.
struct NodeSource {
  int carrier = 0;
  int slot = 0;
};

// One tree node that a host hands to the others, and how it is built from its carriers' buffers.
struct HostNode {
  std::vector<NodeSource> sources;
  std::vector<int> merges;
};

// Lanes of a host that run at the same time, one on each of `carriers` (indices on this host), in the order
// of lanes. Their gradients are pushed on a stack that has `before` entries when the round begins; after
// input i the two topmost are merged merges[i] times.
struct Round {
  int before = 0;
  int after = 0;
  std::vector<int> carriers;
  std::vector<int> merges;
};

struct Host {
  int first_carrier = 0;
  int carriers = 0;
  std::int64_t first_lane = 0;
  std::int64_t end_lane = 0;
  std::vector<HostNode> nodes{};  // with kRuns they have sources
  std::vector<Round> rounds{};    // only with kRounds
};

// kRuns: a carrier has consecutive lanes and sums its own. kRounds: the carriers of a host take turns, so
// that lanes arrive in order round by round and their owners need only a stack to sum them.
enum class Dealing { kRuns, kRounds };

struct LanePlan {
  std::int64_t lanes = 1;         // lanes of the job, including those carried elsewhere
  std::vector<Carrier> carriers;  // all carriers, in order of lanes
  std::vector<Host> hosts;
  std::vector<int> merges_of_hosts;  // how the hosts' nodes, concatenated, are merged into the whole
};

// The lanes of each worker, as even as possible; resting workers get none.
std::vector<std::int64_t> deal_lanes(std::int64_t lanes, int workers, const std::vector<int>& resting);

// Deals lanes in order, as evenly as possible. Throws Error(kBadInput) when there are more carriers than
// lanes.
LanePlan plan_lanes(std::int64_t lanes, const std::vector<int>& workers_per_host, int threads,
                    Dealing dealing = Dealing::kRuns);
// Plans only the lanes of `part`, a node of the tree over all lanes; the others are carried elsewhere.
LanePlan plan_part(std::int64_t lanes, TreeNode part, const std::vector<int>& workers_per_host, int threads,
                   Dealing dealing = Dealing::kRuns);
// Plans the given number of lanes per worker, dealt to its threads as evenly as possible. A worker has none,
// or at least one per thread.
LanePlan plan_lanes(const std::vector<std::int64_t>& lanes_of_workers,
                    const std::vector<int>& workers_per_host, int threads, Dealing dealing = Dealing::kRuns);

// A carrier's share of summing and updating on its host: one of `members` equal slices. A carrier without
// lanes has none (member == members), unless no carrier of the host has lanes.
struct SliceShare {
  int members = 1;
  int member = 0;
};
SliceShare slice_share(const LanePlan& plan, int host, int carrier_of_host);

}  // namespace distbelief::mesh
