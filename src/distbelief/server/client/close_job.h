#pragma once

#include <string>
#include <vector>

#include "distbelief/comm/rpc/control.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {

// Who has what, as the first of these that answers knows it. Throws Error when none does.
ServerMap find_map(const std::vector<comm::ControlAddress>& servers);

// Frees a job's space on all servers; `servers`: where a map can be had, with certificates for all. Throws
// Error when none answers.
void close_job(const std::vector<comm::ControlAddress>& servers, const std::string& job);

}  // namespace distbelief::server
