#pragma once

#include <string>

namespace distbelief {

// Bytes as letters and digits, which pass every shell and environment on the way.
std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& hex);  // throws Error(kBadInput) when it is none

}  // namespace distbelief
