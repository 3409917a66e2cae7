#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/host_name.h"
#include "distbelief/comm/texts.h"
#include "distbelief/train/trainer.h"

// Comparing the replicas (train.verify_every): the part of Trainer that looks for drift.
namespace distbelief::train {
namespace {

std::int64_t hash_of(const void* data, std::size_t bytes) {
  return std::bit_cast<std::int64_t>(xxh3(data, bytes));
}

void flip_a_bit(float& value) { value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U); }

}  // namespace

// Needs no barrier: nobody changes parameters before this worker, too, has handed in gradients of the next
// step.
mesh::ReplicaHashes Trainer::replica_hashes() {
  World& world = peers();
  mesh::ReplicaHashes hashes{.threads = group().threads(), .workers_per_host = world.workers_per_host()};
  const auto hosts = std::size_t(world.hosts());
  std::vector<std::int64_t> all(hosts + std::size_t(world.size() * hashes.threads));
  for (int stage = 0; stage < int(stages_.size()); ++stage) {
    const mesh::AllreduceGroup& group = *stages_[std::size_t(stage)].group;
    if (world.local_rank() == 0 && !group.gathers_between_hosts())  // else no host has what another has
      all[std::size_t(world.host())] ^= hash_of(group.parameters(), group.layout().size() * sizeof(float));
    for (int t = 0; t < hashes.threads; ++t) {
      compute::BufferSet& buffers = team_->buffers(stage, t);
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

// Whether it is ordered for some worker is the same on all, so the barrier is too.
void Trainer::drift_on_order() {
  const bool ordered = std::any_of(
      options_.faults.begin(), options_.faults.end(),
      [&](const run::Fault& fault) { return fault.kind == "drift" && fault.step == progress_.step; });
  if (!ordered) return;
  if (faults_->drifts(progress_.step)) {
    compute::BufferSet& buffers = team_->buffers(0, 0);
    std::vector<float> values(buffers.size());
    if (peers().hosts() > 1) {
      flip_a_bit(group().parameters()[0]);
    } else if (!values.empty()) {
      buffers.read(values);
      flip_a_bit(values[0]);
      buffers.write(values);
    } else {
      spdlog::warn("no drift: workers of one host share one replica of a model without buffers");
    }
  }
  group().barrier();  // all of the host see it before one takes its hash
}

void Trainer::verify() {
  drift_on_order();
  const std::int64_t every = job_.config.train.verify_every;
  if (every == 0 || progress_.step % every != 0) return;
  const mesh::ReplicaHashes hashes = replica_hashes();
  const mesh::ReplicaDrift drift = mesh::find_drift(hashes);
  if (!drift.found()) return;
  const auto& untrusted = drift.untrusted;
  const bool void_snapshots =
      std::find(untrusted.begin(), untrusted.end(), peers().host()) != untrusted.end();
  if (snapshotter_ && peers().local_rank() == 0 && void_snapshots) snapshotter_->make_void();
  // Also keeps the first to fail from ending the others before their snapshots are void.
  const std::vector<std::string> hosts = comm::exchange_texts(peers().communicator(), host_name());
  throw Error(ErrorCode::kInternal, mesh::describe(drift, hashes, hosts),
              {.rank = drift.suspect < 0 ? -1 : peers().name(drift.suspect),
               .operation = "compare replicas",
               .step = progress_.step});
}

}  // namespace distbelief::train
