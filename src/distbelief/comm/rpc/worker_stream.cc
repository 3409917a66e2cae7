#include "distbelief/comm/rpc/worker_stream.h"

#include <utility>

#include "distbelief/comm/rpc/roster.h"

namespace distbelief::comm {
namespace {

// A worker with this many unread orders counts as dead.
constexpr std::size_t kMostOrders = 1024;

}  // namespace

WorkerStream::WorkerStream(grpc::CallbackServerContext& context, Roster& roster)
    : context_(context),
      roster_(roster) {
  StartRead(&report_);  // before open(), which may finish the stream; gRPC begins after the constructor
  roster_.open(*this);
  heartbeat();  // tells the worker that it is accepted
}

void WorkerStream::OnReadDone(bool ok) {
  if (!ok) return stop(grpc::Status::OK);
  const grpc::Status status = roster_.report(*this, from_wire(report_));
  if (!status.ok()) return stop(status);
  StartRead(&report_);
}

void WorkerStream::stop(const grpc::Status& status) {
  roster_.leave(*this);
  const std::lock_guard lock(mutex_);
  // The other orders have no reader any more; the order being written belongs to gRPC until OnWriteDone.
  if (orders_.size() > 1) orders_.erase(orders_.begin() + 1, orders_.end());
  if (!writing_) orders_.clear();
  if (!finishing_) status_ = status;
  finishing_ = true;
  go_on();
}

void WorkerStream::send(wire::Order order) {
  const std::lock_guard lock(mutex_);
  if (finishing_) return;
  if (orders_.size() >= kMostOrders) return context_.TryCancel();
  orders_.push_back(std::move(order));
  go_on();
}

void WorkerStream::heartbeat() {
  const std::lock_guard lock(mutex_);
  if (finishing_ || writing_) return;
  orders_.emplace_back();
  go_on();
}

void WorkerStream::finish_after_orders(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (finishing_) return;
  finishing_ = true;
  status_ = status;
  go_on();
}

void WorkerStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (ok) {
    orders_.pop_front();
  } else {
    orders_.clear();  // the stream is broken: the read in flight fails too, and ends it
  }
  go_on();
}

void WorkerStream::go_on() {
  if (writing_ || finished_) return;
  if (!orders_.empty()) {
    writing_ = true;
    StartWrite(&orders_.front());
  } else if (finishing_) {
    finished_ = true;
    Finish(status_);
  }
}

}  // namespace distbelief::comm
