// Peers that break the protocol: they are dropped with a reason before the handler sees anything, and other
// clients notice nothing.
#include <gtest/gtest.h>
#include <proto/exchange.grpc.pb.h>

#include "distbelief/comm/rpc/exchange_bytes.h"
#include "distbelief/testing/test_exchange.h"
#include "distbelief/testing/test_raw_client.h"

namespace distbelief::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

grpc::ByteBuffer bytes_of(std::size_t count) {
  const grpc::Slice slice(count);
  return {&slice, 1};
}

Frame echo(std::uint64_t number, std::size_t payload_bytes = 0) {
  return {.kind = FrameKind::kRequest,
          .header_bytes = 4,
          .payload_bytes = std::uint32_t(payload_bytes),
          .room_bytes = std::uint32_t(payload_bytes),
          .number = number};
}

class Hostile : public ::testing::Test {
 protected:
  void start(ExchangeServer::Options options) { server_.emplace(std::move(options), handler_); }
  void start() { start(place_.server()); }
  void expect_honest_clients_are_served() {
    EXPECT_EQ(ExchangeClient(place_.client(server_->target())).send("sum", {}, {}).wait(seconds(20)).header,
              "0");
  }

  const testing::ExchangePlace place_{testing::ExchangeWay::kShared};
  testing::EchoHandler handler_;
  std::optional<ExchangeServer> server_;
};

struct Offence {
  const char* name;
  std::function<void(testing::RawClient&)> commit;  // after the greeting
};

class Offences : public Hostile, public ::testing::WithParamInterface<Offence> {};

INSTANTIATE_TEST_SUITE_P(
    AfterTheGreeting, Offences,
    ::testing::Values(Offence{"AMessageWithoutAHead",
                              [](testing::RawClient& client) { client.say(bytes_of(3)); }},
                      Offence{"AHeaderLengthThatLies",
                              [](testing::RawClient& client) {
                                Frame frame = echo(1);
                                frame.header_bytes = 5000;
                                client.say(frame, "keep");
                              }},
                      Offence{"APayloadThatIsTooLarge",
                              [](testing::RawClient& client) {
                                client.say(echo(1, 2 << 20), "keep" + std::string(2 << 20, 'x'));
                              }},
                      Offence{"AMessageOf64MiB",
                              [](testing::RawClient& client) {
                                client.say(echo(1, 64 << 20), "keep" + std::string(64 << 20, 'x'));
                              }},
                      Offence{"AReferenceOutsideOfTheSharedMemory",
                              [](testing::RawClient& client) {
                                Frame frame = echo(1, 4096);
                                frame.payload_shared = true;
                                frame.payload_at = testing::ExchangePlace::kShared - 4088;
                                client.say(frame, "keep");
                              }},
                      Offence{"ARoomOutsideOfTheSharedMemory",
                              [](testing::RawClient& client) {
                                Frame frame = echo(1);
                                frame.room_bytes = 4096;
                                frame.room_shared = true;
                                frame.room_at = ~0ull - 7;
                                client.say(frame, "keep");
                              }},
                      Offence{"ASecondGreeting", [](testing::RawClient& client) { client.greet(); }},
                      Offence{"AnUnknownKind",
                              [](testing::RawClient& client) {
                                Frame frame = echo(1);
                                frame.kind = FrameKind(77);
                                client.say(frame, "keep");
                              }},
                      Offence{"AnAnswer",
                              [](testing::RawClient& client) {
                                client.say(Frame{.kind = FrameKind::kAnswer, .header_bytes = 4, .number = 1},
                                           "keep");
                              }}),
    [](const auto& offence) { return offence.param.name; });

TEST_P(Offences, EndTheConnectionBeforeTheHandlerSeesAnything) {
  start();
  {
    testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kAll);
    ASSERT_TRUE(client.greet(testing::ExchangePlace::kShared));
    GetParam().commit(client);
    const grpc::Status status = client.ended();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message(), "");
  }
  EXPECT_EQ(handler_.lost.take(), 1u);
  EXPECT_EQ(server_->counts().dropped, 1u);
  EXPECT_EQ(server_->counts().requests, 0u);
  EXPECT_TRUE(handler_.kept.empty());
  expect_honest_clients_are_served();
}

TEST_F(Hostile, ARepeatedNumberEndsTheConnection) {
  start();
  testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kAll);
  ASSERT_TRUE(client.greet());
  ASSERT_TRUE(client.say(echo(5), "keep"));
  ASSERT_TRUE(handler_.kept.take());
  client.say(echo(5), "keep");
  EXPECT_EQ(client.ended().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(server_->counts().requests, 1u);
  expect_honest_clients_are_served();
}

TEST_F(Hostile, ARequestBeforeTheGreetingIsTurnedAway) {
  start();
  testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kAll);
  client.say(echo(1), "keep");
  EXPECT_EQ(client.ended().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(server_->counts().turned_away, 1u);
  EXPECT_TRUE(handler_.lost.empty()) << "it never was there";
}

