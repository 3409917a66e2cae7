#pragma once

#include <string>

namespace distbelief {

// Encodes bytes as letters and digits, which pass every shell and environment unchanged.
std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& hex);  // throws Error(kBadInput) for other text

}  // namespace distbelief
