#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "distbelief/testing/test_exchange.h"

namespace distbelief::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr seconds kSoon{20};

template <class Attempt>
Error error_of(const Attempt& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorCode::kInternal, ""};
}

class Exchange : public ::testing::TestWithParam<testing::ExchangeWay> {
 protected:
  Exchange()
      : place_(GetParam()),
        server_(place_.server(), handler_),
        client_(place_.client(server_.target())) {}

  // The same memory for each kind of connection: shared memory where there is some, so that each test uses
  // the path in its name.
  std::span<std::byte> memory(std::size_t at, std::size_t bytes) {
    if (!client_.shared().empty()) return client_.shared().subspan(at, bytes);
    if (own_.empty()) own_.resize(testing::ExchangePlace::kShared);
    return std::span(own_).subspan(at, bytes);
  }

  testing::ExchangePlace place_;
  testing::EchoHandler handler_;
  ExchangeServer server_;
  std::vector<std::byte> own_;
  ExchangeClient client_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Exchange,
                         ::testing::Values(testing::ExchangeWay::kUnix, testing::ExchangeWay::kShared,
                                           testing::ExchangeWay::kTls, testing::ExchangeWay::kPlainTcp),
                         [](const auto& way) { return testing::name_of(way.param); });

TEST_P(Exchange, APayloadGoesAndComesBack) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8192}, std::size_t{8193},
                                  std::size_t{100000}, kMaxPayloadBytes}) {
    const std::vector<std::byte> sent = testing::some_bytes(bytes, 1);
    const std::span<std::byte> payload = memory(0, bytes);
    const std::span<std::byte> into = memory(kMaxPayloadBytes, bytes);
    std::ranges::copy(sent, payload.begin());
    std::ranges::fill(into, std::byte{0xee});
    const Answer answer = client_.send("echo", payload, into).wait(kSoon);
    EXPECT_EQ(answer.header, "echo");
    EXPECT_EQ(answer.bytes, bytes);
    EXPECT_TRUE(std::ranges::equal(into, sent)) << bytes;
  }
}

TEST_P(Exchange, SharesMemoryOnlyWhenItCan) {
  EXPECT_EQ(client_.shared().size(),
            GetParam() == testing::ExchangeWay::kShared ? testing::ExchangePlace::kShared : 0u);
}

TEST_P(Exchange, MemoryThatIsNotSharedGoesOverTheStream) {
  const std::vector<std::byte> sent = testing::some_bytes(kMaxPayloadBytes, 2);
  std::vector<std::byte> into(kMaxPayloadBytes);
  EXPECT_EQ(client_.send("echo", sent, into).wait(kSoon).bytes, kMaxPayloadBytes);
  EXPECT_EQ(into, sent);
}

TEST_P(Exchange, AnswersComeInAnyOrder) {
  ExchangeClient::Pending late = client_.send("keep", {}, {});
  ExchangeClient::Pending soon = client_.send("sum", {}, {});
  EXPECT_EQ(soon.wait(kSoon).header, "0");
  EXPECT_FALSE(late.ready());
  std::optional<ExchangeServer::Request> kept = handler_.kept.take();
  ASSERT_TRUE(kept);
  std::jthread([&] { kept->answer("at last"); });
  EXPECT_EQ(late.wait(kSoon).header, "at last");
}

TEST_P(Exchange, ManyRequestsOfManyThreadsKeepTheirAnswersApart) {
  std::vector<std::jthread> threads;
  std::atomic<int> right = 0;
  for (unsigned thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<std::vector<std::byte>> payloads;
      std::vector<std::vector<std::byte>> answers;
      for (unsigned i = 0; i < 25; ++i)
        payloads.push_back(testing::some_bytes(40000 + 1000 * i, thread * 100 + i));
      for (unsigned i = 0; i < 25; ++i) answers.emplace_back(payloads[i].size());
      std::vector<ExchangeClient::Pending> pending;
      for (unsigned i = 0; i < 25; ++i) pending.push_back(client_.send("echo", payloads[i], answers[i]));
      for (unsigned i = 0; i < 25; ++i)
        right += pending[i].wait(kSoon).bytes == payloads[i].size() && answers[i] == payloads[i];
    });
  threads.clear();
  EXPECT_EQ(right, 100);
}

TEST_P(Exchange, ARefusalIsThrownAtTheClient) {
  const Error error = error_of([&] { client_.send("refuse", {}, {}).wait(kSoon); });
  EXPECT_EQ(error.code(), ErrorCode::kBadInput);
  EXPECT_EQ(error.message(), "no such key");
  EXPECT_TRUE(client_.connected());
}

TEST_P(Exchange, ADroppedRequestIsAnError) {
  EXPECT_EQ(error_of([&] { client_.send("drop", {}, {}).wait(kSoon); }).code(), ErrorCode::kInternal);
}

