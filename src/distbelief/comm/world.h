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

// The workers of a run: who is there, on which host, and how they talk. Ranks are ordered so that the
// workers of a host are consecutive, and hosts so that groups of ranks share one where they can. Made once,
// by one thread; outlives everything built on it.
class World {
 public:
  // When not all processes have come within the deadline, a minute at least: MPI's own start, and its end in
  // close(), cannot be left, so it is said, and the process ends with 1, or waits for as long as MPI does.
  enum class StuckStart { kEndsProcess, kWaits };
  struct Options {
    comm::Algorithm algorithm = comm::Algorithm::kDirect;  // between hosts
    std::chrono::nanoseconds deadline = std::chrono::seconds(120);
    RankGroups groups{};
    StuckStart stuck_start = StuckStart::kEndsProcess;
  };

  // All processes of this MPI job, or this process alone where no launcher started it. Initialises MPI
  // when nobody has, and then ends it in close(). comm/mpi/world.h makes one from an MPI_Comm of yours.
  // Throws Error(kBadInput) when MPI has been ended already.
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
  // The leaders once more, over a link that is the borrower's alone until it gives it back: it may then talk
  // beside communicator(), from a thread of its own. All borrow and give back in the same order.
  using Leaders = std::unique_ptr<comm::LinkCommunicator, std::function<void(comm::LinkCommunicator*)>>;
  Leaders borrow_leaders();

  // Collective: the world of those who gave the same color, in the same order. Ends with this one.
  World split(int color);
  // Point-to-point messages between any two workers, also of different hosts.
  comm::Link& link();

  // Tells the other workers that this one failed: whoever waits for it on this host stops at once.
  // Whether it was the first of its host.
  bool abort(const std::string& message);
  // Ends every process of the MPI job with this exit code; for a worker that cannot go on.
  [[noreturn]] void abort_job(int exit_code);
  // Collective: meets all others, then ends MPI if create() began it, or else gives MPI back what it took.
  void close();

  struct State;  // for comm/mpi
  explicit World(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace distbelief
