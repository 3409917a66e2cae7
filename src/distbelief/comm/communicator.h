#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "distbelief/base/array.h"
#include "distbelief/comm/link.h"

namespace distbelief::comm {

// Memory that takes part in an operation; borrowed for its duration.
struct View {
  void* data = nullptr;
  std::size_t count = 0;
  ElementType type = ElementType::kFloat32;

  std::size_t bytes() const { return count * element_size(type); }
  View part(std::size_t begin, std::size_t end) const {
    return {static_cast<std::byte*>(data) + begin * element_size(type), end - begin, type};
  }
};

inline View view(float* data, std::size_t count) { return {data, count, ElementType::kFloat32}; }
inline View view(double* data, std::size_t count) { return {data, count, ElementType::kFloat64}; }
inline View view(std::int64_t* data, std::size_t count) { return {data, count, ElementType::kInt64}; }
inline View view(std::byte* data, std::size_t count) { return {data, count, ElementType::kUint8}; }

enum class ReduceOp { kSum, kMean };  // kMean: floating types only

// How ranks on different hosts combine: kDirect and kCentral add in the fixed tree order of base/tree.h
// (results do not depend on who adds), kRing adds in ring order.
enum class Algorithm { kDirect, kRing, kCentral };
std::string_view to_string(Algorithm algorithm);

// The part of `count` elements that belongs to `rank` after reduce_scatter and before allgather.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
};
Part part_of(std::size_t count, int size, int rank);

// A group of ranks that talk. Every call blocks until it has taken effect, works in place, and is collective:
// all ranks call it in the same order with equal counts and types (send and receive pair up). A call that
// waits past the deadline throws Error(kTimeout) naming rank and operation; after an error the communicator
// is unusable. One thread at a time.
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  virtual void allreduce(View values, ReduceOp op) = 0;
  // Afterwards part_of(count, size, rank) holds the result; the rest is unspecified.
  virtual void reduce_scatter(View values, ReduceOp op) = 0;
  // Each rank contributes part_of(count, size, rank); afterwards every rank has all parts.
  virtual void allgather(View values) = 0;
  virtual void broadcast(View values, int root) = 0;
  virtual void barrier() = 0;
  // The link that carries messages between two ranks.
  virtual Link& messages() = 0;

  void send(View values, int to, int tag);
  void receive(View values, int from, int tag);
  // Non-blocking send and receive: messages() waits for or tests them, and their memory stays borrowed until
  // then.
  [[nodiscard]] Link::Request start_send(View values, int to, int tag);
  [[nodiscard]] Link::Request start_receive(View values, int from, int tag);

 private:
  int rank_;
  int size_;
};

// Throws Error(kBadInput) when there is no such rank.
void require_rank(const Communicator& communicator, int rank);
// Throws Error(kBadInput) when the operation makes no sense for the type.
void require_reducible(const View& values, ReduceOp op);
// Divides the sum in `values` by `size` for kMean.
void finish_mean(const View& values, ReduceOp op, int size);
// out += in, element by element.
void accumulate(const View& out, const void* in);

}  // namespace distbelief::comm
