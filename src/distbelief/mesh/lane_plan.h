#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/tree.h"

// Which carrier computes which lanes, and in what order their gradients are added. Pure. A carrier is
// a worker, or one of its threads when a worker carries several lanes at a time.
namespace distbelief::mesh {

struct Carrier {
  std::int64_t first_lane = 0;  // its lanes lie in [first_lane, end_lane); all of these, when dealt in runs
  std::int64_t end_lane = 0;
  std::vector<std::int64_t> lanes;  // in the order in which it carries them
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

// Lanes of a host that are carried at the same time, one by each of `carriers` (of this host), in the order
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
  std::vector<HostNode> nodes{};  // their sources only when dealt in runs
  std::vector<Round> rounds{};    // only when dealt in rounds
};

// kRuns: a carrier has lanes next to each other, and adds up its own. kRounds: the carriers of a host take
// turns, so that lanes come in order round by round, and whoever adds them needs no more than a stack.
enum class Dealing { kRuns, kRounds };

struct LanePlan {
  std::int64_t lanes = 1;         // of the job, carried here or elsewhere
  std::vector<Carrier> carriers;  // all, in order of lanes
  std::vector<Host> hosts;
  std::vector<int> merges_of_hosts;  // how the hosts' nodes, one after another, add up to the whole
};

// So many lanes for each worker, as even as can be; none for those that rest.
std::vector<std::int64_t> deal_lanes(std::int64_t lanes, int workers, const std::vector<int>& resting);

// Lanes are dealt out in order, as evenly as can be. Throws Error(kBadInput) when there are more
// carriers than lanes.
LanePlan plan_lanes(std::int64_t lanes, const std::vector<int>& workers_per_host, int threads,
                    Dealing dealing = Dealing::kRuns);
// Only the lanes of `part`, a node of the tree over all lanes: others are carried elsewhere.
LanePlan plan_part(std::int64_t lanes, TreeNode part, const std::vector<int>& workers_per_host, int threads,
                   Dealing dealing = Dealing::kRuns);
// With so many lanes for each worker, dealt out to its threads as evenly as can be. A worker has none, or one
// for each thread at least.
LanePlan plan_lanes(const std::vector<std::int64_t>& lanes_of_workers,
                    const std::vector<int>& workers_per_host, int threads, Dealing dealing = Dealing::kRuns);

// A carrier's share of adding up and updating on its host: one of `members` equal slices. Carriers without
// lanes have none (member == members), unless no carrier of the host has any.
struct SliceShare {
  int members = 1;
  int member = 0;
};
SliceShare slice_share(const LanePlan& plan, int host, int carrier_of_host);

}  // namespace distbelief::mesh
