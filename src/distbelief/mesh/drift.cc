#include "distbelief/mesh/drift.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace distbelief::mesh {
namespace {

int first_worker(const ReplicaHashes& hashes, int host) {
  return std::accumulate(hashes.workers_per_host.begin(), hashes.workers_per_host.begin() + host, 0);
}

void add_once(std::vector<int>& all, int one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

std::string verdict(const OddOnes& found, const std::vector<std::string>& names, const char* what) {
  return fmt::format("the {} of {} {}", what, fmt::join(names, " and "),
                     found.has_majority ? "differ from those of all others"
                                        : "differ, and no majority tells which are right");
}

}  // namespace

OddOnes find_odd_ones(std::span<const std::int64_t> hashes) {
  std::map<std::int64_t, std::size_t> votes;
  for (const std::int64_t hash : hashes) ++votes[hash];
  OddOnes result;
  if (votes.size() <= 1) return result;
  const auto most = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  result.has_majority = 2 * most->second > hashes.size();
  for (std::size_t i = 0; i < hashes.size(); ++i)
    if (!result.has_majority || hashes[i] != most->first) result.odd.push_back(int(i));
  return result;
}

ReplicaDrift find_drift(const ReplicaHashes& hashes) {
  ReplicaDrift drift;
  drift.hosts = find_odd_ones(hashes.parameters);
  const OddOnes carriers = find_odd_ones(hashes.buffers);
  drift.workers.has_majority = carriers.has_majority;
  for (const int carrier : carriers.odd) add_once(drift.workers.odd, carrier / hashes.threads);
  drift.untrusted = drift.hosts.odd;
  for (int host = 0; host < int(hashes.workers_per_host.size()); ++host) {
    // A host's snapshots hold the buffers of its first worker's first thread.
    const int keeper = first_worker(hashes, host) * hashes.threads;
    if (std::find(carriers.odd.begin(), carriers.odd.end(), keeper) != carriers.odd.end())
      add_once(drift.untrusted, host);
  }
  if (!drift.hosts.odd.empty() && drift.hosts.has_majority)
    drift.suspect = first_worker(hashes, drift.hosts.odd[0]);
  else if (!drift.workers.odd.empty() && drift.workers.has_majority)
    drift.suspect = drift.workers.odd[0];
  return drift;
}

std::string describe(const ReplicaDrift& drift, const ReplicaHashes& hashes,
                     const std::vector<std::string>& host_of_worker) {
  std::vector<std::string> found;
  if (!drift.hosts.odd.empty()) {
    std::vector<std::string> names;
    for (const int host : drift.hosts.odd) {
      std::vector<int> workers(std::size_t(hashes.workers_per_host[std::size_t(host)]));
      std::iota(workers.begin(), workers.end(), first_worker(hashes, host));
      names.push_back(fmt::format("host {} (workers {})", host_of_worker[std::size_t(workers[0])],
                                  fmt::join(workers, ", ")));
    }
    found.push_back(verdict(drift.hosts, names, "parameters"));
  }
  if (!drift.workers.odd.empty()) {
    std::vector<std::string> names;
    for (const int worker : drift.workers.odd)
      names.push_back(fmt::format("worker {} on host {}", worker, host_of_worker[std::size_t(worker)]));
    found.push_back(verdict(drift.workers, names, "buffers"));
  }
  return fmt::format(
      "replicas should have the same bits (train.verify_every), but {}; look for faulty memory or a faulty "
      "network there, and go on with distbelief resume without that machine",
      fmt::join(found, "; "));
}

}  // namespace distbelief::mesh
