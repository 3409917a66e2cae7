#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "distbelief/comm/rpc/control.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {

// A parameter server's client: one connection, for as long as both live. Requests are sent without waiting
// for earlier answers; answers come in any order. It is never reopened: make another one. Any thread may call
// it, but on_lost must not call close() or the destructor.
class ExchangeClient {
 public:
  struct Options {
    ControlAddress address{};
    std::string role = "worker";   // over TLS the certificate must name the same role
    std::string name{};            // for the server's messages
    bool insecure = false;         // TCP without TLS: to a loopback address only
    std::size_t shared_bytes = 0;  // of memory to share with a server on this host; 0: none
    int in_flight = 16;            // unanswered requests; the server may allow fewer
    std::chrono::milliseconds connect_deadline{10000};
    std::chrono::milliseconds send_deadline{60000};  // how long send() waits for its turn
    std::function<void()> on_lost{};  // once, on a gRPC thread, when the server is lost; not after close()
  };

 private:
  class State;
  struct Call;

 public:
  // The wait for one answer. Movable; may outlive the client. Destroying it before its answer gives the
  // request up: the memory is the caller's again, except shared memory (see wait()).
  class [[nodiscard]] Pending {
   public:
    Pending() = default;
    Pending(std::shared_ptr<State> state, std::shared_ptr<Call> call);
    Pending(Pending&&) noexcept = default;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();

    bool ready() const;
    // Blocks until ready, at most `time`. Returns whether it is ready.
    bool ready_within(std::chrono::milliseconds time);
    // Call once. Throws Error: the server's refusal; kUnavailable at once when the connection is lost;
    // kTimeout at the deadline. In every case payload and answer memory are the caller's again, with one
    // exception: a server that did not answer in time may still read and write the shared memory that the
    // request named. A request that is still being sent at the deadline ends the connection.
    Answer wait(std::chrono::milliseconds deadline);

   private:
    std::shared_ptr<State> state_;
    std::shared_ptr<Call> call_;
  };

  // Blocks until the server has accepted us, at most connect_deadline and a second. Throws Error:
  // kUnavailable when nothing listens there or our certificate is not accepted, kTimeout when it does not
  // answer, kBadInput when it refuses.
  explicit ExchangeClient(Options options);
  ~ExchangeClient();  // close()
  ExchangeClient(const ExchangeClient&) = delete;
  ExchangeClient& operator=(const ExchangeClient&) = delete;

  // Memory shared with the server; empty when there is none: not asked for, another host, no room at the
  // server. Payloads in it are passed by reference, others over the stream; the same holds for `into`. Both
  // must begin on a multiple of 8 there. Valid as long as the client.
  std::span<std::byte> shared() const;

  // Blocks while in_flight requests are unanswered. Until the answer, `payload` must not change and `into`
  // must not be touched. Throws Error: kBadInput for more than kMaxHeaderBytes or kMaxPayloadBytes,
  // kUnavailable when the connection is lost, kTimeout after send_deadline.
  Pending send(std::string header, std::span<const std::byte> payload, std::span<std::byte> into);

  bool connected() const;
  // Ends the connection; unanswered requests fail. Idempotent.
  void close();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace distbelief::comm
