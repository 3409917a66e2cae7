#pragma once

#include <mpi.h>

#include <chrono>
#include <vector>

#include "distbelief/comm/link.h"

namespace distbelief::comm {

// Messages over a duplicate of an MPI communicator. Waits spin briefly, then sleep, so more ranks than cores
// are slow but not stuck. Several threads may use it: they take turns calling MPI, and a waiting thread gives
// up its turn.
class MpiLink final : public Link {
 public:
  // `names` are the ranks to use in messages when they differ from those of `comm`.
  MpiLink(MPI_Comm comm, std::chrono::nanoseconds deadline, std::vector<int> names = {});
  ~MpiLink() override;

  Request start_send(const std::byte* data, std::size_t bytes, int to, int tag) override;
  Request start_receive(std::byte* data, std::size_t bytes, int from, int tag) override;
  void wait(std::span<Request> requests, const char* operation) override;
  bool test(Request& request, const char* operation) override;

  MPI_Comm comm() const { return comm_; }

 private:
  [[noreturn]] void time_out(const Request& request, const char* operation) const;

  MPI_Comm comm_;
  std::chrono::nanoseconds deadline_;
  std::vector<int> names_;
};

}  // namespace distbelief::comm
