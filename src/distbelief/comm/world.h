#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/host_order.h"
#include "distbelief/comm/communicator.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/comm/link_communicator.h"

namespace distbelief {

// The workers of a run: their ranks, their hosts, and how they talk. Ranks are ordered so that the workers of
// a host are consecutive, and hosts so that groups of ranks share one where they can. One thread makes it
// once; it outlives everything built on it.
class World {
 public:
  // When a process is still missing after the deadline (at least a minute), MPI's start, or its end in
  // close(), cannot be interrupted: the process logs that and exits with 1, or waits as long as MPI does.
  enum class StuckStart { kEndsProcess, kWaits };
  struct Options {
    comm::Algorithm algorithm = comm::Algorithm::kDirect;  // between hosts
    std::chrono::nanoseconds deadline = std::chrono::seconds(120);
    RankGroups groups{};
    StuckStart stuck_start = StuckStart::kEndsProcess;
  };

  // Joins all processes of this MPI job, or makes a world of this process alone when no launcher started it.
  // Initialises MPI unless that is done already, and then finalizes it in close(). comm/mpi/world.h makes a
  // world from the caller's MPI_Comm. Throws Error(kBadInput) when MPI has already been finalized.
  static World create(Options options);
  static World create() { return create(Options{}); }

  World(World&&) noexcept;
  ~World();  // without close() MPI stays as it is

  int rank() const;
  int size() const;
  // The number of a rank in messages: the rank itself or, in a part, its rank in the world that was split.
  // The ranks of a part are evenly spaced there, name_stride() apart.
  int name(int rank) const;
  int name_stride() const;
  int host() const;  // index of this worker's host
  int hosts() const;
  int local_rank() const;
  int local_size() const;
  const std::vector<int>& workers_per_host() const;
  const Options& options() const;
  std::string mpi_version() const;

  comm::Communicator& communicator();    // all workers: shared memory inside a host, MPI between hosts
  comm::HostCommunicator& host_group();  // the workers of this host
  comm::LinkCommunicator* leaders();     // one worker per host; null on all others
  // The leaders again, over a link that the borrower has to itself until it gives it back: it may be used
  // beside communicator(), on its own thread. All leaders borrow and give back in the same order.
  using Leaders = std::unique_ptr<comm::LinkCommunicator, std::function<void(comm::LinkCommunicator*)>>;
  Leaders borrow_leaders();

  // Collective: the world of the ranks that gave the same color, in the same order. It ends with this one.
  World split(int color);
  // Point-to-point messages between any two workers, also of different hosts.
  comm::Link& link();

  // Tells the other workers that this one failed: workers of this host that wait for it stop at once. Returns
  // whether this was the first failure of its host.
  bool abort(const std::string& message);
  // Ends every process of the MPI job with this exit code; for a worker that cannot continue.
  [[noreturn]] void abort_job(int exit_code);
  // Collective: meets all others, then finalizes MPI if create() initialised it, and otherwise frees the MPI
  // objects that this world made.
  void close();

  struct State;  // for comm/mpi
  explicit World(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace distbelief
