#include "distbelief/comm/rpc/transport.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "distbelief/base/error.h"

namespace distbelief::comm {
namespace {

constexpr std::string_view kUnixScheme = "unix:";
constexpr int kHandshakeMs = 5000;

std::string read_pem(const ControlAddress& address, std::string_view what, const std::string& path) {
  if (path.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: between hosts both sides prove who they are, but no {} is given; "
                            "make certificates, or use unix:/path on one host",
                            address.target, what));
  if (path.starts_with("-----BEGIN ")) return path;  // the PEM text itself
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.find("-----BEGIN ") == std::string::npos)
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: {} {} cannot be read as a PEM file", address.target, what, path));
  return text;
}

struct Pems {
  std::string ca, certificate, key;
};

Pems read_pems(const ControlAddress& address) {
  return {.ca = read_pem(address, "CA certificate", address.ca),
          .certificate = read_pem(address, "certificate", address.certificate),
          .key = read_pem(address, "key", address.key)};
}

// Half of the silence until a ping, the other half for its answer.
int half_silence_ms(const ControlAddress& address) {
  return static_cast<int>(std::max<std::int64_t>(1, address.silence.count() / 2));
}

void log_grpc(gpr_log_func_args* entry) {
  spdlog::debug("gRPC, {}:{}: {}", entry->file, entry->line, entry->message);
}

}  // namespace

std::string socket_path(const ControlAddress& address) {
  return address.target.starts_with(kUnixScheme) ? address.target.substr(kUnixScheme.size()) : "";
}

bool is_on_this_host(const ControlAddress& address) { return address.target.starts_with(kUnixScheme); }

void check_socket_path(const ControlAddress& address) {
  const std::size_t length = socket_path(address).size();
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (length == 0 || length > kMost)
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: a Unix socket's path has 1 to {} bytes, this one {}; "
                            "use a shorter folder",
                            address.target, kMost, length));
}

std::string expected_role(const ControlAddress& address) {
  return address.expected_role.empty() ? "supervisor" : address.expected_role;
}

bool has_role(const grpc::AuthContext& peer, const ControlAddress& address, std::string_view role) {
  if (!socket_path(address).empty()) return true;
  const std::vector<grpc::string_ref> names = peer.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
  const std::string wanted = fmt::format("distbelief:role/{}", role);
  return std::ranges::any_of(names, [&](const grpc::string_ref& name) { return name == wanted; });
}

grpc::ChannelArguments channel_arguments(const ControlAddress& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // hosts of a run reach each other directly
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // its own connection
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  if (!socket_path(address).empty()) return arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, half_silence_ms(address));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, half_silence_ms(address));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const ControlAddress& address) {
  if (is_on_this_host(address)) {
    check_socket_path(address);
    return grpc::InsecureChannelCredentials();
  }
  const Pems pems = read_pems(address);
  return grpc::SslCredentials(
      {.pem_root_certs = pems.ca, .pem_private_key = pems.key, .pem_cert_chain = pems.certificate});
}

std::shared_ptr<grpc::Channel> open_channel(const ControlAddress& address) {
  grpc::ChannelArguments arguments = channel_arguments(address);
  // The certificate names a role, not a host: a supervisor may run anywhere.
  if (socket_path(address).empty())
    arguments.SetSslTargetNameOverride("distbelief-" + expected_role(address));
  return grpc::CreateCustomChannel(address.target, channel_credentials(address), arguments);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const ControlAddress& address) {
  if (is_on_this_host(address)) {
    check_socket_path(address);
    return grpc::InsecureServerCredentials();
  }
  const Pems pems = read_pems(address);
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pems.ca;
  options.pem_key_cert_pairs.push_back({.private_key = pems.key, .cert_chain = pems.certificate});
  return grpc::SslServerCredentials(options);
}

void set_server_arguments(grpc::ServerBuilder& builder, const ControlAddress& address) {
  builder.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  if (!socket_path(address).empty()) return;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, half_silence_ms(address));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, half_silence_ms(address));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients ping as often as we do; by default a server treats that as an attack and disconnects.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
}

void refuse_taken(const ControlAddress& address) {
  const std::string path = socket_path(address);
  if (path.empty()) return;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool taken = connect(probe, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  ::close(probe);
  if (taken)
    throw Error(
        ErrorCode::kUnavailable,
        fmt::format("address {}: a process listens there already; stop that run first, or use another folder",
                    address.target));
}

void quiet_grpc() { gpr_set_log_function(log_grpc); }

}  // namespace distbelief::comm
