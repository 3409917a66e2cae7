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

// For the sources of this folder.
namespace distbelief::comm {

// One request at its client.
struct ExchangeClient::Call {
  // Receiving: a thread of gRPC is copying into `into`.
  enum class Stage { kWaiting, kReceiving, kDone, kAbandoned };

  std::uint64_t number = 0;
  std::span<std::byte> into;
  bool into_shared = false;
  std::shared_ptr<Loan> loan;  // of the payload, when gRPC reads it where it is
  Stage stage = Stage::kWaiting;
  bool answered = false;  // by the server: it has the payload
  Answer answer;
  std::optional<Error> failure;
};

// The client's side of the stream. gRPC has it from the constructor until OnDone, which close() waits for.
class ExchangeClient::State final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit State(Options options);
  ~State() override;
  // Throws as ExchangeClient's constructor.
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
  // What came from the server; empty, or why it cannot be.
  std::string take(MessageReader& reader, Frame& frame);
  std::string accept(MessageReader& reader, const Frame& frame);
  std::string begin_answer(const Frame& frame, std::shared_ptr<Call>& call);
  void receive(MessageReader& reader, const Frame& frame, Call& call);
  void end_reading();
  Outgoing make_request(Call& call, const std::string& header, std::span<const std::byte> payload);
  void wait_for_turn(Lock& lock);
  void give_up(Call& call, Lock& lock);
  void settle(Call& call, Lock& lock);  // until gRPC does not have the payload any more
  void cancel();                        // with mutex_ held: ends the stream, soon
  void cut();                           // with mutex_ held: the connection, at once
  void go_on();                         // with mutex_ held: the next write

  const Options options_;
  int socket_ = -1;                         // a copy of a Unix socket's descriptor, to cut it
  std::shared_ptr<grpc::Channel> channel_;  // never destroyed on a thread of gRPC: the last one joins them
  // Until OnDone: what it keeps of messages goes with it.
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  grpc::ByteBuffer incoming_;
  std::unique_ptr<SharedMemory> memory_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> requests_;                         // the first one is under way when writing_
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  // that wait for an answer
  std::uint64_t last_number_ = 0;
  int in_flight_ = 0;   // that are allowed
  std::string broken_;  // what the server did against the protocol
  grpc::Status status_;
  bool started_ = false;   // gRPC has it
  bool accepted_ = false;  // the server has answered
  bool writing_ = false;
  bool closing_ = false;  // by us
  bool ended_ = false;    // nothing more is sent
  bool done_ = false;     // gRPC does not have it any more
};

}  // namespace distbelief::comm
