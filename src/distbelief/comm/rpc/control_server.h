#pragma once

#include <memory>
#include <string>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::comm {

// The supervisor's end of the control connections. Any thread may call it, the handler's functions included;
// only close() and the destructor must not run in a handler, because they wait for running handlers.
//
// The process may fork as long as the child only execs: all descriptors are close-on-exec, so the socket of a
// dead supervisor closes although its children live on. gRPC's own fork handlers (GRPC_ENABLE_FORK_SUPPORT)
// are off unless that variable is set; they are not needed and do no harm.
class ControlServer {
 public:
  // Called on gRPC's threads. report() and lost() of one worker are sequential, those of several workers
  // concurrent; they must be short, because heartbeats share their threads, and must not throw. command() has
  // its own thread and may take long; an exception becomes a reply that is not ok.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void report(const WorkerReport& report) = 0;
    // The worker's stream ended without the state "ended". Not called after close().
    virtual void lost(int generation, int rank) = 0;
    virtual CommandReply command(const Command& command) = 0;
  };

  // Throws Error: kBadInput for an address or certificate that cannot be used, kUnavailable when the address
  // is taken. The handler must outlive the server. A Unix socket gets mode 0600 only after it is made, so its
  // folder should be private too.
  ControlServer(const ControlAddress& address, Handler& handler);
  ~ControlServer();  // close()

  std::string target() const;  // as given, with the real port

  // Queues an order for a worker without waiting for its arrival. Returns false when no such worker is
  // connected (it is from its first report on). Throws Error(kBadInput) for an order without a kind or too
  // long to send.
  bool order(int generation, int rank, const WorkerOrder& order);

  // Sends the queued orders, ends all streams and stops listening; no handler runs afterwards. Idempotent.
  // Takes at most a second plus the time of running handlers.
  void close();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::comm
