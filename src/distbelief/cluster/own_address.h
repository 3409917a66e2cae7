#pragma once

#include <string>
#include <vector>

#include "distbelief/cluster/hosts.h"

namespace distbelief::cluster {

// This machine's address as seen by the first of `hosts` that is another machine; the loopback address if
// there is none. Throws Error(kUnavailable) for a host name that does not resolve.
std::string own_address(const std::vector<HostSlots>& hosts);

// The address that a host's name resolves to; throws as above.
std::string host_address(const std::string& host);

}  // namespace distbelief::cluster
