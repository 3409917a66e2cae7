#pragma once

#include <filesystem>

namespace distbelief::cli {

// Whether the run's supervisor is alive; a killed one leaves its socket behind.
bool is_living(const std::filesystem::path& run_dir);

// If the run's supervisor is alive, orders it or one of its workers (-1: all) to continue, prints that, and
// returns true.
bool resume_living(const std::filesystem::path& run_dir, int worker);

}  // namespace distbelief::cli
