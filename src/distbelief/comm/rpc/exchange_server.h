#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/admission.h"
#include "distbelief/comm/rpc/control.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {

// The parameter server's end of its connections: takes requests, each a header and a payload, and answers
// them in any order. Any thread may call it and its requests, but a handler must not call close() or the
// destructor.
//
// A peer that breaks the protocol is dropped, counted, and logged with the reason before the handler sees any
// part of the message at fault. The memory that one connection can make the server hold is bounded:
// `in_flight` requests with their payloads, their answers, and `most_unread_bytes` of answers that it has not
// read.
class ExchangeServer {
 public:
  // One request, to be answered once, from any thread, at any time; the answer is discarded when the client
  // has gone. A request destroyed without an answer is refused with kInternal. A request object itself is not
  // thread safe.
  class Request {
   public:
    struct Content;
    explicit Request(std::unique_ptr<Content> content);
    Request(Request&& other) noexcept;
    Request& operator=(Request&& other) noexcept;
    ~Request();

    bool is_open() const { return content_ != nullptr; }  // neither answered nor moved from
    const std::string& header() const;
    // Valid until the answer. The client can write to a payload in shared memory at any time: copy it before
    // checking it, or check the result.
    std::span<const std::byte> payload() const;
    // Copies a payload in shared memory to private memory, which the client cannot change.
    void own_payload();
    // Releases the payload of a request that has to wait for its refusal.
    void drop_payload();
    const Peer& peer() const;
    // States how much shared memory the connection needs: a connection with more is dropped.
    void limit_shared(std::size_t bytes);
    std::size_t room() const;  // the largest payload of the answer

    // Memory for the answer's payload: it is sent without another copy, or the client reads it in place.
    // Throws Error(kBadInput) for more than room(). Call at most once per request.
    std::span<std::byte> reserve(std::size_t bytes);
    void answer(std::string header);  // with the reserved payload
    // The client's wait() throws Error(code, why).
    void refuse(ErrorCode code, const std::string& why);

   private:
    std::unique_ptr<Content> content_;
  };

  // Called on gRPC's threads, concurrently and in no particular order, also for requests of one connection.
  // Must not throw, and must not block, because that stops gRPC from reading: keep a request that has to wait
  // and answer it later.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void handle(Request request) = 0;
    // The connection ended; nothing more comes from it. Not called after close().
    virtual void gone(std::uint64_t connection) = 0;
  };

  struct Options {
    ControlAddress address{};
    std::vector<std::string> roles{"worker", "server"};  // allowed to connect
    bool insecure = false;                               // TCP without TLS: on a loopback address only
    std::uint64_t first_connection = 1;                  // differs where servers share a handler
    // Bytes of memory shared with clients of this host: with all together, and with one. A connection that
    // holds some is dropped when it has stated no need (Request::limit_shared) for `shared_deadline`; 0:
    // never.
    std::size_t shared_limit = 0;
    std::size_t shared_limit_of_one = std::size_t(-1);
    std::chrono::milliseconds shared_deadline{0};
    int in_flight = 64;  // unanswered requests of one connection
    int connections = 768;
    std::size_t most_unread_bytes = 16 << 20;         // of answers; above it no more requests are read
    std::chrono::milliseconds stall_deadline{10000};  // for a client to read one message, and to greet
    std::size_t memory_limit = std::size_t{1} << 30;  // for gRPC's memory of all connections
    Admission::Options admission{};                   // of connecting clients
  };

  struct Counts {
    std::uint64_t connections = 0;  // accepted
    std::uint64_t turned_away = 0;  // wrong role or greeting, or too many connections
    std::uint64_t dropped = 0;      // broke the protocol, or did not read
    std::uint64_t requests = 0;     // passed to the handler
  };

  // Throws Error: kBadInput for an address or certificate that cannot be used, kUnavailable when the address
  // is taken. The handler must outlive the server. A Unix socket gets mode 0600.
  ExchangeServer(Options options, Handler& handler);
  ~ExchangeServer();  // close()

  std::string target() const;  // as given, with the real port
  Counts counts() const;

  // Sends the answers that are there, ends all connections and stops listening; no handler runs afterwards,
  // and answers to requests still held are discarded. Idempotent. Takes at most a second plus the time of
  // running handlers.
  void close();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::comm