TEST_P(Exchange, AnAnswerThatFindsNoRoomIsRefusedAtTheServer) {
  ExchangeClient::Pending pending = client_.send("keep", {}, memory(0, 16));
  std::optional<ExchangeServer::Request> kept = handler_.kept.take();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->room(), 16u);
  EXPECT_EQ(error_of([&] { kept->reserve(17); }).code(), ErrorCode::kBadInput);
  kept->reserve(16);
  kept->answer("");
  EXPECT_EQ(pending.wait(kSoon).bytes, 16u);
}

TEST_P(Exchange, WhatIsTooLargeIsNotSent) {
  const std::vector<std::byte> large(kMaxPayloadBytes + 1);
  EXPECT_EQ(error_of([&] { (void)client_.send("echo", large, {}); }).code(), ErrorCode::kBadInput);
  EXPECT_EQ(error_of([&] { (void)client_.send(std::string(kMaxHeaderBytes + 1, 'x'), {}, {}); }).code(),
            ErrorCode::kBadInput);
  EXPECT_EQ(client_.send(std::string(kMaxHeaderBytes, 'x'), {}, {}).wait(kSoon).header.size(),
            kMaxHeaderBytes);
}

TEST_P(Exchange, ThePeerIsNamed) {
  ExchangeClient::Pending pending = client_.send("keep", {}, {});
  std::optional<ExchangeServer::Request> kept = handler_.kept.take();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->peer().name, "worker 3");
  EXPECT_EQ(kept->peer().role, "worker");
  EXPECT_EQ(kept->peer().connection, 1u);
}

TEST_P(Exchange, AWaitEndsAtItsDeadlineAndTheConnectionLives) {
  ExchangeClient::Pending pending = client_.send("keep", {}, {});
  std::optional<ExchangeServer::Request> kept = handler_.kept.take();
  EXPECT_EQ(error_of([&] { pending.wait(milliseconds(1)); }).code(), ErrorCode::kTimeout);
  ASSERT_TRUE(kept);
  kept->answer("nobody listens");
  EXPECT_EQ(client_.send("sum", {}, {}).wait(kSoon).header, "0");
}

TEST_P(Exchange, ALateAnswerDoesNotTouchMemoryThatWasGivenBack) {
  std::vector<std::byte> into(1000, std::byte{1});
  std::optional<ExchangeServer::Request> kept;
  {
    const ExchangeClient::Pending given_up = client_.send("keep", {}, into);
    kept = handler_.kept.take();
  }
  ASSERT_TRUE(kept);
  std::ranges::fill(kept->reserve(1000), std::byte{2});
  kept->answer("late");
  EXPECT_EQ(client_.send("sum", {}, {}).wait(kSoon).header, "0");  // the late answer came before this one
  EXPECT_EQ(testing::EchoHandler::sum(into), 1000);
}

