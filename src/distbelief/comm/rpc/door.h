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

// Private to this folder.
namespace distbelief::comm {

// The connection gate of a server: it listens, and hands connections to gRPC as admission.h decides. A
// waiting client costs only a socket. A client that sends nothing is not admitted and is disconnected after a
// while. Runs its own thread, db-door; thread safe.
class Door {
 public:
  // Listens from now on (listening.h); throws as listen_at does.
  Door(const ControlAddress& address, const Admission::Options& options);
  ~Door();  // close()
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const std::string& target() const { return target_; }  // with the real port
  // Builds and starts the server and admits clients to it. Call once. Throws Error(kUnavailable) when it
  // cannot start.
  std::unique_ptr<grpc::Server> open(grpc::ServerBuilder& builder,
                                     const std::shared_ptr<grpc::ServerCredentials>& credentials);
  // The client of this connection, identified by gRPC's peer name, is wanted.
  void prove(const std::string& peer);
  // It has misbehaved.
  void offend(const std::string& peer);
  // Admits no more clients; call it before the server is shut down. Idempotent.
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
  std::map<int, Visitor> visitors_;  // waiting, by socket; used only by the thread
  std::uint64_t refused_ = 0;        // for lack of room; used only by the thread
  std::mutex mutex_;                 // guards admission_
  Admission admission_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace distbelief::comm
