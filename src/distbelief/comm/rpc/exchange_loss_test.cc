// Requests after the sudden loss of the other side.
#include <gtest/gtest.h>

#include "distbelief/testing/test_exchange.h"
#include "distbelief/testing/test_process.h"

namespace distbelief::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Far less than any keepalive: the broken connection itself must report the loss.
constexpr milliseconds kLossDeadline{3000};

ErrorCode failure_of(ExchangeClient::Pending& pending, milliseconds deadline) {
  try {
    pending.wait(deadline);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "it was answered";
  return ErrorCode::kInternal;
}

class ExchangeLoss : public ::testing::TestWithParam<testing::ExchangeWay> {
 protected:
  testing::TestProcess process(const std::string& role, const std::string& target) const {
    if (GetParam() == testing::ExchangeWay::kTls)
      return testing::TestProcess({role, target, place_.folder().string()});
    return testing::TestProcess({role, target});
  }

  const testing::ExchangePlace place_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Ways, ExchangeLoss,
                         ::testing::Values(testing::ExchangeWay::kUnix, testing::ExchangeWay::kShared,
                                           testing::ExchangeWay::kTls),
                         [](const auto& way) { return testing::name_of(way.param); });

TEST_P(ExchangeLoss, AKilledServersRequestsFailAtOnce) {
  testing::TestProcess server = process("exchange_server", place_.listening());
  testing::Mailbox<bool> lost;
  ExchangeClient::Options options = place_.client(server.line());
  options.on_lost = [&] { lost.put(true); };
  ExchangeClient client(options);
  std::vector<std::byte> payload(kMaxPayloadBytes), into(kMaxPayloadBytes);
  std::vector<ExchangeClient::Pending> pending;
  for (int i = 0; i < 8; ++i) pending.push_back(client.send("keep", payload, into));
  server.kill_now();
  for (ExchangeClient::Pending& each : pending)
    EXPECT_EQ(failure_of(each, kLossDeadline), ErrorCode::kUnavailable);
  EXPECT_TRUE(lost.take(kLossDeadline));
  EXPECT_FALSE(client.connected());
  std::ranges::fill(client.shared(), std::byte{1});  // our mapping remains
}

TEST_P(ExchangeLoss, AKilledServersAddressCanBeUsedAgain) {
  std::string target;
  {
    testing::TestProcess server = process("exchange_server", place_.listening());
    target = server.line();
  }
  testing::EchoHandler handler;
  ExchangeServer::Options options = place_.server();
  options.address.target = target;
  const ExchangeServer next(options, handler);
  EXPECT_EQ(ExchangeClient(place_.client(target)).send("sum", {}, {}).wait(seconds(20)).header, "0");
}

TEST_P(ExchangeLoss, AKilledClientIsGoneAtOnceAndItsRequestStaysReadable) {
  testing::EchoHandler handler;
  const ExchangeServer server(place_.server(), handler);
  testing::TestProcess client = process("exchange_client", server.target());
  std::optional<ExchangeServer::Request> kept = handler.kept.take();
  ASSERT_TRUE(kept);
  client.kill_now();
  EXPECT_EQ(handler.lost.take(kLossDeadline), kept->peer().connection);
  EXPECT_EQ(testing::EchoHandler::sum(kept->payload()), 0);
  kept->answer("into nothing");
}

TEST_P(ExchangeLoss, MemoryLentToAServerThatStandsStillComesBackAtTheDeadline) {
  testing::TestProcess server = process("exchange_server", place_.listening());
  ExchangeClient::Options options = place_.client(server.line());
  options.address.silence = seconds(1);
  ExchangeClient client(options);
  ASSERT_EQ(kill(server.pid(), SIGSTOP), 0);
  {
    // More than all buffers on the way hold.
    std::vector<std::vector<std::byte>> payloads(16, std::vector<std::byte>(kMaxPayloadBytes));
    std::vector<ExchangeClient::Pending> pending;
    for (const std::vector<std::byte>& payload : payloads) pending.push_back(client.send("sum", payload, {}));
    const ErrorCode code = failure_of(pending.back(), milliseconds(50));
    EXPECT_EQ(code, ErrorCode::kTimeout);
  }
  // The payloads are gone here; the sanitizer would report a late read.
  SUCCEED();
}

}  // namespace
}  // namespace distbelief::comm
