#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "distbelief/comm/communicator.h"

namespace distbelief::comm {

// An operation in flight. wait() blocks until it is done and rethrows its error.
class [[nodiscard]] Handle {
 public:
  explicit Handle(std::shared_future<void> done) : done_(std::move(done)) {}
  void wait() const { done_.get(); }
  bool done() const { return done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

 private:
  std::shared_future<void> done_;
};

// Communicator operations as handles. One thread carries them out in the order given and is the only user of
// the communicator meanwhile. Messages start in that order and overlap the operations that follow, so all
// ranks may send first. Memory stays borrowed until the handle is done. After a failure every later operation
// fails with the same error. The destructor lets started operations finish (each has its deadline).
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
  using Promise = std::shared_ptr<std::promise<void>>;
  struct Transfer {
    Link::Request request;
    const char* operation;
    Promise done;
  };

  Handle enqueue(std::function<void()> operation);
  Handle enqueue_transfer(std::function<Link::Request()> start, const char* operation);
  Handle push(std::function<void(const Promise&)> task);
  bool test_transfers();
  void fail(std::promise<void>& promise);
  void run(const std::stop_token& stop);

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> queue_;
  std::list<Transfer> transfers_;  // in flight; only the thread uses it and failure_
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace distbelief::comm
