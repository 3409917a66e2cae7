#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/communicator.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/comm/world.h"

// Every way in which ranks can talk, under one roof. All of it is collective over all ranks.
namespace distbelief::conformance {

// A communicator under test and the memory that its operations should be given.
class Backend {
 public:
  explicit Backend(std::string name) : name_(std::move(name)) {}
  virtual ~Backend() = default;

  const std::string& name() const { return name_; }
  virtual comm::Communicator& communicator() = 0;
  // Room for `bytes`, at the same place for all ranks; overwritten by the next call.
  virtual std::byte* memory(std::size_t bytes);
  // The order of sums: how many ranks, one after another, are added in the fixed tree (base/tree.h) before
  // the sums of such groups are, in the tree over groups. One group on one host or over a link, else one for
  // each host. None: round a ring, part by part.
  virtual std::vector<int> tree_groups() = 0;
  // Tells the other ranks of the host of a failure, as a worker does that ends with it; where there are
  // hosts.
  virtual void tell(const Error&) {}

 private:
  std::string name_;
  std::vector<std::byte> own_;
};

inline constexpr std::size_t kLargestBytes = std::size_t{3'000'000} * sizeof(float);

// The backends that apply to this world: those over one host's shared memory only where there is one host.
// The world outlives them.
std::vector<std::unique_ptr<Backend>> make_backends(World& world);

// One rank group whose waits end after `deadline`, for tests in which a rank is silent. Each is new.
std::unique_ptr<comm::Communicator> make_impatient_link(comm::Algorithm algorithm,
                                                        std::chrono::nanoseconds deadline);
std::unique_ptr<comm::HostCommunicator> make_impatient_host(std::chrono::nanoseconds deadline);
// Over `hosts`; of one machine the halves.
std::unique_ptr<Backend> make_impatient_hosts(int hosts, std::chrono::nanoseconds deadline);

}  // namespace distbelief::conformance
