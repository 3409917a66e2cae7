#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <mutex>

#include "distbelief/comm/rpc/messages.h"

// Private to this folder.
namespace distbelief::comm {

class Roster;

// The server's side of one worker's stream. gRPC owns it: it deletes itself in OnDone. It is in the roster
// until no more reports can come, and finishes only after it has left, so the roster never holds a dead
// stream.
class WorkerStream final : public grpc::ServerBidiReactor<wire::Report, wire::Order> {
 public:
  WorkerStream(grpc::CallbackServerContext& context, Roster& roster);

  void send(wire::Order order);
  void heartbeat();  // skipped while something else is being sent
  void finish_after_orders(const grpc::Status& status);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }
  void stop(const grpc::Status& status);
  void go_on();  // with mutex_ held: starts the next write, or the end

  grpc::CallbackServerContext& context_;
  Roster& roster_;
  wire::Report report_;
  std::mutex mutex_;
  std::deque<wire::Order> orders_;  // the first one is being written when writing_
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  grpc::Status status_;
};

// Ends an unwanted stream.
class RefusedStream final : public grpc::ServerBidiReactor<wire::Report, wire::Order> {
 public:
  explicit RefusedStream(const grpc::Status& why) { Finish(why); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace distbelief::comm
