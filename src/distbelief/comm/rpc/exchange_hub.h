#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "distbelief/comm/rpc/door.h"
#include "distbelief/comm/rpc/exchange_bytes.h"
#include "distbelief/comm/rpc/exchange_connection.h"
#include "distbelief/comm/rpc/exchange_server.h"

// Private to this folder.
namespace distbelief::comm {

// State shared by the connections of a server: the open connections, the limits, the counts. Thread safe;
// calls the handler without holding its lock. Outlives gRPC's use of the connections.
class ExchangeHub {
 public:
  ExchangeHub(ExchangeServer::Options options, ExchangeServer::Handler& handler, Door& door);

  const ExchangeServer::Options& options() const { return options_; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }
  ExchangeServer::Handler& handler() { return handler_; }
  Door& door() { return door_; }

  // Returns nullptr when there are too many connections, or after close().
  ExchangeConnection* open(grpc::CallbackServerContext& context);
  void leave(const ExchangeConnection& connection, bool greeted);
  // Makes memory to share with one more client. Returns nullptr, and logs why, when the limits do not allow
  // it or there is none.
  std::shared_ptr<SharedMemory> share(std::size_t bytes, const Peer& peer);

  void look();
  // Finishes all connections; from now on gone() is not called, and new connections end at once.
  void close();

  ExchangeServer::Counts counts() const;
  void count_accepted() { ++accepted_; }
  void count_turned_away() { ++turned_away_; }
  void count_dropped() { ++dropped_; }
  void count_request() { requests_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const ExchangeServer::Options options_;
  ExchangeServer::Handler& handler_;
  Door& door_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  const std::shared_ptr<std::atomic<std::size_t>> shared_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::atomic<std::uint64_t> accepted_ = 0, turned_away_ = 0, dropped_ = 0, requests_ = 0;

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<ExchangeConnection>> connections_;
  std::uint64_t last_connection_;
  bool closed_ = false;
};

}  // namespace distbelief::comm
