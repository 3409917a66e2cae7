#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "distbelief/comm/rpc/exchange_server.h"

namespace distbelief::server {

// Refuses requests. A connection that is refused again and again gets its answers late: with all its requests
// in flight it can then send little, and takes nothing from the others. The thread db-refuse sends the late
// refusals. Thread safe.
class Refusals {
 public:
  struct Options {
    int at_once = 8;                        // immediate refusals of a connection
    std::chrono::milliseconds delay{1000};  // of later ones
  };
  explicit Refusals(const Options& options);
  ~Refusals();  // sends the refusals that still wait

  // Returns the number of refusals of the connection, including this one.
  std::int64_t add(comm::ExchangeServer::Request request, ErrorCode code, const std::string& why);
  void forget(std::uint64_t connection);

 private:
  using Clock = std::chrono::steady_clock;
  struct Late {
    Clock::time_point due;
    comm::ExchangeServer::Request request;
    ErrorCode code;
    std::string why;
  };
  void run(const std::stop_token& stop);

  Options options_;
  std::mutex mutex_;                              // guards the next two
  std::map<std::uint64_t, std::int64_t> counts_;  // by connection
  std::deque<Late> late_;                         // in the order in which they are due
  std::condition_variable_any changed_;
  std::jthread thread_;  // last
};

}  // namespace distbelief::server
