#pragma once

#include <filesystem>

namespace distbelief::cli {

// When the run's supervisor lives: tells it to continue, or one of its workers (-1: all), says so, and gives
// true.
bool resume_living(const std::filesystem::path& run_dir, int worker);

}  // namespace distbelief::cli
