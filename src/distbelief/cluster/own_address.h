#pragma once

#include <string>
#include <vector>

#include "distbelief/cluster/hosts.h"

namespace distbelief::cluster {

// The address of this machine by which the first of `hosts` that is another one would reach it; the loopback
// address when all are this one. Throws Error(kUnavailable) for a host whose name means nothing here.
std::string own_address(const std::vector<HostSlots>& hosts);

// The address of a host, as names are known here; throws as above.
std::string host_address(const std::string& host);

}  // namespace distbelief::cluster
