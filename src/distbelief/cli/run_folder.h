#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "distbelief/base/config.h"

// The folder that a run writes to. What it was started with is in its job.toml, or its launch.json when it is
// a program of the user's.
namespace distbelief::cli {

// Makes it; when none is wanted: runs/NAME-TIME. Throws Error when it holds a run already or cannot be made.
std::filesystem::path make_run_dir(const std::string& wanted, const std::string& name);
std::string run_name(const Config& config);  // MODEL-DATA
// Writes the resolved job.
void write_job(const std::filesystem::path& run_dir, const Config& config);
// Throws Error(kBadInput) when it is none.
void require_run_dir(const std::filesystem::path& run_dir);
// Whether it is the run of a program of the user's.
bool is_launched(const std::filesystem::path& run_dir);
inline constexpr const char* kLaunchFile = "launch.json";
// Whether there is nothing left to do, and says so. Names damaged checkpoints. Throws when there is no whole
// one.
bool is_finished(const std::filesystem::path& run_dir, const Config& config, std::int64_t total_steps);
// How the run ended, for people.
void show_end(const std::filesystem::path& run_dir);

}  // namespace distbelief::cli
