#include "distbelief/comm/mpi/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/comm/mpi/check.h"
#include "distbelief/comm/mpi/link.h"
#include "distbelief/comm/mpi/start_watch.h"
#include "distbelief/comm/two_level.h"

namespace distbelief {

using comm::check_mpi;
using comm::rank_in;
using comm::size_of;

struct World::State {
  Options options;
  MPI_Comm comm = MPI_COMM_NULL;  // its ranks in order
  bool owns_mpi = false;
  bool closed = false;
  int host = 0;
  int local_rank = 0;
  std::vector<int> workers_per_host;
  int first_name = 0;   // name of rank 0 in the world that was split
  int name_stride = 1;  // step to the next rank's name
  std::vector<int> leader_names;
  std::unique_ptr<comm::LinkCommunicator> world;
  std::unique_ptr<comm::HostCommunicator> host_group;
  std::unique_ptr<comm::LinkCommunicator> leaders;
  std::unique_ptr<comm::Communicator> two_level;
  std::vector<std::unique_ptr<comm::LinkCommunicator>> lent;  // all ever made
  std::vector<comm::LinkCommunicator*> idle;                  // those not lent now
  // Communicators of this world and its parts, in the order they were made; freed when this world is closed.
  std::shared_ptr<std::vector<MPI_Comm>> made;
  bool is_part = false;

  MPI_Comm keep(MPI_Comm comm) {
    if (comm != MPI_COMM_NULL) made->push_back(comm);
    return comm;
  }
  // A communicator over a copy of `comm`.
  std::unique_ptr<comm::LinkCommunicator> over(MPI_Comm comm, std::vector<int> names,
                                               std::chrono::nanoseconds deadline) {
    auto link = std::make_unique<comm::MpiLink>(comm, deadline, std::move(names));
    keep(link->comm());
    return std::make_unique<comm::LinkCommunicator>(std::move(link), options.algorithm);
  }
  std::unique_ptr<comm::LinkCommunicator> between_hosts(MPI_Comm comm) {
    const int largest_host = *std::max_element(workers_per_host.begin(), workers_per_host.end());
    return over(comm, leader_names, comm::host_deadline(options.deadline, largest_host));
  }
};

namespace {

// Loading the libraries from a cold disk takes tens of seconds, however short the workers' deadline is.
std::chrono::nanoseconds start_deadline(const World::Options& options) {
  constexpr std::chrono::minutes kShortest{1};
  if (options.stuck_start == World::StuckStart::kWaits) return comm::StartWatch::kNever;
  return std::max<std::chrono::nanoseconds>(options.deadline, kShortest);
}

MPI_Comm split(MPI_Comm comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, color, key, &part), "MPI_Comm_split");
  return part;
}

// Each rank's host. Hosts are numbered in the order of their first rank, unless another order lets groups
// share hosts better.
std::vector<int> hosts_of_ranks(MPI_Comm comm, MPI_Comm same_host, const RankGroups& groups) {
  int first = rank_in(comm);
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, same_host), "MPI_Bcast");
  std::vector<int> firsts(std::size_t(size_of(comm)));
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, comm), "MPI_Allgather");
  std::vector<int> order = firsts;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<int> workers(order.size());
  for (int& value : firsts) {
    value = int(std::lower_bound(order.begin(), order.end(), value) - order.begin());
    ++workers[std::size_t(value)];
  }
  std::vector<int> places(order.size());
  for (int place = 0; const std::size_t host : host_order(workers, groups)) places[host] = place++;
  for (int& value : firsts) value = places[std::size_t(value)];
  return firsts;
}

void require_threads(int provided, int hosts) {
  if (hosts > 1 && provided < MPI_THREAD_SERIALIZED)
    throw Error(
        ErrorCode::kBadInput,
        "MPI was initialised without MPI_THREAD_SERIALIZED, which training over several hosts needs; call "
        "MPI_Init_thread(..., MPI_THREAD_SERIALIZED, ...) or let World::create() do it");
}

void require_living_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized)
    throw Error(
        ErrorCode::kBadInput,
        "MPI has been ended in this process and cannot begin again; make one World, and close() it when "
        "all is done");
}

std::unique_ptr<World::State> state_with(const World::Options& options) {
  auto state = std::make_unique<World::State>();
  state->options = options;
  state->made = std::make_shared<std::vector<MPI_Comm>>();
  return state;
}

