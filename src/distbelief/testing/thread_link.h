#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/link.h"

// A link between threads of one process, to test inter-host code without MPI. Messages are copied when sent,
// so a send completes at once.
namespace distbelief::testing {

// Holds the messages of a group between send and receive; outlives its links. Thread-safe.
class ThreadHub {
 public:
  using Message = std::vector<std::byte>;
  using Way = std::tuple<int, int, int>;  // from, to, tag

  void put(const Way& way, Message message) {
    const std::lock_guard lock(mutex_);
    queues_[way].push_back(std::move(message));
    arrived_.notify_all();
  }

  // Returns false when nothing arrived before `until`.
  bool take(const Way& way, std::chrono::steady_clock::time_point until, Message& message) {
    std::unique_lock lock(mutex_);
    std::deque<Message>& queue = queues_[way];
    if (!arrived_.wait_until(lock, until, [&] { return !queue.empty(); })) return false;
    message = std::move(queue.front());
    queue.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Way, std::deque<Message>> queues_;
};

class ThreadLink final : public comm::Link {
 public:
  ThreadLink(ThreadHub& hub, int rank, int size, std::chrono::nanoseconds deadline)
      : comm::Link(rank, size),
        hub_(hub),
        deadline_(deadline) {}

  Request start_send(const std::byte* data, std::size_t bytes, int to, int tag) override {
    hub_.put({rank(), to, tag}, {data, data + bytes});
    return {0, to, false};
  }

  Request start_receive(std::byte* data, std::size_t bytes, int from, int tag) override {
    receives_[next_] = {data, bytes, tag};
    return {next_++, from, true};
  }

  void wait(std::span<Request> requests, const char* operation) override {
    const auto until = std::chrono::steady_clock::now() + deadline_;
    for (const Request& request : requests)
      if (!came(request, until)) time_out(request, operation);
  }

  bool test(Request& request, const char* operation) override {
    const auto now = std::chrono::steady_clock::now();
    if (came(request, now)) return true;
    if (now - request.begun > deadline_) time_out(request, operation);
    return false;
  }

 private:
  struct Receive {
    std::byte* data;
    std::size_t bytes;
    int tag;
  };

  bool came(const Request& request, std::chrono::steady_clock::time_point until) {
    if (!request.receiving) return true;
    const Receive receive = receives_.at(request.id);
    ThreadHub::Message message;
    if (!hub_.take({request.peer, rank(), receive.tag}, until, message)) return false;
    DISTBELIEF_INVARIANT(message.size() == receive.bytes);
    if (receive.bytes > 0) std::memcpy(receive.data, message.data(), receive.bytes);
    receives_.erase(request.id);
    return true;
  }

  [[noreturn]] static void time_out(const Request& request, const char* operation) {
    throw Error(ErrorCode::kTimeout, fmt::format("rank {} did not send", request.peer),
                {.rank = request.peer, .operation = operation, .step = -1});
  }

  ThreadHub& hub_;
  std::chrono::nanoseconds deadline_;
  std::map<std::uint64_t, Receive> receives_;  // by request id
  std::uint64_t next_ = 0;
};

}  // namespace distbelief::testing
