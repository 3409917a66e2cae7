#pragma once

#include <cstdint>
#include <filesystem>

namespace distbelief {

// Bytes of memory that this process may use, page cache included: the machine's, or less where a control
// group (a container, a job of a cluster's scheduler) limits it. 0 where the kernel does not tell. Reads a
// few small files. `root` stands for / in tests.
std::uint64_t memory_limit(const std::filesystem::path& root = "/");

}  // namespace distbelief
