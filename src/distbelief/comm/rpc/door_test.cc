// Admission to a server that hostile clients attack all the time.
#include "distbelief/comm/rpc/door.h"

#include <gtest/gtest.h>

#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/comm/rpc/control_server.h"
#include "distbelief/comm/rpc/listening.h"
#include "distbelief/testing/test_exchange.h"
#include "distbelief/testing/test_raw_client.h"

namespace distbelief::comm {
namespace {

using namespace std::chrono_literals;

TEST(Listening, ASourceHasOneNameWithAndWithoutItsPort) {
  EXPECT_EQ(source_of("ipv4:127.0.0.1:4711"), "127.0.0.1");
  EXPECT_EQ(source_of("ipv6:[::1]:4711"), "::1");
  EXPECT_EQ(source_of("ipv6:%5B2001:db8::7%5D:4711"), "2001:db8::7");
  EXPECT_EQ(source_of("ipv6:%5Bfe80::1%25eth0%5D:4711"), "fe80::1");
  EXPECT_EQ(source_of("unix:"), "unix");
  EXPECT_EQ(source_of("unix:/tmp/socket"), "unix");
}

TEST(Listening, ListensOnAllAddressesOfTheHostAtOnePort) {
  std::string target;
  const std::vector<int> sockets = listen_at({.target = "localhost:0"}, target);
  EXPECT_GE(sockets.size(), 1u);
  EXPECT_NE(target, "localhost:0");
  std::string again;
  try {
    listen_at({.target = target}, again);
    ADD_FAILURE() << target << " is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  }
  for (const int socket : sockets) ::close(socket);
}

// Clients without certificates that reconnect until they are stopped.
class Strangers {
 public:
  Strangers(const std::string& target, const std::filesystem::path& folder) {
    grpc::SslCredentialsOptions bare;
    bare.pem_root_certs = read_text(folder / "ca.pem");
    for (int i = 0; i < 3; ++i)
      threads_.emplace_back([this, target, bare](const std::stop_token& stop) {
        for (; !stop.stop_requested(); ++refused_) {
          testing::RawClient client(testing::channel_with(target, grpc::SslCredentials(bare)),
                                    testing::Reading::kAll);
          EXPECT_FALSE(client.greet() && client.hears());
        }
      });
  }
  void await_refused(int count) const {
    for (const int before = refused_; refused_ < before + count;) std::this_thread::yield();
  }

 private:
  std::atomic<int> refused_{0};
  std::vector<std::jthread> threads_;
};

TEST(Door, ANewcomerGetsInToAParameterServerWhileStrangersKnock) {
  const testing::ExchangePlace place(testing::ExchangeWay::kTls);
  testing::EchoHandler handler;
  ExchangeServer::Options options = place.server();
  options.admission = {.turns = 2, .turns_per_second = 20};
  ExchangeServer server(options, handler);
  const Strangers strangers(server.target(), place.folder());
  strangers.await_refused(6);  // no turns are left
  for (int i = 0; i < 3; ++i) {
    ExchangeClient client(place.client(server.target()));
    EXPECT_EQ(client.send("sum", {}, {}).wait(20s).header, "0");
    strangers.await_refused(1);
  }
  EXPECT_EQ(server.counts().connections, 3u);
}

TEST(Door, CommandsGetInToASupervisorWhileStrangersKnock) {
  const testing::ExchangePlace place(testing::ExchangeWay::kTls);
  testing::RecordingHandler handler;
  ControlServer server(place.address("supervisor", "localhost:0"), handler);
  const Strangers strangers(server.target(), place.folder());
  strangers.await_refused(40);  // no turns are left
  EXPECT_TRUE(call_supervisor(place.address("operator", server.target()), {.name = "status"}, 20s).ok);
}

// A client that is admitted and stays gives its turn back, so any number can come one after another.
TEST(Door, ManyWhoStayGetInThoughTurnsAreFew) {
  const testing::ExchangePlace place(testing::ExchangeWay::kUnix);
  testing::EchoHandler handler;
  ExchangeServer::Options options = place.server();
  options.admission = {.turns = 4, .turns_per_second = 0};
  ExchangeServer server(options, handler);
  std::vector<std::unique_ptr<ExchangeClient>> clients;
  for (int i = 0; i < 6; ++i)
    clients.push_back(std::make_unique<ExchangeClient>(place.client(server.target())));
  EXPECT_EQ(server.counts().connections, 6u);
}

}  // namespace
}  // namespace distbelief::comm
