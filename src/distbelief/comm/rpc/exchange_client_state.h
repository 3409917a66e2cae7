#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_bytes.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/shared_memory.h"

// Private to this folder.
namespace distbelief::comm {

// One request at its client.
struct ExchangeClient::Call {
  // kReceiving: a gRPC thread is copying into `into`.
  enum class Stage { kWaiting, kReceiving, kDone, kAbandoned };

  std::uint64_t number = 0;
  std::span<std::byte> into;
  bool into_shared = false;
  std::shared_ptr<Loan> loan;  // of the payload, when gRPC reads it in place
  Stage stage = Stage::kWaiting;
  bool answered = false;  // the server answered, so it has the payload
  Answer answer;
  std::optional<Error> failure;
};

// The client's side of the stream. gRPC uses it from the constructor until OnDone; close() waits for that.
class ExchangeClient::State final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit State(Options options);
  ~State() override;
  // Throws as ExchangeClient's constructor does.
  void connect();
  void close();

  std::span<std::byte> shared() const { return memory_ ? memory_->bytes() : std::span<std::byte>{}; }
  bool connected() const;
  std::shared_ptr<Call> send(const std::string& header, std::span<const std::byte> payload,
                             std::span<std::byte> into);
  bool ready(const Call& call) const;
  bool ready_within(const Call& call, std::chrono::milliseconds time);
  Answer wait(Call& call, std::chrono::milliseconds deadline);
  void abandon(Call& call);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Outgoing {
    std::uint64_t number = 0;
    grpc::ByteBuffer message;
  };

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void open_channel();
  void greet();
  void wait_for_welcome(std::chrono::steady_clock::time_point deadline);
  // Handles a message of the server. Returns why it is invalid, or an empty string.
  std::string take(MessageReader& reader, Frame& frame);
  std::string accept(MessageReader& reader, const Frame& frame);
  std::string begin_answer(const Frame& frame, std::shared_ptr<Call>& call);
  void receive(MessageReader& reader, const Frame& frame, Call& call);
  void end_reading();
  Outgoing make_request(Call& call, const std::string& header, std::span<const std::byte> payload);
  void wait_for_turn(Lock& lock);
  void give_up(Call& call, Lock& lock);
  void settle(Call& call, Lock& lock);  // waits until gRPC has released the payload
  void cancel();                        // with mutex_ held: ends the stream, soon
  void cut();                           // with mutex_ held: cuts the connection, at once
  void go_on();                         // with mutex_ held: starts the next write

  const Options options_;
  int socket_ = -1;                         // a copy of a Unix socket's descriptor, for cut()
  std::shared_ptr<grpc::Channel> channel_;  // never destroyed on a gRPC thread: the last owner joins those
  // Lives until OnDone: the messages that it holds go with it.
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  grpc::ByteBuffer incoming_;
  std::unique_ptr<SharedMemory> memory_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> requests_;                         // the first one is being written when writing_
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  // unanswered
  std::uint64_t last_number_ = 0;
  int in_flight_ = 0;   // the number allowed
  std::string broken_;  // how the server broke the protocol
  grpc::Status status_;
  bool started_ = false;   // gRPC uses this object
  bool accepted_ = false;  // the server has answered
  bool writing_ = false;
  bool closing_ = false;  // by us
  bool ended_ = false;    // nothing more is sent
  bool done_ = false;     // gRPC no longer uses this object
};

}  // namespace distbelief::comm
