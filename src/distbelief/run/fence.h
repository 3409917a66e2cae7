#pragma once

#include <cstdint>
#include <filesystem>

namespace distbelief::run {

// The number in the run folder that tells which generation of workers may write there: a worker whose own is
// smaller has been replaced. 0: there is none.
std::int64_t read_fence(const std::filesystem::path& run_dir);

}  // namespace distbelief::run
