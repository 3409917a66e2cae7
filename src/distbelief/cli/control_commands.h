#pragma once

#include <filesystem>

namespace distbelief::cli {

// When the run's supervisor lives: tells it to continue, says so, and gives true.
bool resume_living(const std::filesystem::path& run_dir);

}  // namespace distbelief::cli
