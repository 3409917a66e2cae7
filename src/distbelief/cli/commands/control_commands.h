#pragma once

#include <filesystem>

namespace distbelief::cli {

// Whether a supervisor is there to be asked: one that was killed leaves its socket.
bool is_living(const std::filesystem::path& run_dir);

// When the run's supervisor lives: tells it to continue, or one of its workers (-1: all), says so, and gives
// true.
bool resume_living(const std::filesystem::path& run_dir, int worker);

}  // namespace distbelief::cli
