#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "distbelief/comm/rpc/admission.h"
#include "distbelief/comm/rpc/control.h"

// For the sources of this folder.
namespace distbelief::comm {

// Where clients of a server come in: listens, and gives gRPC connections as admission.h decides. Who waits
// costs nothing but a socket. One that says nothing is not let in, and sent away after a while. A thread of
// its own, db-door; thread safe.
class Door {
 public:
  // Listens from now on (listening.h), and throws as listen_at does.
  Door(const ControlAddress& address, const Admission::Options& options);
  ~Door();  // close()
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const std::string& target() const { return target_; }  // with the real port
  // Builds and starts the server, and lets clients in to it. Throws Error(kUnavailable) when that cannot be.
  // Once.
  std::unique_ptr<grpc::Server> open(grpc::ServerBuilder& builder,
                                     const std::shared_ptr<grpc::ServerCredentials>& credentials);
  // The client of this connection, by gRPC's name of it, is wanted.
  void prove(const std::string& peer);
  // It has misbehaved.
  void offend(const std::string& peer);
  // Nobody is let in any more; to be called before the server is shut down. Idempotent.
  void close();

 private:
  using Clock = Admission::Clock;
  struct Visitor {
    Clock::time_point came;
    bool speaks = false;
  };
  void run(const std::stop_token& stop);
  void wait();
  void receive(int listener);
  void look_at(int visitor, short events);
  void admit();
  void send_away(int visitor);
  bool has_room() const;
  void wake() const;

  ControlAddress address_;
  std::string target_;
  std::vector<int> listeners_;
  int waker_ = -1;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::map<int, Visitor> visitors_;  // that wait, by socket; the thread's own
  std::uint64_t refused_ = 0;        // for want of room; the thread's own
  std::mutex mutex_;                 // guards the next
  Admission admission_;
  std::jthread thread_;  // last
};

}  // namespace distbelief::comm
