#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>

#include "distbelief/comm/communicator.h"

namespace distbelief::comm {

// An operation under way. wait() blocks until it is done and throws what it threw.
class [[nodiscard]] Handle {
 public:
  explicit Handle(std::shared_future<void> done) : done_(std::move(done)) {}
  void wait() const { done_.get(); }
  bool done() const { return done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

 private:
  std::shared_future<void> done_;
};

// The same operations as handles: one thread of its own carries them out in the order given, so it is
// the only one that uses the communicator meanwhile. Memory stays borrowed until the handle is done.
// After a failure every later operation fails in the same way. The destructor lets what was started
// finish (each operation has its deadline).
class AsyncCommunicator {
 public:
  explicit AsyncCommunicator(Communicator& communicator);
  ~AsyncCommunicator();

  Handle allreduce(View values, ReduceOp op);
  Handle reduce_scatter(View values, ReduceOp op);
  Handle allgather(View values);
  Handle broadcast(View values, int root);
  Handle barrier();
  Handle send(View values, int to, int tag);
  Handle receive(View values, int from, int tag);

 private:
  Handle enqueue(std::function<void()> operation);
  void run(const std::stop_token& stop);

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::packaged_task<void()>> queue_;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace distbelief::comm
