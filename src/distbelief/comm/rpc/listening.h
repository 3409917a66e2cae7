#pragma once

#include <string>
#include <vector>

#include "distbelief/comm/rpc/control.h"

// Listening sockets. Private to this folder.
namespace distbelief::comm {

// Returns non-blocking listening sockets on one port: one for each address of the target's host on this
// machine. A Unix socket gets mode 0600. `target` becomes the address with the real port. Throws Error:
// kBadInput for an invalid target, kUnavailable when the address is taken or not this host's.
std::vector<int> listen_at(const ControlAddress& address, std::string& target);

// The source of a connected socket: the peer's address without the port. All Unix sockets have the same
// source.
std::string source_of(int socket);
// The same for gRPC's name of a peer.
std::string source_of(const std::string& peer);

}  // namespace distbelief::comm
