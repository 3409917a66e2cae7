#pragma once

#include <cstddef>
#include <string>

namespace distbelief::job {

// "1.2G", "800M", "1.5GiB", "2000000000"; G is 2^30. Throws Error(kBadInput) that names `flag`.
std::size_t parse_bytes(const std::string& text, const std::string& flag);

}  // namespace distbelief::job
