#pragma once

#include <functional>

#include "distbelief/mesh/drift.h"
#include "distbelief/replica/replica.h"
#include "distbelief/run/fault.h"

namespace distbelief::train {

struct DriftCheckOptions {
  std::int64_t every = 0;                  // steps; 0: it does not look
  std::vector<run::Fault> faults{};        // of the run, among them drifts that are ordered
  run::Faults* own_faults = nullptr;       // of this worker; borrowed
  std::function<void()> void_snapshots{};  // those of this host are not to be trusted
  std::function<bool()> are_sent{};        // each host's snapshots have the state of workers of others
};

// Compares what the workers of a replica hold more than once (train.verify_every). Collective.
class DriftCheck {
 public:
  DriftCheck(replica::Replica& replica, DriftCheckOptions options)
      : replica_(replica),
        options_(std::move(options)) {}

  // After so many steps. Throws Error that names who differs.
  void check(std::int64_t step);

 private:
  void drift_on_order(std::int64_t step);
  void void_everywhere(const mesh::ReplicaDrift& drift);
  mesh::ReplicaHashes hashes();

  replica::Replica& replica_;
  DriftCheckOptions options_;
};

}  // namespace distbelief::train
