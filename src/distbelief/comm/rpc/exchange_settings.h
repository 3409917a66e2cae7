#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "distbelief/comm/rpc/control.h"
#include "distbelief/comm/rpc/exchange_server.h"

// Channels and credentials of the parameter servers' transport. Private to this folder.
namespace distbelief::comm {

// Throws Error(kBadInput) for a target that is neither a Unix socket nor a loopback address.
void require_loopback(const std::string& target);

std::shared_ptr<grpc::ServerCredentials> exchange_credentials(const ExchangeServer::Options& options);
void set_exchange_arguments(grpc::ServerBuilder& builder, const ExchangeServer::Options& options);

// Returns a connected Unix socket; waits until a server listens there. Throws Error(kUnavailable) at the
// deadline.
int connect_socket(const ControlAddress& address, std::chrono::milliseconds deadline);
// Makes a channel over a connected socket and takes ownership of the socket.
std::shared_ptr<grpc::Channel> channel_over(int socket, const ControlAddress& address);
enum class Wire { kTls, kPlain };
std::shared_ptr<grpc::Channel> channel_to(const ControlAddress& address, Wire wire);

}  // namespace distbelief::comm
