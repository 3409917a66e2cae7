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

// A parameter server's client: one connection, for as long as both live. Requests are sent one behind the
// other without waiting for answers, which come in any order. It is not opened again: make another one. Any
// thread may call it, but close() and the destructor not from on_lost.
class ExchangeClient {
 public:
  struct Options {
    ControlAddress address{};
    std::string role = "worker";   // over TLS the certificate must say the same
    std::string name{};            // for the server's messages
    bool insecure = false;         // TCP without TLS: to a loopback address only
    std::size_t shared_bytes = 0;  // of memory to share with a server on this host
    int in_flight = 16;            // requests that wait for their answers; the server may allow fewer
    std::chrono::milliseconds connect_deadline{10000};
    std::chrono::milliseconds send_deadline{60000};  // for send() to get its turn
    std::function<void()> on_lost{};  // once, on a thread of gRPC, when the server is gone; not after close()
  };

 private:
  class State;
  struct Call;

 public:
  // The wait for one answer. Movable; may outlive the client. One that goes before its answer came gives the
  // request up: its memory is the caller's again, with the exception of shared memory, below.
  class [[nodiscard]] Pending {
   public:
    Pending() = default;
    Pending(std::shared_ptr<State> state, std::shared_ptr<Call> call);
    Pending(Pending&&) noexcept = default;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();

    bool ready() const;
    // Blocks until it is, at most so long. Gives whether it is.
    bool ready_within(std::chrono::milliseconds time);
    // Once. Throws Error: what the server refused with; kUnavailable when the connection is lost, and at once
    // then; kTimeout at the deadline. In all cases payload and answer's memory are the caller's again, with
    // one exception: a server that did not answer in time may still read and write the shared memory that the
    // request named. When the request is still being sent at the deadline, the connection is ended for it.
    Answer wait(std::chrono::milliseconds deadline);

   private:
    std::shared_ptr<State> state_;
    std::shared_ptr<Call> call_;
  };

  // Blocks until the server has accepted us, at most connect_deadline and a second. Throws Error:
  // kUnavailable when nobody is there (or does not accept our certificate), kTimeout when it does not answer,
  // kBadInput when refused.
  explicit ExchangeClient(Options options);
  ~ExchangeClient();  // close()
  ExchangeClient(const ExchangeClient&) = delete;
  ExchangeClient& operator=(const ExchangeClient&) = delete;

  // Memory shared with the server; empty when there is none: not asked for, another host, no room at the
  // server. Payloads in it go by reference, others over the stream; the same for `into`. Both must begin on a
  // multiple of 8 there. Valid as long as the client.
  std::span<std::byte> shared() const;

  // Blocks while in_flight requests are under way. `payload` must not change, and `into` not be touched,
  // until the answer. Throws Error: kBadInput for more than kMaxHeaderBytes or kMaxPayloadBytes, kUnavailable
  // when the connection is lost, kTimeout after send_deadline.
  Pending send(std::string header, std::span<const std::byte> payload, std::span<std::byte> into);

  bool connected() const;
  // Ends the connection; requests under way fail. Idempotent.
  void close();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace distbelief::comm
