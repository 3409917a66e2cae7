#include "distbelief/comm/async.h"

#include <pthread.h>

#include <optional>

#include "distbelief/comm/idle_work.h"

namespace distbelief::comm {

AsyncCommunicator::AsyncCommunicator(Communicator& communicator)
    : communicator_(communicator),
      thread_([this](const std::stop_token& stop) { run(stop); }) {
  pthread_setname_np(thread_.native_handle(), "db-comm");
}

AsyncCommunicator::~AsyncCommunicator() {
  thread_.request_stop();
  wake_.notify_all();
}

void AsyncCommunicator::run(const std::stop_token& stop) {
  constexpr std::chrono::microseconds kNap{50};
  const auto is_there = [&] { return !queue_.empty(); };
  for (;;) {
    std::unique_lock lock(mutex_);
    if (transfers_.empty())
      wake_.wait(lock, stop, is_there);
    else
      wake_.wait_for(lock, kNap, is_there);
    if (queue_.empty() && transfers_.empty()) return;
    std::function<void()> task;
    if (!queue_.empty()) {
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    lock.unlock();
    // Another rank may reach this operation only after it has received the transfers in flight from here.
    std::optional<IdleWork> meanwhile;
    if (task && !transfers_.empty()) meanwhile.emplace([this] { return test_transfers(); });
    if (task) task();
    meanwhile.reset();
    test_transfers();
  }
}

bool AsyncCommunicator::test_transfers() {
  const std::size_t before = transfers_.size();
  std::erase_if(transfers_, [this](Transfer& transfer) {
    try {
      if (!communicator_.messages().test(transfer.request, transfer.operation)) return false;
      transfer.done->set_value();
    } catch (...) {
      fail(*transfer.done);
    }
    return true;
  });
  return transfers_.size() < before;
}

void AsyncCommunicator::fail(std::promise<void>& promise) {
  if (!failure_) failure_ = std::current_exception();
  promise.set_exception(std::current_exception());
}

Handle AsyncCommunicator::push(std::function<void(const Promise&)> task) {
  const auto promise = std::make_shared<std::promise<void>>();
  Handle handle(promise->get_future().share());
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back([this, promise, task = std::move(task)] {
      try {
        if (failure_) std::rethrow_exception(failure_);
        task(promise);
      } catch (...) {
        fail(*promise);
      }
    });
  }
  wake_.notify_one();
  return handle;
}

Handle AsyncCommunicator::enqueue(std::function<void()> operation) {
  return push([operation = std::move(operation)](const Promise& done) {
    operation();
    done->set_value();
  });
}

Handle AsyncCommunicator::enqueue_transfer(std::function<Link::Request()> start, const char* operation) {
  return push([this, start = std::move(start), operation](const Promise& done) {
    transfers_.push_back({start(), operation, done});
  });
}

Handle AsyncCommunicator::allreduce(View values, ReduceOp op) {
  return enqueue([=, this] { communicator_.allreduce(values, op); });
}
Handle AsyncCommunicator::reduce_scatter(View values, ReduceOp op) {
  return enqueue([=, this] { communicator_.reduce_scatter(values, op); });
}
Handle AsyncCommunicator::allgather(View values) {
  return enqueue([=, this] { communicator_.allgather(values); });
}
Handle AsyncCommunicator::broadcast(View values, int root) {
  return enqueue([=, this] { communicator_.broadcast(values, root); });
}
Handle AsyncCommunicator::barrier() {
  return enqueue([this] { communicator_.barrier(); });
}
Handle AsyncCommunicator::send(View values, int to, int tag) {
  return enqueue_transfer([=, this] { return communicator_.start_send(values, to, tag); }, "send");
}
Handle AsyncCommunicator::receive(View values, int from, int tag) {
  return enqueue_transfer([=, this] { return communicator_.start_receive(values, from, tag); }, "receive");
}

}  // namespace distbelief::comm
