#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "distbelief/comm/rpc/exchange_bytes.h"
#include "distbelief/comm/rpc/exchange_greeting.h"
#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/comm/rpc/shared_memory.h"

// Private to this folder.
namespace distbelief::comm {

class ExchangeHub;

// The origin of a request, to which its answer goes. An interface so that tests and fuzzing can make requests
// without a connection.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  virtual const Peer& peer() const = 0;
  // Sends the answer or refusal of a request that was taken.
  virtual void send(grpc::ByteBuffer message) = 0;
  // The connection needs no more shared memory than this.
  virtual void limit_shared(std::size_t bytes) = 0;
};

// The server's side of one connection. gRPC uses it until OnDone. Unanswered requests keep it alive after
// that, and their answers are discarded.
class ExchangeConnection final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                                 public RequestSource,
                                 public std::enable_shared_from_this<ExchangeConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  ExchangeConnection(grpc::CallbackServerContext& context, ExchangeHub& hub, std::uint64_t number);
  void begin();  // call once it is in a shared_ptr

  const Peer& peer() const override { return peer_; }
  void send(grpc::ByteBuffer message) override;
  void limit_shared(std::size_t bytes) override;
  // Called from time to time: drops a peer that stalls, and reports one that stays to the connection gate as
  // proven.
  void look(Clock::time_point now);
  void finish_after_answers(const grpc::Status& status);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override {}  // the read or write in flight fails too
  void OnDone() override;

  // Why a message is rejected; empty when it is accepted.
  struct Judgement {
    std::string why;
    grpc::StatusCode code;
  };
  Judgement judge(MessageReader& reader, Frame& frame);
  std::string take(MessageReader& reader, Frame& frame);
  std::string greet(MessageReader& reader, const Frame& frame);
  std::string welcome(const Hello& hello);
  void pass_on(MessageReader& reader, const Frame& frame);
  std::string begin_request();
  // These need mutex_ held.
  void drop(const std::string& why, grpc::StatusCode code);
  void enqueue(grpc::ByteBuffer message);
  void stop(const grpc::Status& status);
  void read_on();
  void go_on();  // starts the next write, or the end

  grpc::CallbackServerContext& context_;
  ExchangeHub& hub_;
  std::shared_ptr<ExchangeConnection> kept_;  // alive for gRPC
  const Clock::time_point opened_ = Clock::now();
  grpc::ByteBuffer incoming_;
  // These are written before the first request is passed on.
  Peer peer_;
  std::shared_ptr<SharedMemory> memory_;
  std::size_t shared_bytes_ = 0;  // of memory_
  std::uint64_t last_number_ = 0;

  std::mutex mutex_;
  std::deque<grpc::ByteBuffer> answers_;  // the first one is being written when writing_
  std::size_t unread_bytes_ = 0;          // of answers_
  Clock::time_point write_began_;
  int unanswered_ = 0;
  bool greeted_ = false;
  bool stays_ = false;
  std::size_t needed_bytes_ = 0;  // of shared memory, as stated so far
  bool reading_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool done_ = false;  // gRPC no longer uses this object
  grpc::Status status_;
};

struct ExchangeServer::Request::Content {
  std::shared_ptr<RequestSource> source;
  std::shared_ptr<BufferPool> pool;
  std::shared_ptr<SharedMemory> memory;  // the connection's, if any
  Frame frame;
  std::string header;
  BufferPool::Buffer payload;  // empty when shared or absent
  BufferPool::Buffer reserved;
  std::size_t reserved_bytes = 0;
};

}  // namespace distbelief::comm
