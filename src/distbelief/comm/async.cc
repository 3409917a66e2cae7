#include "distbelief/comm/async.h"

#include <pthread.h>

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
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, stop, [&] { return !queue_.empty(); });
    if (queue_.empty()) return;
    std::packaged_task<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
  }
}

Handle AsyncCommunicator::enqueue(std::function<void()> operation) {
  std::packaged_task<void()> task([this, operation = std::move(operation)] {
    if (failure_) std::rethrow_exception(failure_);
    try {
      operation();
    } catch (...) {
      failure_ = std::current_exception();  // only this thread reads and writes it
      throw;
    }
  });
  Handle handle(task.get_future().share());
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
  return handle;
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
  return enqueue([=, this] { communicator_.send(values, to, tag); });
}
Handle AsyncCommunicator::receive(View values, int from, int tag) {
  return enqueue([=, this] { communicator_.receive(values, from, tag); });
}

}  // namespace distbelief::comm
