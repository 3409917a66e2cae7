#pragma once

#include <string>
#include <vector>

#include "distbelief/comm/rpc/control.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {

// Returns the map of servers from the first of these that answers. Throws Error when none does.
ServerMap find_map(const std::vector<comm::ControlAddress>& servers);

// Frees a job's state on all servers. `servers`: servers that have a map, with certificates for all. Throws
// Error when none answers.
void close_job(const std::vector<comm::ControlAddress>& servers, const std::string& job);

}  // namespace distbelief::server
