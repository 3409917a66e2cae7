#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/host_order.h"
#include "distbelief/comm/communicator.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/comm/link_communicator.h"

namespace distbelief {

// The workers of a run: who is there, on which host, and how they talk. Ranks are ordered so that the
// workers of a host are consecutive, and hosts so that groups of ranks share one where they can. Made once,
// by one thread; outlives everything built on it.
class World {
 public:
  struct Options {
    comm::Algorithm algorithm = comm::Algorithm::kDirect;  // between hosts
    std::chrono::nanoseconds deadline = std::chrono::seconds(120);
    RankGroups groups{};
  };

  // All processes of this MPI job, or this process alone where no launcher started it. Initialises MPI
  // when nobody has, and then ends it in close(). comm/mpi/world.h makes one from an MPI_Comm of yours. When
  // not all of them have come within the deadline, a minute at least, it says so and ends the process: MPI's
  // own start cannot be left.
  static World create(Options options);
  static World create() { return create(Options{}); }

  World(World&&) noexcept;
  ~World();  // without close(): leaves MPI as it is

  int rank() const;
  int size() const;
  // What messages call a rank: itself, or its rank in the world that this one was split from, in which the
  // ranks of a part are equally far from each other.
  int name(int rank) const;
  int name_stride() const;
  int host() const;  // index of this worker's host
  int hosts() const;
  int local_rank() const;
  int local_size() const;
  const std::vector<int>& workers_per_host() const;
  const Options& options() const;
  std::string mpi_version() const;

  comm::Communicator& communicator();    // everyone: shared memory inside a host, MPI between hosts
  comm::HostCommunicator& host_group();  // the workers of this host
  comm::LinkCommunicator* leaders();     // one worker per host; null on all others

  // Collective: the world of those who gave the same color, in the same order. Ends with this one.
  World split(int color);
  // Point-to-point messages between any two workers, also of different hosts.
  comm::Link& link();

  // Tells the other workers that this one failed: whoever waits for it on this host stops at once.
  // Whether it was the first of its host.
  bool abort(const std::string& message);
  // Ends every process of the MPI job with this exit code; for a worker that cannot go on.
  [[noreturn]] void abort_job(int exit_code);
  // Collective: meets all others, then ends MPI if create() began it.
  void close();

  struct State;  // for comm/mpi
  explicit World(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace distbelief
