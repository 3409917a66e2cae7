#include "distbelief/train/drift_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/host_name.h"
#include "distbelief/comm/texts.h"
#include "distbelief/run/checkpointer.h"

namespace distbelief::train {
namespace {

std::int64_t hash_of(const void* data, std::size_t bytes) {
  return std::bit_cast<std::int64_t>(xxh3(data, bytes));
}

void flip_a_bit(float& value) { value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U); }

}  // namespace

// Needs no barrier: nobody changes parameters before this worker, too, has handed in gradients of the next
// step.
mesh::ReplicaHashes DriftCheck::hashes() {
  World& world = replica_.partition().peers();
  mesh::ReplicaHashes hashes{.threads = replica_.group().threads(),
                             .workers_per_host = world.workers_per_host()};
  const auto hosts = std::size_t(world.hosts());
  std::vector<std::int64_t> all(hosts + std::size_t(world.size() * hashes.threads));
  for (int stage = 0; stage < int(replica_.stages().size()); ++stage) {
    const mesh::AllreduceGroup& group = *replica_.stages()[std::size_t(stage)].group;
    if (world.local_rank() == 0 && !group.gathers_between_hosts())  // else no host has what another has
      all[std::size_t(world.host())] ^= hash_of(group.parameters(), group.layout().size() * sizeof(float));
    for (int t = 0; t < hashes.threads; ++t) {
      compute::BufferSet& buffers = replica_.team().buffers(stage, t);
      std::vector<float> values(buffers.size());
      buffers.read(values);
      all[hosts + std::size_t(world.rank() * hashes.threads + t)] ^=
          hash_of(values.data(), values.size() * sizeof(float));
    }
  }
  world.communicator().allreduce(comm::view(all.data(), all.size()), comm::ReduceOp::kSum);
  hashes.parameters.assign(all.begin(), all.begin() + std::ptrdiff_t(hosts));
  hashes.buffers.assign(all.begin() + std::ptrdiff_t(hosts), all.end());
  return hashes;
}

// All workers know whether it is ordered for some worker, so all come to the barrier or none.
void DriftCheck::drift_on_order(std::int64_t step) {
  const bool ordered =
      std::any_of(options_.faults.begin(), options_.faults.end(),
                  [&](const run::Fault& fault) { return fault.kind == "drift" && fault.step == step; });
  if (!ordered) return;
  if (options_.own_faults->drifts(step)) {
    compute::BufferSet& buffers = replica_.team().buffers(0, 0);
    std::vector<float> values(buffers.size());
    if (replica_.partition().peers().hosts() > 1) {
      flip_a_bit(replica_.group().parameters()[0]);
    } else if (!values.empty()) {
      buffers.read(values);
      flip_a_bit(values[0]);
      buffers.write(values);
    } else {
      spdlog::warn("no drift: workers of one host share one copy of a model without buffers");
    }
  }
  replica_.group().barrier();  // all of the host see it before one takes its hash
}

// Collective over all workers.
void DriftCheck::void_everywhere(const mesh::ReplicaDrift& drift) {
  World& world = replica_.world();
  std::int64_t found = drift.found() ? 1 : 0;
  world.communicator().allreduce(comm::view(&found, 1), comm::ReduceOp::kSum);
  if (found == 0) return;
  if (world.local_rank() == 0) options_.void_snapshots();
  world.communicator().barrier();  // before the first that fails ends the others
}

void DriftCheck::check(std::int64_t step) {
  drift_on_order(step);
  if (options_.every == 0 || step % options_.every != 0) return;
  World& peers = replica_.partition().peers();
  const mesh::ReplicaHashes found = hashes();
  const mesh::ReplicaDrift drift = mesh::find_drift(found);
  if (options_.are_sent()) void_everywhere(drift);
  if (!drift.found()) return;
  const auto& untrusted = drift.untrusted;
  if (peers.local_rank() == 0 &&
      std::find(untrusted.begin(), untrusted.end(), peers.host()) != untrusted.end())
    options_.void_snapshots();
  // Also keeps the first to fail from ending the others before their snapshots are void.
  const std::vector<std::string> hosts = comm::exchange_texts(peers.communicator(), host_name());
  throw Error(ErrorCode::kInternal, mesh::describe(drift, found, hosts),
              {.rank = drift.suspect < 0 ? -1 : peers.name(drift.suspect),
               .operation = "compare replicas",
               .step = step});
}

}  // namespace distbelief::train
