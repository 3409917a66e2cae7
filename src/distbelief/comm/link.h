#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace distbelief::comm {

// Point-to-point messages between the ranks of a group; the algorithms below are written on it. Messages
// between two ranks with one tag arrive in the order sent. One thread at a time.
class Link {
 public:
  struct Request {
    std::uint64_t id = 0;
    int peer = -1;
    bool receiving = false;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  };

  Link(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Start a transfer; the memory stays borrowed until wait() returns.
  [[nodiscard]] virtual Request start_send(const std::byte* data, std::size_t bytes, int to, int tag) = 0;
  [[nodiscard]] virtual Request start_receive(std::byte* data, std::size_t bytes, int from, int tag) = 0;
  // Blocks until all are done. Throws Error(kTimeout) naming `operation` and the silent rank.
  virtual void wait(std::span<Request> requests, const char* operation) = 0;
  // Returns whether the transfer is done, without blocking; a request that is done is over. Throws as wait()
  // does once the deadline since its start has passed.
  [[nodiscard]] virtual bool test(Request& request, const char* operation) = 0;

 private:
  int rank_;
  int size_;
};

}  // namespace distbelief::comm
