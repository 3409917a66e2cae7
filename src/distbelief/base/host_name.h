#pragma once

#include <string>

namespace distbelief {

std::string host_name();  // name of this machine

}  // namespace distbelief
