#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>

#include "distbelief/comm/rpc/control.h"

// Addresses, credentials and settings of connections. Private to this folder.
namespace distbelief::comm {

// The path of a "unix:" address, else empty.
std::string socket_path(const ControlAddress& address);
bool is_on_this_host(const ControlAddress& address);  // it is a "unix:" address
// Throws Error(kBadInput) for a path that is empty or too long.
void check_socket_path(const ControlAddress& address);

// All throw Error(kBadInput) for an address or certificate files that cannot be used.
std::shared_ptr<grpc::Channel> open_channel(const ControlAddress& address);
grpc::ChannelArguments channel_arguments(const ControlAddress& address);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const ControlAddress& address);
std::shared_ptr<grpc::ServerCredentials> server_credentials(const ControlAddress& address);
void set_server_arguments(grpc::ServerBuilder& builder, const ControlAddress& address);

// Throws Error(kUnavailable) when a process listens on a "unix:" address: gRPC would take the path away from
// a living server.
void refuse_taken(const ControlAddress& address);

// The role that a client requires of its server.
std::string expected_role(const ControlAddress& address);

// Whether the peer may act as `role`: its certificate says so, or it came over a Unix socket.
bool has_role(const grpc::AuthContext& peer, const ControlAddress& address, std::string_view role);

// Sends gRPC's own messages to the log at level debug instead of to stderr.
void quiet_grpc();

}  // namespace distbelief::comm