TEST_F(Hostile, AGreetingThatCannotBeReadIsTurnedAway) {
  start();
  for (const std::string& header :
       {std::string("\xff\xff\xff\xff"), std::string()}) {  // the second: no version
    testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kAll);
    client.say(Frame{.kind = FrameKind::kHello, .header_bytes = std::uint32_t(header.size())}, header);
    EXPECT_EQ(client.ended().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_EQ(server_->counts().turned_away, 2u);
}

TEST_F(Hostile, TooManyRequestsAtATimeEndTheConnection) {
  start();
  testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kAll);
  ASSERT_TRUE(client.greet());
  for (std::uint64_t number = 1; number <= 2000; ++number)
    if (!client.say(echo(number), "keep")) break;
  EXPECT_EQ(client.ended().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server_->counts().requests, 64u);
  expect_honest_clients_are_served();
}

TEST_F(Hostile, AClientThatNeverReadsIsStoppedAndThenDropped) {
  ExchangeServer::Options options = place_.server();
  options.stall_deadline = milliseconds(500);
  start(options);
  testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kNothing);
  ASSERT_TRUE(client.greet());
  const std::string payload(kMaxPayloadBytes, 'x');
  std::uint64_t sent = 0;
  while (sent < 1000 && client.say(make_message(echo(sent + 1, payload.size()), "echo" + payload,
                                                std::span<const std::byte>{}),
                                   milliseconds(3000)))
    ++sent;
  EXPECT_EQ(handler_.lost.take(), 1u);
  EXPECT_EQ(server_->counts().dropped, 1u);
  // The server holds most_unread_bytes of answers; requests read before it reached that were handled too.
  EXPECT_LT(server_->counts().requests, 16u + 64u + 16u);
  expect_honest_clients_are_served();
}

TEST_F(Hostile, AClientThatDoesNotGreetIsTurnedAwayInTime) {
  ExchangeServer::Options options = place_.server();
  options.stall_deadline = milliseconds(100);
  start(options);
  testing::RawClient client(testing::plain_channel(server_->target()), testing::Reading::kAll);
  EXPECT_EQ(client.ended().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_->counts().turned_away, 1u);
}

TEST_F(Hostile, TooManyConnectionsAreTurnedAway) {
  ExchangeServer::Options options = place_.server();
  options.connections = 2;
  start(options);
  const ExchangeClient first(place_.client(server_->target()));
  {
    const ExchangeClient second(place_.client(server_->target()));
    EXPECT_THROW(ExchangeClient third(place_.client(server_->target())), Error);
  }
  handler_.lost.take();
  expect_honest_clients_are_served();
}

// A server that welcomes every client and then sends one given message.
class RawServer final
    : public exchange::Exchange::WithRawCallbackMethod_Connect<exchange::Exchange::Service> {
 public:
  RawServer(const std::string& target, grpc::ByteBuffer message) : message_(std::move(message)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(target, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RawServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

 private:
  class Stream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Stream(const grpc::ByteBuffer& message) : message_(message) { StartRead(&incoming_); }

   private:
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      const std::lock_guard lock(mutex_);
      if (++read_ == 1) {
        exchange::Welcome welcome;
        welcome.set_version(kExchangeVersion);
        welcome.set_in_flight(4);
        const std::string header = welcome.SerializeAsString();
        welcome_ = make_message({.kind = FrameKind::kWelcome, .header_bytes = std::uint32_t(header.size())},
                                header, std::span<const std::byte>{});
        StartWrite(&welcome_);
      } else if (written_ == 1) {
        StartWrite(&message_);
      }
      StartRead(&incoming_);
    }
    void OnWriteDone(bool ok) override {
      const std::lock_guard lock(mutex_);
      if (++written_ == 1 && read_ == 2 && ok) StartWrite(&message_);
    }
    void OnDone() override { delete this; }

    grpc::ByteBuffer incoming_, welcome_, message_;
    std::mutex mutex_;
    int read_ = 0, written_ = 0;
  };

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(
      grpc::CallbackServerContext*) override {
    return new Stream(message_);
  }

  grpc::ByteBuffer message_;
  std::unique_ptr<grpc::Server> server_;
};

grpc::ByteBuffer answer_to(std::uint64_t number, std::size_t bytes) {
  const std::vector<std::byte> payload(bytes);
  return make_message({.kind = FrameKind::kAnswer, .payload_bytes = std::uint32_t(bytes), .number = number},
                      "", std::span<const std::byte>(payload));
}

TEST(HostileServer, AnswersThatWereNotAskedForEndTheConnection) {
  const testing::ExchangePlace place(testing::ExchangeWay::kUnix);
  for (const grpc::ByteBuffer& message : {answer_to(2, 0), answer_to(1, 17), bytes_of(0)}) {
    const RawServer server(place.listening(), message);
    ExchangeClient client(place.client(place.listening()));
    std::vector<std::byte> into(16, std::byte{9});
    ExchangeClient::Pending pending = client.send("echo", {}, into);
    try {
      pending.wait(seconds(20));
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    }
    EXPECT_EQ(testing::EchoHandler::sum(into), 16 * 9);
  }
}

}  // namespace
}  // namespace distbelief::comm
