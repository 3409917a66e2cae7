#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::comm {

// The worker's end of the control connection: one stream to the supervisor, for as long as both live. It is
// never reopened: a worker without a supervisor belongs to no run. Any thread may call it, but a callback
// must not call close() or the destructor. Threads: `db-reports` sends, `db-orders` receives and makes both
// callbacks, which must not throw.
class ControlClient {
 public:
  struct Options {
    ControlAddress address{};
    std::function<void(const WorkerOrder&)> on_order{};  // not before the first report
    std::function<void()> on_lost{};  // once, when the supervisor is lost; not after close()
    std::chrono::milliseconds connect_deadline{10000};
  };

  // Blocks until the supervisor has answered, at most connect_deadline and a second. Throws Error:
  // kUnavailable when nothing listens there or our certificate is not accepted, kTimeout when it does not
  // answer, kBadInput when it refuses.
  explicit ControlClient(Options options);
  ~ControlClient();  // without close() the supervisor considers this worker lost

  // Never blocks. A report that could not be sent yet is replaced by the next one of the same state; a change
  // of state, and "ready", "failed" and "ended", always arrive. Dropped when not connected.
  void report(const WorkerReport& report);

  bool connected() const;
  // When the last message came from the supervisor, which sends a heartbeat each kHeartbeatInterval: a lease.
  std::chrono::steady_clock::time_point heard() const;

  // Waits at most 2 s until the supervisor has all reports, and ends the stream. Idempotent.
  void close();

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Sends one command to the supervisor, from any process. Throws Error: kUnavailable when nothing listens
// there, kTimeout when the deadline passes, kBadInput when our certificate is not an operator's.
CommandReply call_supervisor(const ControlAddress& address, const Command& command,
                             std::chrono::milliseconds deadline);

}  // namespace distbelief::comm
