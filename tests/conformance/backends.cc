#include "conformance/backends.h"

#include <fmt/format.h>
#include <mpi.h>

#include "distbelief/comm/async.h"
#include "distbelief/comm/mpi/link.h"
#include "distbelief/comm/mpi/world.h"
#include "distbelief/comm/two_level.h"

namespace distbelief::conformance {
namespace {

using comm::Algorithm;
using comm::Communicator;
using comm::ReduceOp;
using comm::View;

constexpr auto kDeadline = std::chrono::seconds(30);

std::unique_ptr<comm::LinkCommunicator> link_over(MPI_Comm group, Algorithm algorithm,
                                                  std::chrono::nanoseconds deadline,
                                                  std::vector<int> names = {}) {
  return std::make_unique<comm::LinkCommunicator>(
      std::make_unique<comm::MpiLink>(group, deadline, std::move(names)), algorithm);
}

class Borrowed final : public Backend {
 public:
  Borrowed(std::string name, Communicator& communicator, std::vector<int> groups)
      : Backend(std::move(name)),
        communicator_(communicator),
        groups_(std::move(groups)) {}
  Communicator& communicator() override { return communicator_; }
  std::vector<int> tree_groups() override { return groups_; }

 private:
  Communicator& communicator_;
  std::vector<int> groups_;
};

class OverLink final : public Backend {
 public:
  explicit OverLink(Algorithm algorithm)
      : Backend(std::string(to_string(algorithm))),
        communicator_(link_over(MPI_COMM_WORLD, algorithm, kDeadline)) {}
  Communicator& communicator() override { return *communicator_; }
  std::vector<int> tree_groups() override {
    if (communicator_->algorithm() == Algorithm::kRing) return {};
    return {communicator_->size()};
  }

 private:
  std::unique_ptr<comm::LinkCommunicator> communicator_;
};

// Memory inside the window: nothing is copied but the sum.
class InWindow final : public Backend {
 public:
  explicit InWindow(comm::HostCommunicator& host)
      : Backend("window"),
        host_(host),
        window_(host.allocate(kLargestBytes)) {}
  Communicator& communicator() override { return host_; }
  std::byte* memory(std::size_t) override { return window_.own(); }
  std::vector<int> tree_groups() override { return {host_.size()}; }

 private:
  comm::HostCommunicator& host_;
  comm::HostWindow& window_;
};

// The ranks of one machine taken for two hosts, the first with one rank more when they are odd.
class TwoLevel final : public Backend {
 public:
  explicit TwoLevel(Algorithm algorithm, std::chrono::nanoseconds deadline = kDeadline)
      : Backend(fmt::format("two_level_{}", to_string(algorithm))),
        world_(link_over(MPI_COMM_WORLD, Algorithm::kDirect, deadline)) {
    const int first_half = (world_->size() + 1) / 2;
    groups_ = {first_half, world_->size() - first_half};
    const int host = world_->rank() < first_half ? 0 : 1;
    MPI_Comm neighbours = MPI_COMM_NULL, leaders = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, host, world_->rank(), &neighbours);
    const int first_rank = host == 0 ? 0 : first_half;
    MPI_Comm_split(MPI_COMM_WORLD, world_->rank() == first_rank ? 0 : MPI_UNDEFINED, world_->rank(),
                   &leaders);
    host_ = std::make_unique<comm::HostCommunicator>(link_over(neighbours, Algorithm::kDirect, kDeadline),
                                                     deadline, first_rank);
    if (leaders != MPI_COMM_NULL)
      leaders_ = link_over(leaders, algorithm, comm::host_deadline(deadline, first_half), {0, first_half});
    communicator_ = std::make_unique<comm::TwoLevelCommunicator>(
        comm::TwoLevelCommunicator::Options{.first_rank = first_rank,
                                            .ranks_per_host = groups_,
                                            .host = host_.get(),
                                            .leaders = leaders_.get(),
                                            .world = world_.get()});
  }
  Communicator& communicator() override { return *communicator_; }
  std::vector<int> tree_groups() override { return groups_; }  // a ring of two adds as the tree does
  void tell(const Error& error) override { host_->domain().abort().set(world_->rank(), error.what()); }

 private:
  std::vector<int> groups_;
  std::unique_ptr<comm::LinkCommunicator> world_;
  std::unique_ptr<comm::HostCommunicator> host_;
  std::unique_ptr<comm::LinkCommunicator> leaders_;
  std::unique_ptr<comm::TwoLevelCommunicator> communicator_;
};

// The same between hosts that are some, which a world finds by itself.
class OnHosts final : public Backend {
 public:
  explicit OnHosts(Algorithm algorithm, std::chrono::nanoseconds deadline = kDeadline)
      : Backend(fmt::format("two_level_{}", to_string(algorithm))),
        world_(world_from(MPI_COMM_WORLD, {.algorithm = algorithm, .deadline = deadline})) {}
  Communicator& communicator() override { return world_.communicator(); }
  std::vector<int> tree_groups() override { return world_.workers_per_host(); }
  void tell(const Error& error) override { world_.abort(error.what()); }

