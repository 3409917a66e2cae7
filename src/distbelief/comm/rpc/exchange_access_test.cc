// Access rules of parameter servers and of their clients.
#include <gtest/gtest.h>

#include "distbelief/comm/rpc/exchange_settings.h"
#include "distbelief/testing/test_exchange.h"
#include "distbelief/testing/test_raw_client.h"

namespace distbelief::comm {
namespace {

using std::chrono::seconds;

ErrorCode refused_with(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "was let in";
  return ErrorCode::kInternal;
}

class ExchangeAccess : public ::testing::Test {
 protected:
  ExchangeAccess() : server_(place_.server(), handler_) {}

  ExchangeClient::Options as(const std::string& certificate, const std::string& role) const {
    ExchangeClient::Options options = place_.client(server_.target());
    options.address = place_.address(certificate, server_.target());
    options.role = role;
    options.connect_deadline = seconds(1);
    return options;
  }

  // With any credentials; OK: it was welcomed.
  grpc::StatusCode greet_with(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    testing::RawClient client(testing::channel_with(server_.target(), credentials), testing::Reading::kAll);
    return client.greet() && client.hears() ? grpc::StatusCode::OK : client.ended().error_code();
  }

  const testing::ExchangePlace place_{testing::ExchangeWay::kTls};
  testing::EchoHandler handler_;
  ExchangeServer server_;
};

TEST_F(ExchangeAccess, WorkersAndServersAreLetIn) {
  EXPECT_EQ(ExchangeClient(as("worker", "worker")).send("sum", {}, {}).wait(seconds(20)).header, "0");
  EXPECT_EQ(ExchangeClient(as("server", "server")).send("sum", {}, {}).wait(seconds(20)).header, "0");
  EXPECT_EQ(server_.counts().connections, 2u);
}

TEST_F(ExchangeAccess, ARoleThatTheCertificateDoesNotProveIsRefused) {
  EXPECT_EQ(refused_with([&] { ExchangeClient client(as("operator", "worker")); }), ErrorCode::kBadInput);
  EXPECT_EQ(refused_with([&] { ExchangeClient client(as("operator", "operator")); }), ErrorCode::kBadInput);
  EXPECT_EQ(refused_with([&] { ExchangeClient client(as("worker", "server")); }), ErrorCode::kBadInput);
  EXPECT_EQ(server_.counts().turned_away, 3u);
}

TEST_F(ExchangeAccess, ARoleThatIsNotWantedIsRefused) {
  ExchangeServer::Options options = place_.server();
  options.roles = {"server"};
  ExchangeServer servers_only(options, handler_);
  ExchangeClient::Options worker = as("worker", "worker");
  worker.address.target = servers_only.target();
  EXPECT_EQ(refused_with([&] { ExchangeClient client(worker); }), ErrorCode::kBadInput);
}

TEST_F(ExchangeAccess, CertificatesOfAnotherAuthorityAreRefused) {
  const ScratchFolder other;
  make_certificates(other.path(), std::chrono::days(1));
  ExchangeClient::Options stranger = as("worker", "worker");
  stranger.address.certificate = other.path() / "worker.pem";
  stranger.address.key = other.path() / "worker.key";
  EXPECT_EQ(refused_with([&] { ExchangeClient client(stranger); }), ErrorCode::kUnavailable);
}

TEST_F(ExchangeAccess, APeerWithoutACertificateIsRefusedByTheServer) {
  grpc::SslCredentialsOptions bare;
  bare.pem_root_certs = read_text(place_.folder() / "ca.pem");
  EXPECT_EQ(greet_with(grpc::SslCredentials(bare)), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(greet_with(grpc::InsecureChannelCredentials()), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.counts().connections, 0u);
  // The same greeting with a certificate succeeds: only the certificate was missing.
  bare.pem_private_key = read_text(place_.folder() / "worker.key");
  bare.pem_cert_chain = read_text(place_.folder() / "worker.pem");
  EXPECT_EQ(greet_with(grpc::SslCredentials(bare)), grpc::StatusCode::OK);
  EXPECT_EQ(server_.counts().connections, 1u);
}

TEST_F(ExchangeAccess, OurOwnClientDoesNotTryWithoutACertificate) {
  ExchangeClient::Options bare = as("worker", "worker");
  bare.insecure = true;  // speaks plain TCP to a server that wants TLS
  EXPECT_EQ(refused_with([&] { ExchangeClient client(bare); }), ErrorCode::kUnavailable);
  bare.insecure = false;
  bare.address.certificate.clear();
  EXPECT_EQ(refused_with([&] { ExchangeClient client(bare); }), ErrorCode::kBadInput);
}

TEST_F(ExchangeAccess, AServerThatCannotProveToBeOneIsRefused) {
  ExchangeServer::Options options = place_.server();
  options.address = place_.address("worker", "localhost:0");
  ExchangeServer impostor(options, handler_);
  ExchangeClient::Options worker = as("worker", "worker");
  worker.address.target = impostor.target();
  EXPECT_EQ(refused_with([&] { ExchangeClient client(worker); }), ErrorCode::kUnavailable);
}

TEST(ExchangePlain, TcpWithoutCertificatesIsForLoopbackAndOnlyWhenAskedFor) {
  testing::EchoHandler handler;
  EXPECT_EQ(refused_with([&] { ExchangeServer({.address = {.target = "localhost:0"}}, handler); }),
            ErrorCode::kBadInput);
  EXPECT_EQ(
      refused_with([&] { ExchangeServer({.address = {.target = "0.0.0.0:0"}, .insecure = true}, handler); }),
      ErrorCode::kBadInput);
  for (const char* target :
       {"10.0.0.1:70", "host1:70", "127.evil.example:70", "[::]:70", "[2001:db8::1]:70", "1270.0.0.1:1"})
    EXPECT_EQ(refused_with([&] { require_loopback(target); }), ErrorCode::kBadInput) << target;
  for (const char* target : {"127.0.0.1:70", "127.1.2.3:70", "[::1]:70", "localhost:70"})
    require_loopback(target);
}

}  // namespace
}  // namespace distbelief::comm