World make_world(MPI_Comm comm, comm::StartWatch& watch, std::unique_ptr<World::State> state) {
  const World::Options& options = state->options;
  const int first_name = state->first_name, name_stride = state->name_stride;
  const auto name = [&](int rank) { return first_name + rank * name_stride; };
  watch.set_rank(name(rank_in(comm)));
  watch.enter("finding who shares a host");
  MPI_Comm same_host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank_in(comm), MPI_INFO_NULL, &same_host),
            "MPI_Comm_split_type");
  state->keep(same_host);
  const std::vector<int> hosts = hosts_of_ranks(comm, same_host, options.groups);
  state->host = hosts[std::size_t(rank_in(comm))];
  state->local_rank = rank_in(same_host);
  state->workers_per_host.resize(std::size_t(*std::max_element(hosts.begin(), hosts.end()) + 1));
  for (int host : hosts) ++state->workers_per_host[std::size_t(host)];
  int provided = 0;
  check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  require_threads(provided, int(state->workers_per_host.size()));

  watch.enter("making communicators");
  MPI_Comm ordered = state->keep(split(comm, 0, state->host * size_of(comm) + state->local_rank));
  MPI_Comm leaders =
      state->keep(split(ordered, state->local_rank == 0 ? 0 : MPI_UNDEFINED, rank_in(ordered)));
  const std::vector<int>& counts = state->workers_per_host;
  std::vector<int> firsts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), firsts.begin(), 0);
  const int first = firsts[std::size_t(state->host)];
  const auto names_of = [&](std::vector<int> ranks) {
    std::transform(ranks.begin(), ranks.end(), ranks.begin(), name);
    return ranks;
  };
  std::vector<int> all(static_cast<std::size_t>(size_of(comm)));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> neighbours(all.begin() + first,
                                    all.begin() + first + counts[static_cast<std::size_t>(state->host)]);
  state->comm = ordered;
  state->world = state->over(ordered, names_of(all), options.deadline);
  state->host_group =
      std::make_unique<comm::HostCommunicator>(state->over(same_host, names_of(neighbours), options.deadline),
                                               options.deadline, name(first), name_stride);
  state->leader_names = names_of(firsts);
  if (leaders != MPI_COMM_NULL) state->leaders = state->between_hosts(leaders);
  if (state->workers_per_host.size() > 1) {
    state->two_level = std::make_unique<comm::TwoLevelCommunicator>(
        comm::TwoLevelCommunicator::Options{.first_rank = first,
                                            .ranks_per_host = state->workers_per_host,
                                            .host = state->host_group.get(),
                                            .leaders = state->leaders.get(),
                                            .world = state->world.get()});
  }
  return World(std::move(state));
}

}  // namespace

World World::create(Options options) {
  require_living_mpi();
  comm::StartWatch watch(start_deadline(options));
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (!initialised) {
    watch.enter("MPI_Init_thread");
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  }
  auto state = state_with(options);
  state->owns_mpi = !initialised;
  return make_world(MPI_COMM_WORLD, watch, std::move(state));
}

World world_from(MPI_Comm comm, World::Options options) {
  require_living_mpi();
  comm::StartWatch watch(start_deadline(options));
  return make_world(comm, watch, state_with(options));
}

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World::~World() = default;

int World::rank() const { return state_->world->rank(); }
int World::size() const { return state_->world->size(); }
int World::name(int rank) const { return state_->first_name + rank * state_->name_stride; }
int World::name_stride() const { return state_->name_stride; }
int World::host() const { return state_->host; }
int World::hosts() const { return int(state_->workers_per_host.size()); }
int World::local_rank() const { return state_->local_rank; }
int World::local_size() const { return state_->workers_per_host[std::size_t(state_->host)]; }
const std::vector<int>& World::workers_per_host() const { return state_->workers_per_host; }
const World::Options& World::options() const { return state_->options; }

std::string World::mpi_version() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string full(text, std::size_t(length));
  std::string line = full.substr(0, full.find_first_of("\n,"));
  std::replace(line.begin(), line.end(), '\t', ' ');  // MPICH puts a tab before its version
  return line;
}

comm::Communicator& World::communicator() {
  if (state_->two_level) return *state_->two_level;
  return *state_->host_group;
}
comm::HostCommunicator& World::host_group() { return *state_->host_group; }
comm::LinkCommunicator* World::leaders() { return state_->leaders.get(); }

World::Leaders World::borrow_leaders() {
  State* const state = state_.get();
  if (!state->leaders) return {};
  if (state->idle.empty()) {
    comm::StartWatch watch(start_deadline(state->options));
    watch.set_rank(name(rank()));
    watch.enter("making a link between hosts");
    const auto& link = static_cast<const comm::MpiLink&>(state->leaders->link());
    state->lent.push_back(state->between_hosts(link.comm()));
    state->idle.push_back(state->lent.back().get());
  }
  comm::LinkCommunicator* const chosen = state->idle.back();
  state->idle.pop_back();
  return {chosen, [state](comm::LinkCommunicator* leaders) { state->idle.push_back(leaders); }};
}

comm::Link& World::link() { return state_->world->link(); }

// Each part gets its own communicator: groups change with a generation, not with a step.
World World::split(int color) {
  comm::StartWatch watch(start_deadline(state_->options));
  watch.set_rank(name(rank()));
  watch.enter("splitting the world");
  MPI_Comm part = state_->keep(distbelief::split(state_->comm, color, rank()));
  std::vector<int> names(std::size_t(size_of(part)));
  const int own = name(rank());
  check_mpi(MPI_Allgather(&own, 1, MPI_INT, names.data(), 1, MPI_INT, part), "MPI_Allgather");
  Options options = state_->options;
  options.groups = {};  // keeps the order of this world
  auto state = state_with(options);
  state->made = state_->made;
  state->is_part = true;
  state->first_name = names[0];
  state->name_stride = names.size() > 1 ? names[1] - names[0] : 1;
  return make_world(part, watch, std::move(state));
}

bool World::abort(const std::string& message) {
  return state_->host_group->domain().abort().set(name(rank()), message);
}

void World::abort_job(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);  // MPI_Abort of some implementations may return
}

void World::close() {
  if (state_->closed) return;
  state_->closed = true;
  communicator().barrier();
  comm::StartWatch watch(start_deadline(state_->options));
  watch.set_rank(name(rank()));
  if (state_->owns_mpi) {
    watch.enter("MPI_Finalize");
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  } else if (!state_->is_part) {
    watch.enter("MPI_Comm_free");
    for (MPI_Comm& comm : *state_->made) check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
    state_->made->clear();
  }
}

}  // namespace distbelief