 private:
  World world_;
};

// Messages as handles.
class HandleLink final : public comm::Link {
 public:
  HandleLink(int rank, int size, comm::AsyncCommunicator& async) : Link(rank, size), async_(async) {}

  Request start_send(const std::byte* data, std::size_t bytes, int to, int tag) override {
    handles_.push_back(async_.send(comm::view(const_cast<std::byte*>(data), bytes), to, tag));
    return {handles_.size() - 1, to, false};
  }
  Request start_receive(std::byte* data, std::size_t bytes, int from, int tag) override {
    handles_.push_back(async_.receive(comm::view(data, bytes), from, tag));
    return {handles_.size() - 1, from, true};
  }
  void wait(std::span<Request> requests, const char*) override {
    for (const Request& request : requests) handles_[request.id].wait();
  }
  bool test(Request& request, const char*) override {
    if (!handles_[request.id].done()) return false;
    handles_[request.id].wait();
    return true;
  }

 private:
  comm::AsyncCommunicator& async_;
  std::vector<comm::Handle> handles_;
};

// Every operation as a handle that is waited for: the same results through the communicator's thread.
class ThroughHandles final : public Communicator {
 public:
  explicit ThroughHandles(Communicator& below)
      : Communicator(below.rank(), below.size()),
        async_(below),
        messages_(below.rank(), below.size(), async_) {}

  void allreduce(View values, ReduceOp op) override { async_.allreduce(values, op).wait(); }
  void reduce_scatter(View values, ReduceOp op) override { async_.reduce_scatter(values, op).wait(); }
  void allgather(View values) override { async_.allgather(values).wait(); }
  void broadcast(View values, int root) override { async_.broadcast(values, root).wait(); }
  void barrier() override { async_.barrier().wait(); }
  comm::Link& messages() override { return messages_; }

 private:
  comm::AsyncCommunicator async_;
  HandleLink messages_;
};

class Async final : public Backend {
 public:
  explicit Async(Backend& below) : Backend("async_" + below.name()), below_(below) {}
  Communicator& communicator() override {
    // Made anew for every test, because an operation that was refused is the last one of its thread.
    communicator_ = std::make_unique<ThroughHandles>(below_.communicator());
    return *communicator_;
  }
  std::byte* memory(std::size_t bytes) override { return below_.memory(bytes); }
  std::vector<int> tree_groups() override { return below_.tree_groups(); }

 private:
  Backend& below_;
  std::unique_ptr<ThroughHandles> communicator_;
};

}  // namespace

std::byte* Backend::memory(std::size_t bytes) {
  if (own_.size() < bytes) own_.resize(bytes);
  return own_.data();
}

std::vector<std::unique_ptr<Backend>> make_backends(World& world) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kCentral})
    backends.push_back(std::make_unique<OverLink>(algorithm));
  backends.push_back(std::make_unique<Borrowed>("auto", world.communicator(), world.workers_per_host()));
  if (world.hosts() == 1) {
    backends.push_back(std::make_unique<Borrowed>("host", world.host_group(), world.workers_per_host()));
    backends.push_back(std::make_unique<InWindow>(world.host_group()));
  }
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kCentral}) {
    if (world.hosts() > 1) backends.push_back(std::make_unique<OnHosts>(algorithm));
    if (world.hosts() == 1 && world.size() > 1) backends.push_back(std::make_unique<TwoLevel>(algorithm));
  }
  for (std::size_t i = 0, blocking = backends.size(); i < blocking; ++i)
    backends.push_back(std::make_unique<Async>(*backends[i]));
  return backends;
}

std::unique_ptr<Communicator> make_impatient_link(Algorithm algorithm, std::chrono::nanoseconds deadline) {
  return link_over(MPI_COMM_WORLD, algorithm, deadline);
}

std::unique_ptr<Backend> make_impatient_hosts(int hosts, std::chrono::nanoseconds deadline) {
  if (hosts > 1) return std::make_unique<OnHosts>(Algorithm::kDirect, deadline);
  return std::make_unique<TwoLevel>(Algorithm::kDirect, deadline);
}

std::unique_ptr<comm::HostCommunicator> make_impatient_host(std::chrono::nanoseconds deadline) {
  return std::make_unique<comm::HostCommunicator>(link_over(MPI_COMM_WORLD, Algorithm::kDirect, kDeadline),
                                                  deadline);
}

}  // namespace distbelief::conformance
