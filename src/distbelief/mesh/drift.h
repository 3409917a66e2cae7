#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Finds copies that should have the same bits but differ. Pure.
namespace distbelief::mesh {

// The odd ones out among hashes that should be equal.
struct OddOnes {
  std::vector<int> odd;      // indices; empty: all are equal
  bool has_majority = true;  // false: no value has a majority, so all count as odd
};
OddOnes find_odd_ones(std::span<const std::int64_t> hashes);

// Hashes of everything that exists more than once: parameters once per host, buffers once per carrier.
struct ReplicaHashes {
  std::vector<std::int64_t> parameters{};  // per host
  std::vector<std::int64_t> buffers{};     // per thread, worker by worker
  int threads = 1;
  std::vector<int> workers_per_host{};
};

struct ReplicaDrift {
  OddOnes hosts;               // hosts whose parameters differ
  OddOnes workers;             // workers with a thread whose buffers differ
  std::vector<int> untrusted;  // hosts whose snapshots may hold differing values
  int suspect = -1;            // the first worker at fault; -1: no majority

  bool found() const { return !hosts.odd.empty() || !workers.odd.empty(); }
};
ReplicaDrift find_drift(const ReplicaHashes& hashes);

// Says which values differ, where, and how to proceed. `host_of_worker` holds the host name of each worker.
std::string describe(const ReplicaDrift& drift, const ReplicaHashes& hashes,
                     const std::vector<std::string>& host_of_worker);

}  // namespace distbelief::mesh
