#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <string>

namespace distbelief::report {

// Opens logs/NAME.log in the run folder: worker-0, server-1. Throws Error(kUnavailable) when it is not
// writable.
std::shared_ptr<spdlog::logger> open_log(const std::filesystem::path& run_dir, const std::string& name);

}  // namespace distbelief::report
