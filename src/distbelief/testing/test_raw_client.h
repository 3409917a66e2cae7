#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "distbelief/comm/rpc/exchange_bytes.h"
#include "distbelief/comm/rpc/exchange_greeting.h"
#include "distbelief/testing/test_supervisor.h"

// Used by tests and benchmarks.
namespace distbelief::testing {

// Opens a separate connection, so that a refused one does not delay others.
inline std::shared_ptr<grpc::Channel> plain_channel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

// Accepts credentials that our own client would refuse.
inline std::shared_ptr<grpc::Channel> channel_with(
    const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("distbelief-server");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

enum class Reading { kAll, kNothing };

// A client that sends arbitrary messages. Use from one thread.
class RawClient final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RawClient(const std::shared_ptr<grpc::Channel>& channel, Reading reading) : stub_(channel) {
    stub_.PrepareBidiStreamingCall(&context_, "/distbelief.exchange.Exchange/Connect", grpc::StubOptions(),
                                   this);
    AddHold();
    if (reading == Reading::kAll) StartRead(&incoming_);
    StartCall();
  }
  ~RawClient() override {
    context_.TryCancel();
    end_writing();
    done_.take();
  }

  // Returns false when the message was not written, because the server ended the stream or does not read.
  bool say(const grpc::ByteBuffer& message, std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    outgoing_ = message;
    StartWrite(&outgoing_);
    const std::optional<bool> written = written_.take(deadline);
    return written.value_or(false);
  }
  bool say(const comm::Frame& frame, const std::string& rest) {
    return say(comm::make_message(frame, rest, std::span<const std::byte>{}));
  }
  bool greet(std::size_t shared_bytes = 0) {
    const std::string header = comm::encode(
        comm::Hello{.role = "worker", .name = "mallory\n[error] all is lost", .shared_bytes = shared_bytes});
    return say(comm::Frame{.kind = comm::FrameKind::kHello, .header_bytes = std::uint32_t(header.size())},
               header);
  }
  // Waits for a message (Reading::kAll); false: none comes.
  bool hears() { return heard_.take().value_or(false); }
  // The status with which the server ended the stream.
  grpc::Status ended() {
    end_writing();
    std::optional<grpc::Status> status = done_.take();
    if (!status) return {grpc::StatusCode::OK, "it was not ended"};
    done_.put(*status);
    return *status;
  }

 private:
  void OnReadDone(bool ok) override {
    heard_.put(ok);
    if (ok) StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { written_.put(ok); }
  void OnDone(const grpc::Status& status) override { done_.put(status); }
  void end_writing() {
    if (!holding_) return;
    holding_ = false;
    RemoveHold();
  }

  bool holding_ = true;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_, outgoing_;
  Mailbox<bool> written_, heard_;
  Mailbox<grpc::Status> done_;
};

}  // namespace distbelief::testing
