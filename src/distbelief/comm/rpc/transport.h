#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>

#include "distbelief/comm/rpc/control.h"

// Addresses, credentials and settings of connections. For the sources of this folder.
namespace distbelief::comm {

// The path of a "unix:" address, else empty.
std::string socket_path(const ControlAddress& address);

// All three throw Error(kBadInput) for an address or certificate files that cannot be used.
std::shared_ptr<grpc::Channel> open_channel(const ControlAddress& address);
std::shared_ptr<grpc::ServerCredentials> server_credentials(const ControlAddress& address);
void set_server_arguments(grpc::ServerBuilder& builder, const ControlAddress& address);

// What is expected of a client's peer.
std::string expected_role(const ControlAddress& address);

// Whether the peer may act as `role`: its certificate says so, or it came over a Unix socket.
bool has_role(const grpc::AuthContext& peer, const ControlAddress& address, std::string_view role);

// gRPC's own messages go to the log at level debug instead of to stderr.
void quiet_grpc();

}  // namespace distbelief::comm
