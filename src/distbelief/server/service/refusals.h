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

// Refuses requests. Who is refused again and again gets its answers late: with as many requests under way as
// its connection may have it is then hardly heard, and takes nothing from the others. A thread of its own,
// db-refuse, sends what is late. Thread safe.
class Refusals {
 public:
  struct Options {
    int at_once = 8;                        // of a connection
    std::chrono::milliseconds delay{1000};  // of those after them
  };
  explicit Refusals(const Options& options);
  ~Refusals();  // those that wait are sent

  // Gives how many its connection has had, with this one.
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
  std::mutex mutex_;                              // guards the two below
  std::map<std::uint64_t, std::int64_t> counts_;  // by connection
  std::deque<Late> late_;                         // in the order in which they are due
  std::condition_variable_any changed_;
  std::jthread thread_;  // last
};

}  // namespace distbelief::server
