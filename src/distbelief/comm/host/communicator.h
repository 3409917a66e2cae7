#pragma once

#include <memory>
#include <vector>

#include "distbelief/comm/communicator.h"
#include "distbelief/comm/host/domain.h"

namespace distbelief::comm {

// One piece of memory per rank of a host; every rank can read and write all of them. Collectives on memory
// inside it move only the sum.
class HostWindow {
 public:
  HostWindow(SharedSegment segment, std::size_t bytes_per_rank, int rank)
      : segment_(std::move(segment)),
        stride_(bytes_per_rank),
        rank_(rank) {}
  std::byte* own() const { return of(rank_); }
  std::byte* of(int rank) const { return segment_.data() + std::size_t(rank) * stride_; }
  std::size_t bytes() const { return stride_; }
  bool holds(const View& values) const {
    const auto* begin = static_cast<const std::byte*>(values.data);
    return begin >= own() && begin + values.bytes() <= own() + stride_;
  }

 private:
  SharedSegment segment_;
  std::size_t stride_;
  int rank_;
};

// Ranks of one host over shared memory. Sums are in tree order over the ranks. All ranks allocate a window
// together and pass the same place in it; other memory travels through a staging area.
//   allreduce of V bytes over n ranks: in a window each rank reads V and writes V (V/n of every rank's copy;
//   for large V a faster rank takes more); outside a window V is also copied in and out.
// Point-to-point messages and the first meeting go over `transport`.
class HostCommunicator final : public Communicator {
 public:
  // `first_rank`: the world rank of this host's first rank; `rank_stride`: the step to the next one's. Both
  // are for messages only.
  HostCommunicator(std::unique_ptr<Communicator> transport, std::chrono::nanoseconds deadline,
                   int first_rank = 0, int rank_stride = 1);
  ~HostCommunicator() override;

  // Shared memory that such a communicator of `ranks` takes for its own use.
  static std::size_t staging_bytes(int ranks);

  // Collective. The window lives as long as the communicator, or until free().
  HostWindow& allocate(std::size_t bytes_per_rank);
  void free(const HostWindow& window);  // each rank calls it once nobody uses the window

  void allreduce(View values, ReduceOp op) override;
  void reduce_scatter(View values, ReduceOp op) override;
  void allgather(View values) override;
  void broadcast(View values, int root) override;
  void barrier() override;
  Link& messages() override { return transport_->messages(); }

  // Broadcast and barrier for a first rank that may still be waiting for other hosts: the other ranks wait
  // longer for it.
  void broadcast_after_first(View values);
  void barrier_after_first();

  HostDomain& domain() { return *domain_; }
  Communicator& transport() { return *transport_; }

 private:
  struct Pieces;

  const HostWindow* window_of(const View& values) const;
  std::vector<std::byte*> copies_in(const HostWindow& window, const View& values) const;
  void reduce_in_window(const HostWindow& window, const View& values, ReduceOp op);
  std::byte* staging(int rank, int half) const;
  std::byte* result(int half) const { return staging(size(), half); }
  void reduce_staged(View chunk, ReduceOp op, int half);
  void spread(View values, int root, HostDomain::Arrival arrival);

  std::unique_ptr<Communicator> transport_;
  SharedSegment segment_;
  std::unique_ptr<HostDomain> domain_;
  Pieces* pieces_ = nullptr;  // in the segment
  std::vector<std::unique_ptr<HostWindow>> windows_;
  int half_ = 0;
};

}  // namespace distbelief::comm
