#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>

namespace distbelief::train {

// logs/worker-RANK.log in the run folder. Throws Error(kUnavailable) when it cannot be written.
std::shared_ptr<spdlog::logger> open_worker_log(const std::filesystem::path& run_dir, int rank);

}  // namespace distbelief::train
