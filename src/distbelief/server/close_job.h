#pragma once

#include <string>
#include <vector>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::server {

// Frees a job's space on all servers; `servers`: where a map can be had, with certificates for all. Throws
// Error when none answers.
void close_job(const std::vector<comm::ControlAddress>& servers, const std::string& job);

}  // namespace distbelief::server