TEST_P(Exchange, AClientThatClosesIsGoneAndItsRequestsAreAnsweredIntoNothing) {
  ExchangeClient::Pending pending = client_.send("keep", {}, memory(0, 100));
  std::optional<ExchangeServer::Request> kept = handler_.kept.take();
  client_.close();
  EXPECT_EQ(error_of([&] { pending.wait(kSoon); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(error_of([&] { (void)client_.send("sum", {}, {}); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(handler_.lost.take(), 1u);
  ASSERT_TRUE(kept);
  std::ranges::fill(kept->reserve(100), std::byte{7});
  kept->answer("");
}

TEST_P(Exchange, AServerThatClosesEndsItsClientsAndItsRequestsOutliveIt) {
  ExchangeClient::Pending pending = client_.send("keep", {}, {});
  std::optional<ExchangeServer::Request> kept = handler_.kept.take();
  server_.close();
  EXPECT_EQ(error_of([&] { pending.wait(kSoon); }).code(), ErrorCode::kUnavailable);
  EXPECT_FALSE(client_.connected());
  EXPECT_TRUE(handler_.lost.empty()) << "nobody is gone: we left";
  ASSERT_TRUE(kept);
  kept->answer("into nothing");
}

TEST_P(Exchange, SendWaitsForItsTurn) {
  ExchangeClient::Options options = place_.client(server_.target());
  options.in_flight = 2;
  options.send_deadline = milliseconds(1);
  ExchangeClient narrow(options);
  ExchangeClient::Pending first = narrow.send("keep", {}, {});
  ExchangeClient::Pending second = narrow.send("keep", {}, {});
  EXPECT_EQ(error_of([&] { (void)narrow.send("sum", {}, {}); }).code(), ErrorCode::kTimeout);
  for (int i = 0; i < 2; ++i) handler_.kept.take()->answer("");
  first.wait(kSoon);
  second.wait(kSoon);
  EXPECT_EQ(narrow.send("sum", {}, {}).wait(kSoon).header, "0");
}

TEST(ExchangeShared, TheLimitHoldsOverAllConnectionsAndIsGivenBack) {
  const testing::ExchangePlace place(testing::ExchangeWay::kShared);
  testing::EchoHandler handler;
  ExchangeServer server(place.server(), handler);
  auto first = std::make_unique<ExchangeClient>(place.client(server.target()));
  EXPECT_EQ(first->shared().size(), testing::ExchangePlace::kShared);
  EXPECT_EQ(ExchangeClient(place.client(server.target())).shared().size(), 0u) << "no room for a second one";
  first.reset();
  handler.lost.take();
  handler.lost.take();
  EXPECT_EQ(ExchangeClient(place.client(server.target())).shared().size(), testing::ExchangePlace::kShared);
}

// A client may ask for any amount: memory for others remains.
TEST(ExchangeShared, OneConnectionGetsNoMoreThanItsLimit) {
  const testing::ExchangePlace place(testing::ExchangeWay::kShared);
  testing::EchoHandler handler;
  ExchangeServer::Options options = place.server();
  options.shared_limit = 4 * testing::ExchangePlace::kShared;
  options.shared_limit_of_one = testing::ExchangePlace::kShared;
  const ExchangeServer server(options, handler);
  ExchangeClient::Options greedy = place.client(server.target());
  std::vector<std::unique_ptr<ExchangeClient>> clients;
  for (const std::size_t bytes : {std::size_t{1} << 40, testing::ExchangePlace::kShared + 1}) {
    greedy.shared_bytes = bytes;
    clients.push_back(std::make_unique<ExchangeClient>(greedy));
    EXPECT_EQ(clients.back()->shared().size(), 0U);
    EXPECT_EQ(clients.back()->send("sum", {}, {}).wait(kSoon).header, "0") << "over the socket";
  }
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<ExchangeClient>(place.client(server.target())));
    EXPECT_EQ(clients.back()->shared().size(), testing::ExchangePlace::kShared);
  }
}

TEST(ExchangeShared, WhoDoesNotSayWhatItIsForIsDropped) {
  const testing::ExchangePlace place(testing::ExchangeWay::kShared);
  testing::EchoHandler handler;
  ExchangeServer::Options options = place.server();
  options.shared_deadline = std::chrono::milliseconds(200);
  const ExchangeServer server(options, handler);
  const ExchangeClient idle(place.client(server.target()));
  handler.lost.take();
  EXPECT_EQ(server.counts().dropped, 1U);
  EXPECT_EQ(ExchangeClient(place.client(server.target())).shared().size(), testing::ExchangePlace::kShared);
}

TEST(ExchangeShared, PayloadsInItAreReadWhereTheyLie) {
  const testing::ExchangePlace place(testing::ExchangeWay::kShared);
  testing::EchoHandler handler;
  ExchangeServer server(place.server(), handler);
  ExchangeClient client(place.client(server.target()));
  const std::span<std::byte> payload = client.shared().subspan(64, 4);
  ExchangeClient::Pending pending = client.send("keep", payload, client.shared().subspan(128, 4));
  std::optional<ExchangeServer::Request> kept = handler.kept.take();
  ASSERT_TRUE(kept);
  payload[0] = std::byte{42};
  EXPECT_EQ(kept->payload()[0], std::byte{42});
  kept->reserve(4)[1] = std::byte{43};
  EXPECT_EQ(client.shared()[129], std::byte{43});
  kept->answer("");
  EXPECT_EQ(pending.wait(kSoon).bytes, 4u);
}

TEST(ExchangeUnix, TheSocketIsItsOwnersAndAServerKeepsIt) {
  const testing::ExchangePlace place(testing::ExchangeWay::kUnix);
  testing::EchoHandler handler;
  ExchangeServer server(place.server(), handler);
  struct stat found {};
  ASSERT_EQ(stat((place.folder() / "server").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(error_of([&] { ExchangeServer(place.server(), handler); }).code(), ErrorCode::kUnavailable);
}

TEST(ExchangeUnix, NobodyThereIsUnavailable) {
  const testing::ExchangePlace place(testing::ExchangeWay::kUnix);
  ExchangeClient::Options options = place.client(place.listening());
  options.connect_deadline = milliseconds(30);
  EXPECT_EQ(error_of([&] { ExchangeClient client(options); }).code(), ErrorCode::kUnavailable);
}

TEST(ExchangeUnix, AClientWaitsForAServerThatComesLater) {
  const testing::ExchangePlace place(testing::ExchangeWay::kUnix);
  std::optional<ExchangeClient> client;
  std::jthread connecting([&] { client.emplace(place.client(place.listening())); });
  testing::EchoHandler handler;
  ExchangeServer server(place.server(), handler);
  connecting.join();
  EXPECT_TRUE(client->connected());
}

}  // namespace
}  // namespace distbelief::comm
