#include "distbelief/comm/rpc/exchange_settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/resource_quota.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

constexpr std::chrono::milliseconds kTryAgain{10};

// A whole payload fits into one HTTP/2 frame, and several fit into the window.
constexpr std::pair<const char*, int> kStreamSettings[] = {
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20},
    {GRPC_ARG_HTTP2_BDP_PROBE, 0},  // the window keeps its fixed size
    {GRPC_ARG_ENABLE_RETRIES, 0},   // nothing is kept for retries
    {GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0},
    {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},  // a small message cannot expand into a large one
};

void apply_settings(grpc::ChannelArguments& arguments) {
  for (const auto& [name, value] : kStreamSettings) arguments.SetInt(name, value);
  // No limit here: check_frame rejects an oversized message by its head, and it is logged and counted. gRPC's
  // own limit would save nothing, because it applies when the whole message has arrived (grpc/grpc issue
  // 43012); the quota below bounds the memory of all messages.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
}

sockaddr_un socket_name(const ControlAddress& address) {
  channel_credentials(address);  // checks the path
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string path = socket_path(address);
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  return name;
}

}  // namespace

void require_loopback(const std::string& target) {
  const std::string host = target.substr(0, target.rfind(':'));
  in_addr numbers{};
  const bool numeric = inet_pton(AF_INET, host.c_str(), &numbers) == 1;  // 127.evil.example is a name
  if (host == "localhost" || host == "[::1]" || (numeric && host.starts_with("127."))) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("address {}: without certificates only 127.0.0.1, [::1] or localhost can be used; make "
                  "certificates with `distbelief certs`",
                  target));
}

std::shared_ptr<grpc::ServerCredentials> exchange_credentials(const ExchangeServer::Options& options) {
  if (!options.insecure || !socket_path(options.address).empty()) return server_credentials(options.address);
  require_loopback(options.address.target);
  return grpc::InsecureServerCredentials();
}

void set_exchange_arguments(grpc::ServerBuilder& builder, const ExchangeServer::Options& options) {
  set_server_arguments(builder, options.address);
  for (const auto& [name, value] : kStreamSettings) builder.AddChannelArgument(name, value);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.SetResourceQuota(grpc::ResourceQuota("exchange").Resize(options.memory_limit));
}

int connect_socket(const ControlAddress& address, std::chrono::milliseconds deadline) {
  const sockaddr_un name = socket_name(address);
  const auto last = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    const int connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connected >= 0 && connect(connected, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0)
      return connected;
    const int error = errno;
    if (connected >= 0) ::close(connected);
    if (std::chrono::steady_clock::now() > last)
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("no server answers at {} within {} ms: {}; is it running?", address.target,
                              deadline.count(), std::strerror(error)));
    std::this_thread::sleep_for(kTryAgain);
  }
}

std::shared_ptr<grpc::Channel> channel_over(int socket, const ControlAddress& address) {
  grpc::ChannelArguments arguments = channel_arguments(address);
  apply_settings(arguments);
  return grpc::CreateCustomInsecureChannelFromFd("distbelief-server", socket, arguments);
}

std::shared_ptr<grpc::Channel> channel_to(const ControlAddress& address, Wire wire) {
  grpc::ChannelArguments arguments = channel_arguments(address);
  apply_settings(arguments);
  if (wire == Wire::kPlain) {
    require_loopback(address.target);
    return grpc::CreateCustomChannel(address.target, grpc::InsecureChannelCredentials(), arguments);
  }
  arguments.SetSslTargetNameOverride("distbelief-" + expected_role(address));
  return grpc::CreateCustomChannel(address.target, channel_credentials(address), arguments);
}

}  // namespace distbelief::comm
