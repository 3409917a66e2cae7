#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::comm {

// A worker's end: one stream to the supervisor, for as long as both live. It is not opened again: a worker
// without a supervisor belongs to no run. Any thread may call it, but close() and the destructor not from a
// callback. Threads: `db-reports` sends, `db-orders` receives and makes both callbacks, which must not throw.
class ControlClient {
 public:
  struct Options {
    ControlAddress address{};
    std::function<void(const WorkerOrder&)> on_order{};  // not before the first report
    std::function<void()> on_lost{};  // once, when the supervisor is gone; not after close()
    std::chrono::milliseconds connect_deadline{10000};
  };

  // Blocks until the supervisor has answered, at most connect_deadline and a second. Throws Error:
  // kUnavailable when nobody is there (or does not accept our certificate), kTimeout when it does not answer,
  // kBadInput when refused.
  explicit ControlClient(Options options);
  ~ControlClient();  // without close() the supervisor takes this worker for lost

  // Never blocks. Of reports that could not be sent yet, one is replaced by the next of the same state; a
  // change of state, and "ready", "failed" and "ended", always arrive. Dropped when not connected.
  void report(const WorkerReport& report);

  bool connected() const;
  // When anything last came from the supervisor, which sends a heartbeat each kHeartbeatInterval: a lease.
  std::chrono::steady_clock::time_point heard() const;

  // Waits until the supervisor has all reports, at most 2 s, and ends the stream. Idempotent.
  void close();

 private:
  class State;
  std::unique_ptr<State> state_;
};

// One command to the supervisor, from any process. Throws Error: kUnavailable when nobody is there, kTimeout
// when the deadline passes, kBadInput when our certificate is not an operator's.
CommandReply call_supervisor(const ControlAddress& address, const Command& command,
                             std::chrono::milliseconds deadline);

}  // namespace distbelief::comm
