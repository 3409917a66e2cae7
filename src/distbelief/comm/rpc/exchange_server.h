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
// them in any order. Any thread may call it and its requests, but close() and the destructor not from a
// handler.
//
// A peer that breaks the protocol is dropped with a reason, counted and named in the log, before the handler
// sees anything of the message at fault. What one connection can make the server hold is bounded: `in_flight`
// requests with their payloads, their answers, and `most_unread_bytes` of answers that it has not read.
class ExchangeServer {
 public:
  // One request, to be answered once, from any thread, at any time; when its client has gone nothing happens
  // then. One that is dropped without an answer is refused with kInternal. Not thread safe in itself.
  class Request {
   public:
    struct Content;
    explicit Request(std::unique_ptr<Content> content);
    Request(Request&& other) noexcept;
    Request& operator=(Request&& other) noexcept;
    ~Request();

    bool is_open() const { return content_ != nullptr; }  // not answered, nor moved from
    const std::string& header() const;
    // Valid until the answer. A payload in shared memory is the client's to write at any time: what must be
    // checked before it is used has to be copied first, or checked in the result.
    std::span<const std::byte> payload() const;
    // Copies a payload in shared memory to where its client cannot change it any more.
    void own_payload();
    // Lets go of the payload, of a request that has to wait for its refusal.
    void drop_payload();
    const Peer& peer() const;
    // What its connection asks for needs no more shared memory than this: one that has more is dropped.
    void limit_shared(std::size_t bytes);
    std::size_t room() const;  // how large the answer's payload may be

    // Room for the answer's payload: written there once, it is sent without another copy, or is already where
    // the client reads it. Throws Error(kBadInput) for more than room(). Once for each request.
    std::span<std::byte> reserve(std::size_t bytes);
    void answer(std::string header);  // with what was reserved
    // The client's wait() throws Error(code, why).
    void refuse(ErrorCode code, const std::string& why);

   private:
    std::unique_ptr<Content> content_;
  };

  // Called on gRPC's threads, for several requests at the same time, also of one connection, and then in no
  // particular order. Must not throw, and must not block: that would keep gRPC from reading. What has to wait
  // is kept, and answered later.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void handle(Request request) = 0;
    // The connection ended; nothing more of it comes. Not said after close().
    virtual void gone(std::uint64_t connection) = 0;
  };

  struct Options {
    ControlAddress address{};
    std::vector<std::string> roles{"worker", "server"};  // who may connect
    bool insecure = false;                               // TCP without TLS: on a loopback address only
    std::uint64_t first_connection = 1;  // number of the first: apart, where two share a handler
    // Bytes of memory shared with clients of this host, all together and with one. Who has some and has said
    // for `shared_deadline` nothing that it is for (Request::limit_shared) is dropped; 0: nobody is.
    std::size_t shared_limit = 0;
    std::size_t shared_limit_of_one = std::size_t(-1);
    std::chrono::milliseconds shared_deadline{0};
    int in_flight = 64;  // requests of one connection that wait for their answers
    int connections = 768;
    std::size_t most_unread_bytes = 16 << 20;  // of answers; then no more requests are read
    std::chrono::milliseconds stall_deadline{
        10000};  // for a client to read one message, and to say who it is
    std::size_t memory_limit = std::size_t{1} << 30;  // of what gRPC holds for all connections
    Admission::Options admission{};                   // of those who connect
  };

  struct Counts {
    std::uint64_t connections = 0;  // that were accepted
    std::uint64_t turned_away = 0;  // wrong role or greeting, or too many
    std::uint64_t dropped = 0;      // broke the protocol, or did not read
    std::uint64_t requests = 0;     // that the handler saw
  };

  // Throws Error: kBadInput for an address or certificate that cannot be used, kUnavailable when the address
  // is taken. The handler must outlive the server. A Unix socket gets mode 0600.
  ExchangeServer(Options options, Handler& handler);
  ~ExchangeServer();  // close()

  std::string target() const;  // as given, with the real port
  Counts counts() const;

  // Sends the answers that are there, ends all connections and stops listening; no handler runs afterwards,
  // and requests still held are answered into nothing. Idempotent. Takes at most a second plus the time of
  // handlers under way.
  void close();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::comm
