#pragma once

#include <cstdint>
#include <filesystem>

namespace distbelief {

// Bytes of memory that this process may use, page cache included: the machine's memory, or less under the
// limit of a control group (a container, a scheduler's job). 0 where the kernel does not tell. Reads a few
// small files. `root` replaces / in tests.
std::uint64_t memory_limit(const std::filesystem::path& root = "/");

}  // namespace distbelief
