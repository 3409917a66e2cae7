#pragma once

#include <memory>
#include <string>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::comm {

// The supervisor's end. Any thread may call it, the handler's functions included, but for close() and the
// destructor, which wait for handlers under way.
//
// The process may fork as long as the child only execs: all descriptors are close-on-exec, so a dead
// supervisor's socket closes although its children live on. gRPC's own fork handlers
// (GRPC_ENABLE_FORK_SUPPORT) are off unless somebody sets that variable, are not needed, and do no harm.
class ControlServer {
 public:
  // Called on gRPC's threads. report() and lost() of one worker come one after the other, of several workers
  // at the same time; they must be short, for heartbeats share their threads, and must not throw. command()
  // has a thread of its own and may take its time; what it throws becomes a reply that is not ok.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void report(const WorkerReport& report) = 0;
    // The worker's stream ended although it had not reported the state "ended". Not said after close().
    virtual void lost(int generation, int rank) = 0;
    virtual CommandReply command(const Command& command) = 0;
  };

  // Throws Error: kBadInput for an address or certificate that cannot be used, kUnavailable when the address
  // is taken. The handler must outlive the server. A Unix socket gets mode 0600 once it is there, so
  // its folder should be private too.
  ControlServer(const ControlAddress& address, Handler& handler);
  ~ControlServer();  // close()

  std::string target() const;  // as given, with the real port

  // Hands an order to a worker; does not wait for it to arrive. false: no such worker is connected (it is
  // from its first report on). Throws Error(kBadInput) for an order without a kind or too long to send.
  bool order(int generation, int rank, const WorkerOrder& order);

  // Sends what was ordered, ends all streams and stops listening; no handler runs afterwards. Idempotent.
  // Takes at most a second plus the time of handlers under way.
  void close();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::comm
