#pragma once

#include <string>
#include <vector>

#include "distbelief/comm/rpc/control.h"

// Sockets that listen. For the sources of this folder.
namespace distbelief::comm {

// Listening sockets, non-blocking, of one port: one for each address that the target's host has here. A Unix
// socket gets mode 0600. `target` becomes the address with the real port. Throws Error: kBadInput for a
// target that is none, kUnavailable when the address is taken or not this host's.
std::vector<int> listen_at(const ControlAddress& address, std::string& target);

// Where a connected socket's peer is: its address without the port; all of a Unix socket are in one place.
std::string source_of(int socket);
// The same from gRPC's name of a peer.
std::string source_of(const std::string& peer);

}  // namespace distbelief::comm
