#pragma once

#include <cstdint>
#include <filesystem>

namespace distbelief::run {

// The number in the run folder of the generation of workers that may write there; a worker with a smaller
// number has been replaced. 0: there is none.
std::int64_t read_fence(const std::filesystem::path& run_dir);

}  // namespace distbelief::run
