#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "distbelief/comm/rpc/control_server.h"
#include "distbelief/comm/rpc/messages.h"

// Private to this folder.
namespace distbelief::comm {

class WorkerStream;

// The connected workers: all open streams, and the worker that each has named. Thread safe; calls the handler
// without holding its lock.
class Roster {
 public:
  explicit Roster(ControlServer::Handler& handler) : handler_(handler) {}

  // Called by the streams. After leave() the roster no longer touches the stream.
  void open(WorkerStream& stream);
  grpc::Status report(WorkerStream& stream, const WorkerReport& report);
  void leave(WorkerStream& stream);

  bool order(int generation, int rank, const wire::Order& order);
  void heartbeat();
  // Finishes all streams; from now on lost() is not called, and new streams end at once.
  void close();

 private:
  using Key = std::pair<int, int>;  // generation, rank
  struct Member {
    std::optional<Key> key;
    bool ended = false;
  };

  grpc::Status enter(WorkerStream& stream, const WorkerReport& report);

  ControlServer::Handler& handler_;
  std::mutex mutex_;
  std::map<WorkerStream*, Member> members_;
  std::map<Key, WorkerStream*> by_key_;
  bool closed_ = false;
};

}  // namespace distbelief::comm
