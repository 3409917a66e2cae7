#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Replicas that should have the same bits and do not. Pure.
namespace distbelief::mesh {

// Which of several hashes that should be equal is the odd one out.
struct OddOnes {
  std::vector<int> odd;      // places; empty: all are equal
  bool has_majority = true;  // without one nobody knows which is right, and all count as odd
};
OddOnes find_odd_ones(std::span<const std::int64_t> hashes);

// What is there more than once: parameters once per host, buffers once per carrier.
struct ReplicaHashes {
  std::vector<std::int64_t> parameters{};  // of each host
  std::vector<std::int64_t> buffers{};     // of each worker's threads, worker by worker
  int threads = 1;
  std::vector<int> workers_per_host{};
};

struct ReplicaDrift {
  OddOnes hosts;               // whose parameters differ
  OddOnes workers;             // whose buffers differ, one thread's being enough
  std::vector<int> untrusted;  // hosts whose snapshots may hold what differs
  int suspect = -1;            // the first worker that is to blame; -1: no majority says who

  bool found() const { return !hosts.odd.empty() || !workers.odd.empty(); }
};
ReplicaDrift find_drift(const ReplicaHashes& hashes);

// What differs, where, and what to do. `host_of_worker` has the name of each worker's host.
std::string describe(const ReplicaDrift& drift, const ReplicaHashes& hashes,
                     const std::vector<std::string>& host_of_worker);

}  // namespace distbelief::mesh
