// Access rules of the control connections.
#include <gtest/gtest.h>
#include <proto/control.grpc.pb.h>
#include <sys/stat.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/comm/rpc/transport.h"
#include "distbelief/testing/test_supervisor.h"

namespace distbelief::comm {
namespace {

using std::chrono::seconds;

ErrorCode code_of(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "was let in";
  return ErrorCode::kInternal;
}

void connect_worker(const ControlAddress& address) {
  ControlClient({.address = address, .connect_deadline = seconds(2)});
}

void command(const ControlAddress& address) { call_supervisor(address, {.name = "status"}, seconds(20)); }

class TlsAccess : public ::testing::Test {
 protected:
  TlsAccess() {
    make_certificates(scratch_.path(), std::chrono::days(1));
    server_.emplace(as("supervisor", "localhost:0"), handler_);
  }
  ControlAddress as(const std::string& role, const std::string& target) const {
    return secure_address(target, scratch_.path(), role);
  }
  ControlAddress as(const std::string& role) const { return as(role, server_->target()); }

  // With credentials that our own client would not use.
  grpc::StatusCode call_with(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("distbelief-supervisor");
    const auto stub = distbelief::control::Control::NewStub(
        grpc::CreateCustomChannel(server_->target(), credentials, arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(20));
    distbelief::control::Reply reply;
    return stub->Call(&context, {}, &reply).error_code();
  }

  ScratchFolder scratch_;
  testing::RecordingHandler handler_;
  std::optional<ControlServer> server_;
};

TEST_F(TlsAccess, OnlyWorkersReportAndOnlyOperatorsCommand) {
  connect_worker(as("worker"));
  command(as("operator"));
  EXPECT_EQ(code_of([&] { connect_worker(as("operator")); }), ErrorCode::kBadInput);
  EXPECT_EQ(code_of([&] { command(as("worker")); }), ErrorCode::kBadInput);
  EXPECT_EQ(code_of([&] { command(as("supervisor")); }), ErrorCode::kUnavailable);  // no client's certificate
}

TEST_F(TlsAccess, AServerThatIsNoSupervisorIsRefused) {
  testing::RecordingHandler handler;
  const ControlServer impostor(as("worker", "localhost:0"), handler);
  EXPECT_EQ(code_of([&] { connect_worker(as("worker", impostor.target())); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([&] { command(as("operator", impostor.target())); }), ErrorCode::kUnavailable);
}

TEST_F(TlsAccess, CertificatesOfAnotherAuthorityAreRefused) {
  const ScratchFolder other;
  make_certificates(other.path(), std::chrono::days(1));
  ControlAddress stranger = as("operator");
  stranger.certificate = other.path() / "operator.pem";
  stranger.key = other.path() / "operator.key";
  EXPECT_EQ(code_of([&] { command(stranger); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([&] { command(secure_address(server_->target(), other.path(), "operator")); }),
            ErrorCode::kUnavailable);
}

TEST_F(TlsAccess, APeerWithoutACertificateIsRefused) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = read_text(scratch_.path() / "ca.pem");
  EXPECT_EQ(call_with(grpc::SslCredentials(options)), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(call_with(grpc::InsecureChannelCredentials()), grpc::StatusCode::UNAVAILABLE);
  // The same call with a certificate succeeds: only the certificate was missing.
  options.pem_private_key = read_text(scratch_.path() / "operator.key");
  options.pem_cert_chain = read_text(scratch_.path() / "operator.pem");
  EXPECT_EQ(call_with(grpc::SslCredentials(options)), grpc::StatusCode::OK);
}

TEST_F(TlsAccess, TcpWithoutCertificatesIsBadInput) {
  testing::RecordingHandler handler;
  EXPECT_EQ(code_of([&] { ControlServer({.target = "localhost:0"}, handler); }), ErrorCode::kBadInput);
  EXPECT_EQ(code_of([&] { command({.target = server_->target()}); }), ErrorCode::kBadInput);
  ControlAddress torn = as("operator");
  torn.key = scratch_.path() / "missing.key";
  EXPECT_EQ(code_of([&] { command(torn); }), ErrorCode::kBadInput);
}

TEST(UnixAccess, TheSocketIsItsOwnersAndGoesWithTheServer) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "control";
  testing::RecordingHandler handler;
  ControlServer server({.target = "unix:" + path.string()}, handler);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  server.close();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(UnixAccess, APathTooLongForASocketIsBadInput) {
  testing::RecordingHandler handler;
  const std::string target = "unix:/" + std::string(200, 'x');
  EXPECT_EQ(code_of([&] { ControlServer({.target = target}, handler); }), ErrorCode::kBadInput);
  EXPECT_EQ(code_of([&] { command({.target = target}); }), ErrorCode::kBadInput);
}

}  // namespace
}  // namespace distbelief::comm
